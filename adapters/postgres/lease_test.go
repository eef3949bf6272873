package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// shortLease is the lease of a process that must lose one lease but not the next. It is longer than
// the pauses that occur on a busy machine.
const shortLease = 5 * time.Second

// While one process is taking a run that was woken, its statement locks the run.
func TestTakeIgnoresAWokenRunThatAnotherProcessIsTaking(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	s := open(t, postgres.Options{Schema: schema})
	program := runner.ProgramID{Name: "echo", Version: "1"}
	require.NoError(t, s.Queue().Wake(t.Context(), runner.QueueEntry{RunID: "run", Program: program}))
	tx, err := shared.pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `select from `+pgx.Identifier{schema, "jobs"}.Sanitize()+` for update`)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.Queue().Take(ctx, []runner.ProgramID{program}, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, tx.Rollback(t.Context()))
	taken, err := s.Queue().Take(t.Context(), []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	require.NoError(t, taken[0].Done(t.Context()))
}

// After its lease has ended, a process gives up its runs and jobs by itself, and continues with a
// new lease.
func TestALeaseThatIsOverIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	s, other := open(t, postgres.Options{Schema: schema, Lease: shortLease}), open(t, postgres.Options{Schema: schema})
	program := runner.ProgramID{Name: "echo", Version: "1"}
	_, err := s.Queue().Add(t.Context(), runner.QueueEntry{RunID: "run", Program: program})
	require.NoError(t, err)
	taken, err := s.Queue().Take(t.Context(), []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, postgres.TakeAway(t.Context(), s, other))
	again, err := other.Queue().Take(t.Context(), []runner.ProgramID{program}, 1) // possible at once, because the process has ended
	require.NoError(t, err)
	assert.Equal(t, "run", again[0].Entry().RunID)

	<-j.Lost()
	<-taken[0].Lost()
	require.ErrorIs(t, j.Append(storetest.Records(1, 1)...), snapshot.ErrLease)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}), snapshot.ErrLease)
	require.ErrorIs(t, taken[0].Done(t.Context()), snapshot.ErrLease)
	require.NoError(t, again[0].Park(t.Context(), time.Now()))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken, err = s.Queue().Take(ctx, []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	for err = snapshot.ErrUnavailable; errors.Is(err, snapshot.ErrUnavailable); {
		j, err = s.Open(ctx, "run", snapshot.OpenOptions{})
	}
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted}))
	require.NoError(t, taken[0].Done(ctx))
	assert.False(t, isClosed(taken[0].Lost()))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Jobs that a process has abandoned become free even though the process is still alive.
func TestAbandonedJobsAreFreeAfterAWhile(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	s, other := open(t, postgres.Options{Schema: schema, Lease: time.Second}), open(t, postgres.Options{Schema: schema})
	program := runner.ProgramID{Name: "echo", Version: "1"}
	_, err := s.Queue().Add(t.Context(), runner.QueueEntry{RunID: "run", Program: program})
	require.NoError(t, err)
	abandoned, err := s.Queue().Take(t.Context(), []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	abandoned[0].Abandon()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken, err := other.Queue().Take(ctx, []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	require.NoError(t, taken[0].Done(ctx))
}

// A run whose end could not be stored is unlocked even though its process is still alive.
func TestARunThatCouldNotBeClosedIsContinued(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	admin, err := pgx.Connect(t.Context(), serverURL(t))
	require.NoError(t, err)
	defer func() { _ = admin.Close(t.Context()) }()
	s, other := open(t, postgres.Options{Schema: schema, Lease: shortLease}), open(t, postgres.Options{Schema: schema, Lease: time.Minute})
	open := func(id string) snapshot.Journal {
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, appendTo(t.Context(), j, 1, 2))
		return j
	}
	left, kept := open("left"), open("kept")
	runs := pgx.Identifier{schema, "runs"}.Sanitize()
	_, err = admin.Exec(t.Context(), `revoke update on `+runs+` from reprise_app`)
	require.NoError(t, err)
	err = left.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted})
	_, granted := admin.Exec(t.Context(), `grant update on `+runs+` to reprise_app`)
	require.NoError(t, granted)
	require.ErrorContains(t, err, "the role lacks a privilege")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := other.Open(ctx, "left", snapshot.OpenOptions{Wait: true})
	require.NoError(t, err)
	assert.Equal(t, 2, j.Restored().Len())
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	require.NoError(t, appendTo(t.Context(), kept, 3, 1), "open runs stay open")
	require.NoError(t, kept.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

// A process that takes no jobs, such as a dashboard, may be the first to notice that a worker was
// killed. It notifies the other workers, so they need not poll.
func TestWorkersLearnOfTheJobsOfAKilledWorker(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	killed := open(t, postgres.Options{Schema: schema, Lease: time.Second})
	idle := postgres.Options{Schema: schema, Poll: time.Hour}
	dashboard, worker := open(t, idle), open(t, idle)
	program := runner.ProgramID{Name: "echo", Version: "1"}
	_, err := killed.Queue().Add(t.Context(), runner.QueueEntry{RunID: "run", Program: program})
	require.NoError(t, err)
	_, err = killed.Queue().Take(t.Context(), []runner.ProgramID{program}, 1)
	require.NoError(t, err)
	postgres.Crash(killed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken := make(chan error, 1)
	go func() {
		leases, err := worker.Queue().Take(ctx, []runner.ProgramID{program}, 1)
		if err == nil {
			err = leases[0].Done(ctx)
		}
		taken <- err
	}()
	for len(taken) == 0 && ctx.Err() == nil { // the dashboard reaps earlier than the worker, which reaps only from time to time
		_, err := postgres.Reap(ctx, dashboard)
		require.NoError(t, err)
	}
	require.NoError(t, <-taken)
}
