package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// TestStartsBeyondMaxQueuedAreRefused makes 4,000 concurrent starts. Only as many runs
// are stored as may be queued or open, and all of them end. Refused starts store
// nothing.
func TestStartsBeyondMaxQueuedAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starts, queued, limit = 4000, 1000, 10
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Limit: limit, MaxQueued: queued})
		gate := make(chan struct{})
		var ran atomic.Int64
		program := runner.Register(r, agent("wait", func(context.Context, word) (string, error) {
			<-gate
			ran.Add(1)
			return "", nil
		}))
		defer serve(t, r)()
		var admitted, refused atomic.Int64
		var starting sync.WaitGroup
		for i := range starts {
			starting.Go(func() {
				switch _, err := program.Start(t.Context(), fmt.Sprint("r", i), word{}, runner.StartOptions{}); {
				case err == nil:
					admitted.Add(1)
				case errors.Is(err, runner.ErrTooMany):
					refused.Add(1)
				default:
					assert.NoError(t, err)
				}
			})
		}
		starting.Wait()
		assert.EqualValues(t, starts, admitted.Load()+refused.Load())
		assert.GreaterOrEqual(t, admitted.Load(), int64(queued))
		assert.LessOrEqual(t, admitted.Load(), int64(queued+limit))
		page, err := store.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		assert.Len(t, page.Runs, int(admitted.Load()))
		// Repeating an admitted start returns its run.
		_, err = program.Start(t.Context(), page.Runs[0].RunID, word{}, runner.StartOptions{})
		require.NoError(t, err)

		close(gate)
		synctest.Wait()
		assert.Equal(t, admitted.Load(), ran.Load())
		_, err = program.Start(t.Context(), "later", word{}, runner.StartOptions{})
		require.NoError(t, err)
	})
}

// TestStartsBeyondTheQuotaOfAPrincipalAreRefused checks that a run counts until it begins, or until
// it can no longer begin.
func TestStartsBeyondTheQuotaOfAPrincipalAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{Limit: 1, MaxQueuedPerPrincipal: 2})
		gate := make(chan struct{})
		program := runner.Register(r, agent("wait", func(context.Context, word) (string, error) {
			<-gate
			return "", nil
		}))
		start := func(id, principal string) error {
			_, err := program.Start(t.Context(), id, word{}, runner.StartOptions{Principal: principal})
			synctest.Wait()
			return err
		}
		defer serve(t, r)()
		require.NoError(t, start("open", "ann"))
		require.NoError(t, start("first", "ann"))
		require.NoError(t, start("second", "ann"))
		require.ErrorIs(t, start("third", "ann"), runner.ErrTooMany)
		require.EqualError(t, start("third", "ann"), "runner: too many runs wait: 2 of at most 2 for ann")
		require.NoError(t, start("second", "ann"), "the run was started before")
		require.NoError(t, start("bob-1", "bob"))
		require.NoError(t, start("nobody-1", ""))
		require.NoError(t, r.Cancel(t.Context(), "second", snapshot.Stop{}))
		require.NoError(t, start("third", "ann"))
		require.ErrorIs(t, start("fourth", "ann"), runner.ErrTooMany)
		close(gate)
		synctest.Wait()
		require.NoError(t, start("fourth", "ann"))
	})
}

// otherQueue is a queue from which only another process takes runs.
type otherQueue struct{ runner.Queue }

func (otherQueue) Add(context.Context, runner.QueueEntry) (bool, error) { return true, nil }
func (otherQueue) Now(context.Context) (time.Time, error)               { return time.Now(), nil }
func (otherQueue) Waiting(context.Context, []runner.ProgramID) (due, parked int, err error) {
	return 0, 0, nil
}

func (otherQueue) Take(ctx context.Context, _ []runner.ProgramID, _ int) ([]runner.Lease, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestRunsOfASharedQueueAreCountedInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Queue: otherQueue{}, MaxQueued: 3, MaxQueuedPerPrincipal: 2})
		program := runner.Register(r, echo)
		start := func(id, principal string) error {
			_, err := program.Start(t.Context(), id, word{}, runner.StartOptions{Principal: principal})
			return err
		}
		require.NoError(t, start("a", "ann"))
		require.NoError(t, start("b", "ann"))
		require.ErrorContains(t, start("c", "ann"), "for ann")
		require.NoError(t, start("c", "bob"))
		require.ErrorIs(t, start("d", "bob"), runner.ErrTooMany)
		for _, id := range []string{"a", "b"} { // started by other processes
			_, err := store.Update(t.Context(), id, func(i *snapshot.Info) error { i.Status = snapshot.StatusCompleted; return nil })
			require.NoError(t, err)
		}
		sleep(time.Second) // wait until the count is outdated
		require.NoError(t, start("d", "ann"))
		require.NoError(t, start("e", "ann"))
		require.ErrorIs(t, start("f", "carl"), runner.ErrTooMany)
	})
}

func TestStoppingRunnerStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{Grace: time.Hour})
		program := runner.Register(r, agent("slow", func(context.Context, word) (string, error) {
			sleep(time.Minute)
			return "", nil
		}))
		require.ErrorIs(t, r.Ready(t.Context()), runner.ErrNotReady)
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { assert.NoError(t, r.Serve(ctx)) })
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Ready(t.Context()))
		cancel()
		synctest.Wait()
		require.ErrorContains(t, r.Ready(t.Context()), "is stopping")
		require.ErrorIs(t, r.Ready(t.Context()), runner.ErrStopping)
		require.ErrorIs(t, r.Ready(t.Context()), runner.ErrNotReady)
		_, err = program.Start(t.Context(), "b", word{}, runner.StartOptions{})
		require.ErrorIs(t, err, runner.ErrStopping)
		_, err = program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err, "the run was started before")
		serving.Wait()
		_, err = r.Info(t.Context(), "b")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	})
}

// failingStore is a store that cannot be read while down is set.
type failingStore struct {
	snapshot.Store
	down atomic.Bool
}

func (s *failingStore) Info(ctx context.Context, id string) (snapshot.Info, error) {
	if s.down.Load() {
		return snapshot.Info{}, snapshot.ErrUnavailable
	}
	return s.Store.Info(ctx, id)
}

func TestRunnerIsNotReadyWithoutItsStoreOrQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: memstore.New()}
		queue := &brokenQueue{}
		r := newRunner(t, store, runner.Options{Queue: queue})
		defer serve(t, r)()
		synctest.Wait()
		require.NoError(t, r.Ready(t.Context()))
		store.down.Store(true)
		require.ErrorIs(t, r.Ready(t.Context()), snapshot.ErrUnavailable)
		store.down.Store(false)
		queue.broken.Store(true)
		sleep(2 * time.Minute)
		require.ErrorContains(t, r.Ready(t.Context()), "the queue: no route")
		queue.broken.Store(false)
		sleep(2 * time.Minute)
		require.NoError(t, r.Ready(t.Context()))
	})
}

type brokenQueue struct {
	otherQueue
	broken atomic.Bool
}

func (q *brokenQueue) Take(ctx context.Context, programs []runner.ProgramID, n int) ([]runner.Lease, error) {
	if q.broken.Load() {
		return nil, errors.New("no route to host")
	}
	return q.otherQueue.Take(ctx, programs, n)
}
