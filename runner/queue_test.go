package runner_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestQueueInMemory(t *testing.T) {
	open := func(*testing.T) runner.Queue { return runner.NewHeapQueue() }
	queuetest.Run(t, open)
	queuetest.RunOrdered(t, open)
}

// A closedQueue is closed after an hour.
type closedQueue struct{ runner.Queue }

func (q closedQueue) Take(ctx context.Context, programs []runner.ProgramID, n int) ([]runner.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Hour, fmt.Errorf("%w: bad credentials", runner.ErrQueueClosed))
	defer cancel()
	return q.Queue.Take(ctx, programs, n)
}

// Serve does not go on if the queue can hand out no more runs. It interrupts the runs that are
// open.
func TestServeEndsWhenTheQueueIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Queue: closedQueue{runner.NewHeapQueue()}, SweepEvery: 2 * time.Hour, Grace: time.Second})
		program := runner.Register(r, agent("slow", func(ctx context.Context, _ word) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}))
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		err = r.Serve(t.Context())
		require.ErrorIs(t, err, runner.ErrQueueClosed)
		require.EqualError(t, err, "runner: the queue is closed: bad credentials")
		info, err := r.Info(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusInterrupted, info.Status)
		_, err = program.Start(t.Context(), "b", word{}, runner.StartOptions{})
		require.ErrorIs(t, err, runner.ErrStopping)
	})
}
