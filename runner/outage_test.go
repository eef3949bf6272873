package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// flappingStore is a store that, while isAway is set, cannot be reached for longer than a lease
// lasts. A run that is closed in that time looks as if its process had crashed.
type flappingStore struct {
	*memstore.Store
	isAway atomic.Bool
}

type flappingJournal struct {
	snapshot.Journal
	store *flappingStore
}

func (s *flappingStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	if err != nil {
		return nil, err
	}
	return &flappingJournal{j, s}, nil
}

func (j *flappingJournal) Close(ctx context.Context, end snapshot.End) error {
	if !j.store.isAway.CompareAndSwap(true, false) {
		return j.Journal.Close(ctx, end)
	}
	if err := j.Journal.Close(ctx, snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptCrash}}); err != nil {
		return err
	}
	return snapshot.ErrLease
}

// Since the process survives each outage, an outage does not count as a crash of the run. The run
// is neither continued alone nor set aside.
func TestOutagesOfTheStoreAreNoCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flappingStore{Store: memstore.New()}
		const outages = 20
		began := 0
		notices := make(chan runner.Notice, 1000)
		r := newRunner(t, store, runner.Options{Observe: func(n runner.Notice) { notices <- n }})
		runner.Register(r, agent("work", func(ctx context.Context, in word) (string, error) {
			if began++; began > outages {
				return in.Text, nil
			}
			store.isAway.Store(true)
			state.From(ctx).Interrupt(snapshot.Stop{Reason: record.InterruptLeaseLost})
			<-ctx.Done()
			return "", ctx.Err()
		}))
		stop := serve(t, r)
		_, err := r.Start(t.Context(), "work", "a", word{"done"}, runner.StartOptions{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour) // on the fake clock
		defer cancel()
		info, err := r.Wait(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Equal(t, outages+1, began)
		require.NoError(t, stop())
		close(notices)
		for n := range notices {
			assert.NotEqual(t, runner.NoticeCrashed, n.Type)
		}
	})
}
