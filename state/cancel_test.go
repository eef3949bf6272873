package state_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func cancelRun(t testing.TB, s snapshot.Store) error {
	t.Helper()
	return state.Cancel(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "wrong customer"})
}

// assertCancelled checks that the run is cancelled by ops, that nothing continues
// it, and that nobody waits for it.
func assertCancelled(t testing.TB, s snapshot.Store) {
	t.Helper()
	page, err := s.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCancelled}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	for _, got := range []snapshot.Info{page.Runs[0], info} {
		assert.Equal(t, snapshot.StatusCancelled, got.Status)
		assert.Equal(t, snapshot.Stop{Reason: record.InterruptCancel, By: "ops", Message: "wrong customer"}, got.Stop)
	}
	found := testkit.LoadRun(t, s, askedRun)
	last := found.Records[len(found.Records)-1]
	assert.Equal(t, record.StatusCancelled, last.Status)
	assert.ErrorContains(t, last.Err, "interrupted (cancel) by ops: wrong customer")
	messages, err := s.Messages(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Empty(t, messages)

	const why = "run run-1 was cancelled by ops: wrong customer"
	for range 2 {
		_, err = state.Open(t.Context(), s, askedRun)
		require.ErrorIs(t, err, state.ErrCancelled)
		require.EqualError(t, err, "state: open run run-1: "+why)
	}
	_, err = state.Result[string](t.Context(), s, askedRun)
	require.ErrorIs(t, err, state.ErrCancelled)
	require.EqualError(t, err, "state: result: "+why)
	require.ErrorIs(t, state.Answer(t.Context(), s, askedRun, question, "", "yes"), state.ErrCancelled)
	open, err := state.Questions(t.Context(), s, askedRun)
	require.NoError(t, err)
	assert.Empty(t, open)
	require.ErrorIs(t, state.AwaitAnswers(t.Context(), s, askedRun), state.ErrCancelled)
	require.ErrorIs(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{}), state.ErrNotRunning)
	require.NoError(t, state.Cancel(t.Context(), s, askedRun, snapshot.Stop{By: "dev", Message: "again"}), "the first counts")
	assert.Equal(t, found.Records, testkit.LoadRun(t, s, askedRun).Records, "no record is added")
	info, err = s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Equal(t, "ops", info.Stop.By)
}

func TestCancelEndsARunThatNobodyHasOpen(t *testing.T) {
	created := func(t *testing.T, status snapshot.Status) snapshot.Store {
		s := memstore.New()
		run, err := snapshot.NewRun(snapshot.Info{RunID: askedRun, Status: status}, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		return s
	}
	for name, before := range map[string]func(t *testing.T) snapshot.Store{
		"paused": func(t *testing.T) snapshot.Store { return paused(t) },
		"interrupted": func(t *testing.T) snapshot.Store {
			s := memstore.New()
			st := openRun(t, s)
			st.Interrupt(snapshot.Stop{By: "dev"})
			require.NoError(t, st.Close())
			return s
		},
		"queued":          func(t *testing.T) snapshot.Store { return created(t, snapshot.StatusQueued) },
		"left by a crash": func(t *testing.T) snapshot.Store { return created(t, snapshot.StatusRunning) },
	} {
		t.Run(name, func(t *testing.T) {
			s := before(t)
			require.NoError(t, cancelRun(t, s))
			assertCancelled(t, s)
		})
	}
}

func TestCancelStopsAnOpenRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		st := openRun(t, s)
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "slow", once, testkit.Listening(time.Hour)))
			assert.EqualError(t, err, "interrupted (cancel) by ops: wrong customer: the run was cancelled")
			assert.ErrorIs(t, err, state.ErrCancelled)
			assert.ErrorIs(t, err, core.ErrInterrupted, "the call has no outcome")
			var cancelled *state.CancelledError
			if assert.ErrorAs(t, err, &cancelled) {
				assert.Equal(t, &state.CancelledError{RunID: askedRun, By: "ops", Message: "wrong customer"}, cancelled)
			}
			assert.NoError(t, st.Close())
		})
		synctest.Wait()
		require.NoError(t, cancelRun(t, s))
		wait.Wait()
		assert.Equal(t, snapshot.StatusCancelled, st.Status())
		assertCancelled(t, s)
	})
}

// The owner reads the inbox once more after it has closed the run.
func TestCancelAfterTheLastReadOfTheInboxCounts(t *testing.T) {
	s := &cancelAtClose{Store: memstore.New(), t: t}
	_, err := resume(t, s)
	require.ErrorIs(t, err, core.ErrAwaiting)
	assertCancelled(t, s.Store)
}

// cancelAtClose cancels its run when the journal is about to be closed.
type cancelAtClose struct {
	*memstore.Store
	t    testing.TB
	done bool
}

func (s *cancelAtClose) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return closing{j, s}, err
}

type closing struct {
	snapshot.Journal
	store *cancelAtClose
}

func (j closing) Close(ctx context.Context, end snapshot.End) error {
	if !j.store.done {
		j.store.done = true
		require.NoError(j.store.t, cancelRun(j.store.t, j.store.Store))
	}
	return j.Journal.Close(ctx, end)
}

func TestCancelThatACrashLeftWaitingRefusesTheNextOpening(t *testing.T) {
	s := paused(t)
	owner, err := s.Open(t.Context(), askedRun, snapshot.OpenOptions{})
	require.NoError(t, err)
	require.NoError(t, cancelRun(t, s))
	require.NoError(t, owner.Close(t.Context(), snapshot.End{Status: snapshot.StatusInterrupted})) // without reading the inbox
	_, err = state.Open(t.Context(), s, askedRun)
	require.ErrorIs(t, err, state.ErrCancelled)
	assertCancelled(t, s)
}

