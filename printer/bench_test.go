package printer_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

// busyRun returns an endless sequence of records that resembles the records of a run with retries.
// The calls are made in an agent and in the branches of a group, and each call has its own address.
func busyRun(b *testing.B) func() record.Record {
	b.Helper()
	var records []record.Record
	for i := range 256 {
		path := fmt.Sprintf("assistant/fetch_data#%d", i+2)
		if i%2 == 0 {
			path = fmt.Sprintf("assistant/group:cities/%d", i+1)
		}
		call := recovering(b)
		for j := range call {
			call[j].Address = address(b, path)
		}
		records = append(records, call...)
	}
	n := 0
	return func() record.Record {
		r := records[n%len(records)]
		n++
		r.Seq = uint64(n)
		return r
	}
}

// BenchmarkPublish measures writing records to a file. For comparison, it also writes the same
// number of lines of the same length with fmt.Fprintln.
func BenchmarkPublish(b *testing.B) {
	for _, form := range []struct {
		name    string
		options []printer.Option
	}{
		{"plain", nil},
		{"compact", []printer.Option{printer.WithCompact()}},
		{"live", []printer.Option{printer.WithTerminal(func() (int, int) { return 100, 40 })}},
	} {
		b.Run("form="+form.name, func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "out"))
			require.NoError(b, err)
			defer f.Close()
			next := busyRun(b)
			p := printer.New(f, form.options...)
			b.ReportAllocs()
			for b.Loop() {
				p.Publish(next())
			}
			took := b.Elapsed()
			require.NoError(b, p.Close())
			size, err := f.Seek(0, io.SeekCurrent)
			require.NoError(b, err)

			line := strings.Repeat("x", max(1, int(size)/b.N-1))
			start := time.Now()
			for range b.N {
				fmt.Fprintln(f, line)
			}
			b.ReportMetric(float64(took)/float64(time.Since(start)), "×Fprintln")
			b.ReportMetric(float64(b.N)/took.Seconds(), "records/s")
		})
	}
}
