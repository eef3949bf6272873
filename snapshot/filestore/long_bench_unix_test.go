//go:build unix

package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// longRecords is the number of records in a run of 200,000 calls.
const longRecords = 400_000

// longRun creates a compacted run of 200,000 calls.
func longRun(b *testing.B) (dir string, s *filestore.Store) {
	b.Helper()
	dir = b.TempDir()
	s = newFileStore(b, dir)
	output := testkit.Encoded(b, "sunny, 21 degrees")
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}, func(yield func(record.Record, error) bool) {
		for seq := uint64(1); seq <= longRecords; seq += 2 {
			address, err := record.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", seq/2+2))
			r := record.Record{
				Seq: seq, Address: address, Name: "get_weather", Kind: record.KindTool, Status: record.StatusStarted,
				Time: time.Unix(1_700_000_000, 0), MaxAttempts: 3, Generation: 1,
			}
			if !yield(r, err) {
				return
			}
			r.Seq, r.Status, r.Duration, r.Elapsed = seq+1, record.StatusCompleted, time.Second, time.Second
			r.Detail = &record.Detail{Output: output}
			if !yield(r, nil) {
				return
			}
		}
	})
	require.NoError(b, err)
	_, err = s.Create(b.Context(), run)
	require.NoError(b, err)
	return dir, s
}

// heap returns the size of the heap in use, in MB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// cpu returns the CPU time of this process, in ms. On a busy machine it is more
// accurate than the elapsed time.
func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

// measure runs f, and reports its CPU time.
func measure(b *testing.B, name string, f func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		before := cpu()
		for b.Loop() {
			f()
		}
		b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op")
	})
}

// BenchmarkLongRun opens and reads a run of 200,000 calls, both intact and with a flipped bit.
func BenchmarkLongRun(b *testing.B) {
	dir, s := longRun(b)
	var st *state.ExecutionState
	measure(b, "open and close", func() {
		if st != nil {
			require.NoError(b, st.Close())
		}
		var err error
		st, err = state.Open(b.Context(), s, "run")
		require.NoError(b, err)
	})
	kept := heap()
	require.NoError(b, st.Close())
	st = nil
	b.Logf("an open run takes %.0f MB", kept-heap())
	measure(b, "load", func() {
		_, err := s.Load(b.Context(), "run")
		require.NoError(b, err)
	})
	measure(b, "end", func() { // the last ten records
		n := 0
		for _, err := range s.Records(b.Context(), "run", longRecords-10) {
			require.NoError(b, err)
			n++
		}
		require.GreaterOrEqual(b, n, 10)
	})
	all, err := filepath.Glob(filepath.Join(dir, "runs", "run", "*.snapshot"))
	require.NoError(b, err)
	require.Len(b, all, 1)
	data, err := os.ReadFile(all[0])
	require.NoError(b, err)
	for _, percent := range []int64{10, 50, 90} {
		require.NoError(b, os.WriteFile(all[0], flipped(data, int64(len(data))*percent/100), 0o600))
		measure(b, fmt.Sprintf("damaged/at=%d%%", percent), func() {
			_, err := s.Load(b.Context(), "run")
			require.ErrorIs(b, err, snapshot.ErrCorrupt)
		})
	}
	require.NoError(b, os.WriteFile(all[0], data, 0o600))
}

// BenchmarkGarbage loads a run whose journal has 200 MB of garbage.
func BenchmarkGarbage(b *testing.B) {
	const size = 200 << 20
	for name, data := range garbage(size) {
		p := place{dir: b.TempDir()}
		s := newFileStore(b, p.dir, filestore.WithWarnings(func(string, error) {}))
		writeGarbage(b, p, data)
		measure(b, fmt.Sprintf("%s/%d MB", name, size>>20), func() {
			_, err := s.Load(b.Context(), "run")
			require.NoError(b, err)
		})
		require.NoError(b, os.RemoveAll(filepath.Join(p.dir, "runs")))
	}
}
