package stored_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/stored"
)

// An interruptedStore ends a Watch with the error that is passed to cut, as if a database had been
// restarted. The LastSeq of open runs lags behind as far as is allowed.
type interruptedStore struct {
	snapshot.Store
	cut context.CancelCauseFunc
}

func (s *interruptedStore) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	ctx, s.cut = context.WithCancelCause(ctx)
	return func(yield func(snapshot.Change, error) bool) {
		for c, err := range s.Store.Watch(ctx, o) {
			if c.Info.Open && c.Info.Generation == 1 && len(c.Records) == 0 {
				c.Info.LastSeq = 0
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func TestFollowPublishesWhatItMissedWhileTheStoreCouldNotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &interruptedStore{Store: memstore.New()}
		run(t, store, "old", 1)
		run(t, store, "continued", 1)
		run(t, store, "replaced", 1)
		existed := lastSeq(t, store, "continued")
		<-time.After(time.Second) // on the fake clock
		runs := stored.New(store)
		published := make(map[string][]uint64)
		failed := make(chan error, 1)
		follow := func() {
			go func() {
				failed <- runs.Follow(t.Context(), publisher(func(r record.Record) { published[r.RunID] = append(published[r.RunID], r.Seq) }))
			}()
			synctest.Wait()
		}
		follow()
		assert.Empty(t, published)
		<-time.After(time.Second) // on the fake clock
		run(t, store, "continued", 2)
		open, err := state.Open(t.Context(), store, "open")
		require.NoError(t, err)
		tool := flaky()
		call := func() {
			_, err := tool.Call(open.Context(t.Context()), in{})
			require.NoError(t, err)
			synctest.Wait()
		}
		call()
		assert.Len(t, published["continued"], int(lastSeq(t, store, "continued")-existed))

		store.cut(snapshot.ErrUnavailable)
		require.ErrorIs(t, <-failed, snapshot.ErrUnavailable)
		call()
		run(t, store, "continued", 3)
		run(t, store, "new", 1)
		require.NoError(t, store.Delete(t.Context(), "replaced"))
		run(t, store, "replaced", 2)
		follow()
		assert.Len(t, published["open"], int(lastSeq(t, store, "open")))
		call()
		run(t, store, "continued", 4)
		synctest.Wait()
		store.cut(snapshot.ErrUnavailable)
		require.ErrorIs(t, <-failed, snapshot.ErrUnavailable)

		want := map[string][]uint64{"continued": nil, "new": nil, "open": nil, "replaced": nil}
		for id := range want {
			for rec := range recordsOf(t, store, id) {
				if id != "continued" || rec.Seq > existed {
					want[id] = append(want[id], rec.Seq)
				}
			}
		}
		assert.Equal(t, want, published)
		require.NoError(t, open.Close())
	})
}

// A publisher is called with each published record. Nobody watches any run.
type publisher func(record.Record)

func (p publisher) Publish(r record.Record) { p(r) }

func (publisher) PublishMissed(context.Context, string) error { return nil }

func lastSeq(t *testing.T, store snapshot.Store, runID string) uint64 {
	t.Helper()
	info, err := store.Info(t.Context(), runID)
	require.NoError(t, err)
	return info.LastSeq
}

// missedRuns collects the IDs of the runs of which clients may have missed a record.
type missedRuns struct{ runs []string }

func (*missedRuns) Publish(record.Record) {}

func (m *missedRuns) PublishMissed(_ context.Context, runID string) error {
	m.runs = append(m.runs, runID)
	return nil
}

// If a run ended before the process began, nobody can have missed any of its records.
func TestFollowLooksOnlyAtRunsThatMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		run(t, store, "old", 1)
		run(t, store, "continued", 1)
		open, err := state.Open(t.Context(), store, "open")
		require.NoError(t, err)
		<-time.After(time.Hour)
		runs := stored.New(store)
		<-time.After(time.Second)
		run(t, store, "continued", 1)
		run(t, store, "new", 1)
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		var missed missedRuns
		following.Go(func() { assert.ErrorIs(t, runs.Follow(ctx, &missed), context.Canceled) })
		synctest.Wait()
		cancel()
		following.Wait()
		assert.ElementsMatch(t, []string{"continued", "open"}, missed.runs)
		require.NoError(t, open.Close())
	})
}
