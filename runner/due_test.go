package runner_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// TestRunsThatWereDueBeginInTheirOrder starts a service after it was down for a long time, so all
// runs in its directory, both queued and parked, are due. REPRISE_DUE sets the number of runs, and
// TMPDIR sets where the directory is.
func TestRunsThatWereDueBeginInTheirOrder(t *testing.T) {
	n := numberFrom(t, "REPRISE_DUE", 300)
	const limit = 10
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	type due struct {
		id       string
		priority int
		at       time.Time
	}
	rng := rand.New(rand.NewPCG(3, 3))
	var want []due
	input, err := record.Encode(word{"x"})
	require.NoError(t, err)
	began := time.Now()
	for i := range n {
		d := due{fmt.Sprintf("run-%06d", i), rng.IntN(3), began.Add(-time.Duration(1+rng.IntN(1e6)) * time.Millisecond)}
		want = append(want, d)
		info := snapshot.Info{RunID: d.id, Status: snapshot.StatusQueued, Program: "work", Version: "1", Priority: d.priority, Due: d.at}
		if i%2 == 0 {
			info.Status = snapshot.StatusPaused
		}
		run, err := snapshot.NewRun(info, func(yield func(record.Record, error) bool) {
			yield(record.Record{RunID: d.id, Seq: 1, Time: began, Name: "work", Kind: record.KindRun, Status: record.StatusRecorded, Detail: &record.Detail{Input: input}}, nil)
		})
		require.NoError(t, err)
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)
	}
	slices.SortFunc(want, func(a, b due) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.at.Compare(b.at), cmp.Compare(a.id, b.id))
	})
	t.Logf("stored %d runs in %v", n, time.Since(began))

	before := heap()
	var mu sync.Mutex
	var got []string
	var open, most atomic.Int32
	all := make(chan struct{})
	r := newRunner(t, store, runner.Options{Limit: limit, SweepEvery: time.Hour, Observe: func(e runner.Notice) {
		if e.Type == runner.NoticeClosed {
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, e.RunID); len(got) == n {
				close(all)
			}
		}
	}})
	runner.Register(r, agent("work", func(context.Context, word) (string, error) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		return "", nil
	}))
	began = time.Now()
	stop := serve(t, r)
	<-all
	t.Logf("the runs ended in %v, with %d bytes of memory per run", time.Since(began), (heap()-before)/n)
	require.NoError(t, stop())
	assert.LessOrEqual(t, most.Load(), int32(limit))
	assert.EqualValues(t, n, r.Stats().Completed)
	place := make(map[string]int)
	for i, id := range got {
		place[id] = i
	}
	require.Len(t, place, n, "each run ends once")
	behind := 0
	for i, d := range want {
		behind = max(behind, place[d.id]-i)
		if before := i - place[d.id]; before >= limit {
			t.Errorf("run %s ended at position %d, %d too early", d.id, place[d.id], before)
		}
	}
	t.Logf("the last run to end was %d positions late", behind)
	page, err := store.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCompleted}})
	require.NoError(t, err)
	assert.Len(t, page.Runs, n)
}
