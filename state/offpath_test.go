package state_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Calls that a handler makes after its attempt was stopped are not made again after a resume. They
// must not be recorded, because the program would then seem to have changed.

// openedFor opens the run and calls d.
func openedFor(t testing.TB, s snapshot.Store, d *testkit.Definition, during func(*state.ExecutionState)) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	defer st.Close()
	during(st)
	return testkit.Call(st.Context(t.Context()), d)
}

func undisturbed(*state.ExecutionState) {}

func interruptedAfterAMinute(st *state.ExecutionState) {
	time.AfterFunc(time.Minute, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}) })
}

// waiting returns an agent that calls goOn after an hour, or cleanUp if its context ends sooner.
func waiting(t testing.TB, timeout time.Duration, hour *time.Duration, cleanUp, goOn testkit.Handler) *testkit.Definition {
	t.Helper()
	first := testkit.Tool(t, "first", steady, testkit.Succeed)
	return testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent", AttemptTimeout: timeout}, func(ctx context.Context, in string) (string, error) {
		if _, err := testkit.Call(ctx, first); err != nil {
			return "", err
		}
		if testkit.Pause(ctx, *hour) != nil {
			return cleanUp(ctx, in)
		}
		return goOn(ctx, in)
	})
}

// through returns a handler that calls d.
func through(d *testkit.Definition) testkit.Handler {
	return func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, d) }
}

func TestCallMadeBecauseOfAnInterruptIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hour := new(tape), time.Hour
		cleanUp := testkit.Tool(t, "clean_up", once, testkit.Succeed)
		goOn := testkit.Tool(t, "go_on", once, testkit.Succeed)
		agent := waiting(t, 0, &hour, through(cleanUp), through(goOn))
		for range 2 { // the second time, the calls are compared with their records
			_, err := openedFor(t, s, agent, interruptedAfterAMinute)
			testkit.Interrupted(t, err, record.InterruptUser)
		}
		out, err := openedFor(t, s, agent, undisturbed)
		testkit.Completed(t, out, err)
	})
}

func TestRootCallMadeBecauseOfAnInterruptIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(tape)
		first := testkit.Tool(t, "first", once, testkit.Listening(time.Hour))
		cleanUp := testkit.Tool(t, "clean_up", once, testkit.Succeed)
		goOn := testkit.Tool(t, "go_on", once, testkit.Succeed)
		program := func(ctx context.Context) (string, error) {
			if _, err := testkit.Call(ctx, first); err != nil {
				return testkit.Call(ctx, cleanUp)
			}
			return testkit.Call(ctx, goOn)
		}
		for range 2 {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err = program(st.Context(ctx))
			testkit.Interrupted(t, err, record.InterruptContext)
			cancel()
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusInterrupted, st.Status())
		}
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		out, err := program(st.Context(t.Context()))
		testkit.Completed(t, out, err)
	})
}

func TestRunIsInterruptedIfARootCallCameAfterItsContext(t *testing.T) {
	s := new(tape)
	tool := testkit.Tool(t, "tool", once, testkit.Succeed)
	_, err := openedFor(t, s, tool, undisturbed)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), tool)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = testkit.Call(st.Context(ended), tool)
	testkit.Interrupted(t, err, record.InterruptContext)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
}

func TestQuestionAskedBecauseOfAnInterruptIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hour := new(tape), time.Hour
		asking := func(question string) testkit.Handler {
			return func(ctx context.Context, _ string) (string, error) { return core.Await[string](ctx, question) }
		}
		agent := waiting(t, 0, &hour, asking("it was stopped, and now?"), asking("go on?"))
		_, err := openedFor(t, s, agent, interruptedAfterAMinute)
		testkit.Interrupted(t, err, record.InterruptUser)
		hour = 0
		_, err = openedFor(t, s, agent, undisturbed)
		assert.Equal(t, "go on?", testkit.Interrupted(t, err, record.InterruptAwait).Message)
	})
}

// resumedAnywhere cuts the records at every point before the agent's outcome, and each time resumes
// the run to its end.
func resumedAnywhere(t *testing.T, whole *tape, agent *testkit.Definition) {
	t.Helper()
	for n := 2; n < len(whole.records); n++ {
		if r := whole.records[n-1]; r.IsOutcome() && r.Address.String() == "agent" {
			return
		} else if r.WillRetry {
			continue // a failed record and its retrying record are written together
		}
		out, err := openedFor(t, whole.cut(n), agent, undisturbed)
		assert.NoError(t, err, "cut after record %d", n)
		assert.Equal(t, "out", out)
	}
}

func TestCallMadeBecauseOfATimeoutIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hour := new(tape), time.Hour
		cleanUp := testkit.Tool(t, "clean_up", once, testkit.Succeed)
		goOn := testkit.Tool(t, "go_on", once, testkit.Succeed)
		agent := waiting(t, time.Minute, &hour, through(cleanUp), through(goOn))
		_, err := openedFor(t, s, agent, undisturbed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		hour = 0
		resumedAnywhere(t, s, agent)
	})
}

func TestCallMadeBecauseAnotherTimedOutIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cleaned := new(tape), 0
		busy := testkit.Tool(t, "busy", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}, testkit.Failing(1, errFlaky))
		cleanUp := testkit.Tool(t, "clean_up", once, testkit.Counted(&cleaned, testkit.Succeed))
		goOn := testkit.Tool(t, "go_on", once, testkit.Succeed)
		agent := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent", AttemptTimeout: time.Minute}, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, busy); err != nil {
				return testkit.Call(ctx, cleanUp)
			}
			return testkit.Call(ctx, goOn)
		})
		_, err := openedFor(t, s, agent, undisturbed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, cleaned, "the attempt has failed already")
		<-time.After(2 * time.Hour)
		resumedAnywhere(t, s, agent)
	})
}
