package state_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// lateCloser is a store that calls two functions while a run is being closed: one after the inbox
// has been read for the last time, and one right after the journal has been closed.
type lateCloser struct {
	snapshot.Store
	meanwhile, after func()
}

func (s *lateCloser) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return &closingJournal{j, s}, err
}

type closingJournal struct {
	snapshot.Journal
	store *lateCloser
}

func (j *closingJournal) Close(ctx context.Context, end snapshot.End) error {
	if j.store.meanwhile != nil {
		j.store.meanwhile()
	}
	err := j.Journal.Close(ctx, end)
	if j.store.after != nil {
		j.store.after()
	}
	return err
}

// posting is a store that calls a function right before a message is posted.
type posting struct {
	snapshot.Store
	before func()
}

func (s posting) Post(ctx context.Context, runID string, m snapshot.Message) error {
	s.before()
	return s.Store.Post(ctx, runID, m)
}

// wantInterrupted checks that the run stays interrupted and that its inbox is empty.
func wantInterrupted(t *testing.T, s snapshot.Store) {
	t.Helper()
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusInterrupted, info.Status)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptUser, By: "ops", Message: "deploy"}, info.Stop)
	assert.Zero(t, info.Due)
	_, waiting := recordedAnswers(t, s)
	assert.Zero(t, waiting)
}

func TestInterruptThatComesWhileTheRunIsClosedIsNotLost(t *testing.T) {
	s := &lateCloser{Store: memstore.New()}
	s.meanwhile = func() {
		assert.NoError(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "deploy"}))
	}
	_, err := resume(t, s)
	require.ErrorIs(t, err, core.ErrAwaiting)
	wantInterrupted(t, s)

	require.NoError(t, answer(t, s, "this"))
	out, err := resume(t, s) // the interrupt arrives while the run is closed
	require.NoError(t, err)
	assert.Equal(t, "this", out)
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	_, waiting := recordedAnswers(t, s)
	assert.Zero(t, waiting)
}

// An interrupt that has stopped a run does not stop it again after someone has resumed the run.
func TestRunThatIsResumedWhenItWasInterruptedStaysResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lateCloser{Store: memstore.New()}
		s.after = func() {
			_, err := s.Update(t.Context(), askedRun, func(i *snapshot.Info) error {
				assert.Equal(t, snapshot.StatusInterrupted, i.Status)
				i.Status, i.Stop = snapshot.StatusQueued, snapshot.Stop{}
				return nil
			})
			assert.NoError(t, err)
		}
		st, err := state.Open(t.Context(), s, askedRun)
		require.NoError(t, err)
		require.NoError(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "deploy"}))
		synctest.Wait()
		require.Error(t, st.Interrupted(), "the interrupt was received")
		require.NoError(t, st.Close())
		info, err := s.Info(t.Context(), askedRun)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusQueued, info.Status)
		_, waiting := recordedAnswers(t, s)
		assert.Zero(t, waiting)
	})
}

func TestInterruptOfARunThatIsClosedBeforeItReadsItIsNotLost(t *testing.T) {
	s := memstore.New()
	st := openRun(t, s)
	_, err := testkit.Call(st.Context(t.Context()), asking(t))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Interrupt(t.Context(), posting{s, func() { require.NoError(t, st.Close()) }}, askedRun, snapshot.Stop{By: "ops", Message: "deploy"}))
	wantInterrupted(t, s)

	require.NoError(t, answer(t, s, "this"))
	st = openRun(t, s)
	_, err = testkit.Call(st.Context(t.Context()), asking(t))
	require.NoError(t, err)
	err = state.Interrupt(t.Context(), posting{s, func() { require.NoError(t, st.Close()) }}, askedRun, snapshot.Stop{By: "ops", Message: "deploy"})
	require.ErrorIs(t, err, state.ErrNotRunning)
	require.ErrorContains(t, err, "it is completed")
	_, waiting := recordedAnswers(t, s)
	assert.Zero(t, waiting)
}

func TestInterruptOfARunThatIsClosedAndOpenedMeanwhileIsNotLost(t *testing.T) {
	s := paused(t)
	st := openRun(t, s)
	var again *state.ExecutionState
	require.NoError(t, state.Interrupt(t.Context(), posting{s, func() {
		if again == nil {
			require.NoError(t, st.Close())
			again = openRun(t, s)
		}
	}}, askedRun, snapshot.Stop{By: "ops", Message: "deploy"}))
	<-again.Context(t.Context()).Done()
	require.NoError(t, again.Close())
	wantInterrupted(t, s)
}

// A closingStore closes the run when a message is posted to the run.
type closingStore struct {
	snapshot.Store
	journal snapshot.Journal
	reason  record.InterruptReason
}

func (s *closingStore) Post(ctx context.Context, runID string, m snapshot.Message) error {
	if err := s.Store.Post(ctx, runID, m); err != nil {
		return err
	}
	return s.journal.Close(ctx, snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: s.reason}})
}

// TestInterruptOfARunThatIsBeingClosedKeepsItFromContinuing checks that a run that would continue
// by itself does not continue if a person interrupts it while it is being closed.
func TestInterruptOfARunThatIsBeingClosedKeepsItFromContinuing(t *testing.T) {
	for _, reason := range []record.InterruptReason{
		record.InterruptShutdown, record.InterruptClosed, record.InterruptContext, record.InterruptStore, record.InterruptCrash, record.InterruptLeaseLost,
	} {
		require.True(t, reason.ContinuesByItself())
		s := &closingStore{Store: memstore.New(), reason: reason}
		var err error
		s.journal, err = s.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, state.Interrupt(t.Context(), s, runID, snapshot.Stop{By: "ann"}), reason)
		info, err := s.Info(t.Context(), runID)
		require.NoError(t, err)
		assert.Equal(t, record.InterruptUser, info.Stop.Reason, reason)
	}
}
