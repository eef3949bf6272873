package state_test

import (
	"context"
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
	"github.com/reprise-go/reprise/state"
)

func TestInterruptFromOutsideEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		st := openRun(t, s)
		retry := core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}
		var wait sync.WaitGroup
		passed := testkit.Stopwatch()
		wait.Go(func() {
			_, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "flaky", retry, testkit.Fail(errFlaky)))
			var e *core.InterruptedError
			if assert.ErrorAs(t, err, &e) {
				assert.Equal(t, core.InterruptedError{Reason: record.InterruptUser, By: "ops", Message: "deploy"}, *e)
			}
		})
		<-time.After(time.Minute)
		require.NoError(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "deploy"}))
		require.NoError(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "again"}), "a second interrupt")
		wait.Wait()
		assert.Equal(t, time.Minute, passed())
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())

		err := state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "once more"})
		require.ErrorIs(t, err, state.ErrNotRunning)
		assert.EqualError(t, err, "state: interrupt run run-1: no process is running it: it is interrupted")
		st = openRun(t, s)
		defer st.Close()
		synctest.Wait()
		assert.Nil(t, st.Interrupted(), "the next opening is not interrupted")
		_, waiting := recordedAnswers(t, s)
		assert.Zero(t, waiting)
	})
}

func TestInterruptOfARunThatNobodyRunsReportsItsStatus(t *testing.T) {
	s := paused(t)
	err := state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "deploy"})
	require.ErrorIs(t, err, state.ErrNotRunning)
	require.ErrorContains(t, err, "paused")
	require.NoError(t, answer(t, s, "this"))
	_, err = resume(t, s)
	require.NoError(t, err)
	err = state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops", Message: "deploy"})
	require.ErrorIs(t, err, state.ErrNotRunning)
	require.ErrorContains(t, err, "completed")
	require.ErrorIs(t, state.Interrupt(t.Context(), s, "none", snapshot.Stop{By: "ops", Message: "deploy"}), snapshot.ErrNotFound)
}

// An interrupt that arrives too late for one generation must not stop the next.
func TestInterruptOfAGenerationThatIsOverIsDropped(t *testing.T) {
	s := paused(t)
	require.NoError(t, s.Post(t.Context(), askedRun, snapshot.Message{Generation: 1, Record: record.Record{
		Time: time.Now(), Kind: record.KindRun, Status: record.StatusInterrupted, Err: &core.InterruptedError{By: "ops"},
	}}))
	st := openRun(t, s)
	defer st.Close()
	assert.Nil(t, st.Interrupted())
	_, waiting := recordedAnswers(t, s)
	assert.Zero(t, waiting)
}

func TestAwaitAnswersReturnsWhenTheRunCanContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := paused(t)
		returned := make(chan error, 1)
		await := func() { returned <- state.AwaitAnswers(t.Context(), s, askedRun) }
		waits := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-returned:
				t.Fatalf("it returned %v: %s", err, why)
			default:
			}
		}
		go await()
		waits("there is no answer")
		require.NoError(t, answer(t, s, "this"))
		require.NoError(t, <-returned)

		owner := openRun(t, s)
		go await()
		waits("the run is open")
		require.NoError(t, owner.Close())
		require.NoError(t, <-returned)

		go await()
		require.NoError(t, <-returned, "nothing is asked")
		require.ErrorIs(t, state.AwaitAnswers(t.Context(), s, "none"), snapshot.ErrNotFound)
	})
}

func TestAwaitAnswersEndsWithItsContextOrItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := paused(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, state.AwaitAnswers(ctx, s, askedRun), context.DeadlineExceeded)
		returned := make(chan error, 1)
		go func() { returned <- state.AwaitAnswers(t.Context(), s, askedRun) }()
		synctest.Wait()
		require.NoError(t, s.Delete(t.Context(), askedRun))
		require.ErrorIs(t, <-returned, snapshot.ErrNotFound)
	})
}

func TestSecondOpeningWaitsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		first := openRun(t, s)
		_, err := state.Open(t.Context(), s, askedRun)
		require.ErrorIs(t, err, snapshot.ErrLocked)
		require.ErrorContains(t, err, "with state.WithWait, Open waits until that process closes it")
		time.AfterFunc(time.Hour, func() { first.Close() })
		passed := testkit.Stopwatch()
		second := openRun(t, s, state.WithWait())
		assert.Equal(t, time.Hour, passed())
		require.NoError(t, second.Close())
	})
}