func TestCancelOfARunThatHasEndedIsRefused(t *testing.T) {
	for _, status := range []snapshot.Status{snapshot.StatusCompleted, snapshot.StatusFailed} {
		s := memstore.New()
		run, err := snapshot.NewRun(snapshot.Info{RunID: askedRun, Status: status}, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		err = cancelRun(t, s)
		require.ErrorIs(t, err, state.ErrEnded)
		require.EqualError(t, err, "state: cancel run run-1: it has ended: it is "+string(status))
		info, err := s.Info(t.Context(), askedRun)
		require.NoError(t, err)
		assert.Equal(t, status, info.Status)
		messages, err := s.Messages(t.Context(), askedRun)
		require.NoError(t, err)
		assert.Empty(t, messages)
	}
	require.ErrorIs(t, cancelRun(t, memstore.New()), snapshot.ErrNotFound)
}

func TestCancelInTheProcessEndsTheRun(t *testing.T) {
	st := state.New()
	require.True(t, st.Interrupt(snapshot.Stop{By: "dev", Message: "wait"}))
	require.True(t, st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"}), "an interrupted run can be cancelled")
	assert.False(t, st.Cancel(snapshot.Stop{By: "dev"}), "the first counts")
	assert.False(t, st.Interrupt(snapshot.Stop{By: "dev", Message: "wait"}))
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusCancelled, st.Status())
	wantRecords(t, st, "run started", "run cancelled")

	s := memstore.New()
	st = openRun(t, s)
	require.True(t, st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"}))
	require.NoError(t, st.Close())
	assertCancelled(t, s)
}

func TestAnInterruptedRunSaysWhoStoppedIt(t *testing.T) {
	stops := func(t *testing.T, stop func(t *testing.T, st *state.ExecutionState)) snapshot.Stop {
		s := memstore.New()
		st := openRun(t, s)
		stop(t, st)
		require.NoError(t, st.Close())
		for range 2 { // an opening in which nothing is called changes nothing
			info, err := s.Info(t.Context(), askedRun)
			require.NoError(t, err)
			page, err := s.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			assert.Equal(t, info.Stop, page.Runs[0].Stop)
			assert.Equal(t, snapshot.StatusInterrupted, info.Status)
			require.NoError(t, openRun(t, s).Close())
		}
		info, err := s.Info(t.Context(), askedRun)
		require.NoError(t, err)
		return info.Stop
	}
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptUser, By: "ops", Message: "deploy"}, stops(t, func(t *testing.T, st *state.ExecutionState) {
		st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
	}))
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptContext}, stops(t, func(t *testing.T, st *state.ExecutionState) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", once, testkit.Listening(time.Hour)))
		require.ErrorIs(t, err, core.ErrInterrupted)
	}))
}

// A lostOnce is a store whose lease is over the first time that a run is closed as cancelled.
type lostOnce struct {
	snapshot.Store
	isLost bool
}

func (s *lostOnce) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return lostJournal{j, s}, err
}

type lostJournal struct {
	snapshot.Journal
	store *lostOnce
}

func (j lostJournal) Close(ctx context.Context, end snapshot.End) error {
	if j.store.isLost || end.Status != snapshot.StatusCancelled {
		return j.Journal.Close(ctx, end)
	}
	j.store.isLost = true
	lost := snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptCrash}}
	return errors.Join(snapshot.ErrLease, j.Journal.Close(ctx, lost))
}

func TestCancelStaysIfTheEndOfTheRunCannotBeStored(t *testing.T) {
	store := &lostOnce{Store: memstore.New()}
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	require.NoError(t, state.Cancel(t.Context(), store, "run", snapshot.Stop{By: "ann"}))
	<-st.Context(t.Context()).Done()
	require.ErrorIs(t, st.Close(), snapshot.ErrLease)
	_, err = state.Open(t.Context(), store, "run")
	require.ErrorIs(t, err, state.ErrCancelled)
}

func TestCancelEndsARunThatIsBeingUpdated(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := filestore.New(dir, filestore.WithPolling(time.Second))
		require.NoError(t, err)
		_, err = resume(t, s)
		require.ErrorIs(t, err, core.ErrAwaiting)
		cancelled := make(chan error, 1)
		_, err = s.Update(t.Context(), askedRun, func(i *snapshot.Info) error {
			go func() { cancelled <- cancelRun(t, s) }()
			synctest.Wait()
			i.Pinned = true
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, <-cancelled)
		assertCancelled(t, s)
	})
}

// A leavingStore ends its caller's context while the caller reads the inbox. Like a store on a
// server, it does not close a run with a context that has ended.
type leavingStore struct {
	snapshot.Store
	leave context.CancelFunc
}

func (s *leavingStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return remoteJournal{j}, err
}

type remoteJournal struct{ snapshot.Journal }

func (j remoteJournal) Close(ctx context.Context, end snapshot.End) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return j.Journal.Close(ctx, end)
}

func (s *leavingStore) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	all, err := s.Store.Messages(ctx, runID)
	s.leave()
	return all, err
}

// The caller may be a request from a browser that has closed the page.
func TestARunIsClosedAlthoughTheContextOfTheCallerHasEnded(t *testing.T) {
	s := paused(t)
	ctx, leave := context.WithCancel(t.Context())
	_ = state.Cancel(ctx, &leavingStore{s, leave}, askedRun, snapshot.Stop{By: "ops", Message: "wrong customer"})
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	require.False(t, info.Open)
	require.Equal(t, snapshot.StatusCancelled, info.Status)

	ctx, leave = context.WithCancel(t.Context())
	_, err = state.Open(ctx, &leavingStore{s, leave}, askedRun)
	require.ErrorIs(t, err, state.ErrCancelled)
	info, err = s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	require.False(t, info.Open)
	assertCancelled(t, s)
}
