package state_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Regression tests for problems that a first-time user of the library ran into.

type item struct {
	N int `json:"n"`
}

func failsOn(bad int) actors.Tool[item, int] {
	return decorators.Tool("work", "", func(_ context.Context, in item) (int, error) {
		if in.N == bad {
			return 0, errors.New("bad item")
		}
		return in.N, nil
	})
}

func TestInitialDelayAboveTheDefaultCapIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, begin := 0, time.Now()
		tool := decorators.Tool("retryHourly", "", func(context.Context, item) (int, error) {
			if attempts++; attempts == 1 {
				return 0, core.Retryable(errors.New("later"))
			}
			return 1, nil
		}, actors.WithRetry(core.RetryConfig{InitialDelay: time.Hour, Jitter: core.NoJitter}))
		_, err := tool.Call(t.Context(), item{})
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(begin))
	})
}

func TestRunWithARootGroupThatFailedHasFailed(t *testing.T) {
	inputs := []item{{1}, {2}, {3}}
	for _, collect := range []bool{true, false} {
		for bad := 1; bad <= 3; bad++ {
			st := state.New()
			_, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "g", CollectAll: collect}, failsOn(bad), inputs)
			require.Error(t, err)
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusFailed, st.Status(), "collect %v, bad %d", collect, bad)
		}
	}
}

func TestRunIsJudgedByItsLastRootGroup(t *testing.T) {
	st := state.New()
	ctx := st.Context(t.Context())
	_, err := actors.Map(ctx, actors.Group{Name: "first"}, failsOn(1), []item{{1}})
	require.Error(t, err)
	_, err = actors.Map(ctx, actors.Group{Name: "second"}, failsOn(1), []item{{2}})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusCompleted, st.Status())
}

func TestGroupErrorSaysWhichResultsAreNotValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		branch := func(d time.Duration, err error) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				select {
				case <-time.After(d):
					return 1, err
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
		}
		out, err := actors.Parallel(t.Context(), actors.Group{Name: "g", Workers: 3},
			branch(1, nil), branch(time.Hour, nil), branch(2, errors.New("x")), branch(time.Hour, nil), branch(1, nil))
		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, []int{1, 0, 0, 0, 0}, out)
		assert.Equal(t, []int{2, 4, 5}, failed.NotEnded)
	})
}

func TestConnectionClosedBeforeAResponseIsTransient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer server.Close()
	resp, err := http.Post(server.URL, "text/plain", nil)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	assert.True(t, record.Classify(err).IsTransient(), "%v is %v", err, record.Classify(err))
}

func TestCallAfterCloseIsInterruptedAndNothingElse(t *testing.T) {
	st := state.New()
	ctx := st.Context(t.Context())
	require.NoError(t, st.Close())
	_, err := failsOn(0).Call(ctx, item{1})
	var interrupted *core.InterruptedError
	require.ErrorAs(t, err, &interrupted)
	assert.Equal(t, record.InterruptClosed, interrupted.Reason)
	require.ErrorIs(t, err, state.ErrClosed)
	var failed *core.CallError
	assert.NotErrorAs(t, err, &failed)
}

func TestPreparedCallIsExecutedOnceAndInItsOwnRun(t *testing.T) {
	first, second := state.New(), state.New()
	defer first.Close()
	defer second.Close()
	ctx := first.Context(t.Context())
	event := failsOn(0).Event()

	call := event.Prepare(ctx, item{1})
	_, err := call.Execute(ctx)
	require.NoError(t, err)
	_, err = call.Execute(ctx)
	require.ErrorContains(t, err, "already executed")

	_, err = event.Prepare(ctx, item{1}).Execute(second.Context(t.Context()))
	require.ErrorContains(t, err, "another run")
	_, err = event.Prepare(ctx, item{1}).Execute(t.Context())
	require.ErrorContains(t, err, "another run")
}

func TestErrorOfALimitNamesTheLimit(t *testing.T) {
	tool := decorators.Tool("fetch", "", func(context.Context, item) (int, error) {
		return 0, core.WithRetryAfter(core.Retryable(errors.New("busy")), time.Hour)
	})
	_, err := tool.Call(t.Context(), item{})
	require.ErrorIs(t, err, core.ErrRetryAfterTooLong)
	require.EqualError(t, err, "fetch: retry after too long (the service asked for 1h0m0s, but MaxRetryAfter is 5m0s): busy")

	event := tool.Event().WithRetry(core.RetryConfig{MaxRetryAfter: 2 * time.Hour, RetryTimeout: time.Minute})
	_, err = event.Execute(t.Context(), item{})
	require.ErrorContains(t, err, "the service asked for 1h0m0s")
	require.ErrorContains(t, err, "of RetryTimeout are left")
}

func TestNilActorAndNilBranchAreNamed(t *testing.T) {
	_, err := actors.Map[item, int](t.Context(), actors.Group{Name: "g"}, nil, []item{{1}})
	require.ErrorContains(t, err, "the actor is nil")
	_, err = actors.Parallel[int](t.Context(), actors.Group{Name: "g"}, nil)
	require.ErrorContains(t, err, "branch 1 is nil")
}

func TestScopeOutsideARunIsTheFirstAttemptOfNothing(t *testing.T) {
	s := core.ScopeOf(t.Context())
	assert.Zero(t, s.Attempt())
	assert.True(t, s.Address().IsZero())
}

func TestSummaryCountsAWaitForAsLongAsItLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		console := printer.New(nil)
		st := state.New(state.WithPublisher(console), state.WithRetry(core.RetryConfig{InitialDelay: time.Minute, Jitter: core.NoJitter}))
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		tool := decorators.Tool("flaky", "", func(context.Context, item) (int, error) {
			return 0, core.Retryable(errors.New("x"))
		})
		_, err := tool.Call(st.Context(t.Context()), item{})
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())
		assert.Equal(t, time.Second, console.Summary().Waited)
	})
}
