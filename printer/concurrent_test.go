package printer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
)

// writes keeps what each call of Write was given. It has no lock: the race
// detector sees two calls at once.
type writes []string

func (w *writes) Write(data []byte) (int, error) {
	*w = append(*w, string(data))
	return len(data), nil
}

func TestLinesOfConcurrentRunsNeverMix(t *testing.T) {
	const runs, rounds = 8, 50
	name := func(run int) string { return strings.Repeat(string(rune('a'+run)), 60) }
	records := make([][]core.Record, runs)
	want := map[string]int{}
	for run := range runs {
		records[run] = recovering(t)
		for i := range records[run] {
			r := &records[run][i]
			r.RunID, r.Name = fmt.Sprint(run), name(run)
			want[printed([]core.Record{*r})] += rounds
		}
	}

	var out writes
	p := printer.New(&out)
	var wg sync.WaitGroup
	for run := range runs {
		wg.Go(func() {
			for range rounds {
				for _, r := range records[run] {
					p.Publish(r)
				}
				p.Summary()
				assert.NoError(t, p.Err())
			}
		})
	}
	wg.Wait()

	got := map[string]int{}
	for _, text := range out {
		got[text]++
	}
	require.Equal(t, want, got)
	assert.Equal(t, runs, p.Summary().Calls())
}
