package state_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Tests of how calls, groups and runs end: interrupted, failed or completed.

type handler = func(context.Context) (string, error)

func newTool(name string, h handler, options ...actors.Option) actors.Tool[item, string] {
	return decorators.Tool(name, "", func(ctx context.Context, _ item) (string, error) { return h(ctx) }, options...)
}

func newAgent(name string, h handler, options ...actors.Option) actors.Agent[item, string] {
	return decorators.Agent(name, "", func(ctx context.Context, _ item) (string, error) { return h(ctx) }, options...)
}

func succeed(context.Context) (string, error) { return "done", nil }
func refuse(context.Context) (string, error)  { return "", core.Permanent(errors.New("no")) }
func beBusy(context.Context) (string, error)  { return "", core.Retryable(errors.New("busy")) }

// branchOf returns a branch that calls the tool.
func branchOf(tool actors.Tool[item, string]) handler {
	return func(ctx context.Context) (string, error) { return tool.Call(ctx, item{}) }
}

// listening returns a handler that closes started when it runs, and returns when its context ends.
func listening(started chan<- struct{}) handler {
	return func(ctx context.Context) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	}
}

func lastRecord(t *testing.T, st *state.ExecutionState) record.Record {
	records := testkit.Records(t, st)
	return records[len(records)-1]
}

func interrupt(st interface {
	Interrupt(stop snapshot.Stop) bool
},
) bool {
	return st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
}

func requireInterruptedByOps(t *testing.T, err error) {
	t.Helper()
	var e *core.InterruptedError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, record.InterruptUser, e.Reason)
	assert.Equal(t, "ops", e.By)
}

func TestInterruptedPollingIsASuspension(t *testing.T) {
	st := state.New()
	defer st.Close()
	poll := newTool("poll", func(ctx context.Context) (string, error) {
		interrupt(state.From(ctx))
		return "pending", nil
	}, actors.WithRetry(core.RetryConfig{
		MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay,
		RetryWhen: func(a core.Attempt) bool { return a.Output == "pending" },
	}))
	_, err := poll.Call(st.Context(t.Context()), item{})
	requireInterruptedByOps(t, err)
	last := lastRecord(t, st)
	assert.False(t, last.IsOutcome(), "the last record is %v", last.Status)
}

// askedForItsClass is an error that calls hook when its class is determined,
// after its attempt has ended.
type askedForItsClass struct{ hook func() }

func (askedForItsClass) Error() string { return "unavailable" }

func (e askedForItsClass) Class() record.Class {
	e.hook()
	return record.ClassServer
}

func TestInterruptWhileAFailureIsJudgedIsASuspension(t *testing.T) {
	st := state.New()
	defer st.Close()
	fetch := newTool("fetch", func(context.Context) (string, error) {
		return "", askedForItsClass{func() { interrupt(st) }}
	})
	_, err := fetch.Call(st.Context(t.Context()), item{})
	requireInterruptedByOps(t, err)
	last := lastRecord(t, st)
	assert.False(t, last.IsOutcome(), "the last record is %v", last.Status)
}

func TestNoCallBeginsAfterAnInterrupt(t *testing.T) {
	st := state.New()
	defer st.Close()
	began := false
	inner := newTool("inner", func(context.Context) (string, error) { began = true; return "", nil })
	outer := newAgent("outer", func(ctx context.Context) (string, error) {
		interrupt(state.From(ctx))
		// A derived context may be cancelled late; this one is never cancelled.
		return inner.Call(context.WithoutCancel(ctx), item{})
	}, actors.WithAttemptTimeout(time.Minute))
	_, err := outer.Call(st.Context(t.Context()), item{})
	requireInterruptedByOps(t, err)
	assert.False(t, began)
}

// tooPatient waits longer than the contexts of these tests last.
var tooPatient = core.RetryConfig{InitialDelay: 2 * time.Hour, Jitter: core.NoJitter}

func TestInterruptIsReportedAfterACallWithoutTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		base, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ctx := st.Context(base)
		_, err := newTool("slow", beBusy, actors.WithRetry(tooPatient)).Call(ctx, item{})
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.True(t, interrupt(st))
		_, err = newTool("next", succeed).Call(ctx, item{})
		requireInterruptedByOps(t, err)
	})
}

func TestNoAttemptBeginsAfterRetryTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := testkit.Publisher(func(r record.Record) {
			if r.Status == record.StatusRetrying {
				<-time.After(time.Minute) // so that the wait takes longer than was planned
			}
		})
		st := state.New(state.WithPublisher(held))
		defer st.Close()
		attempts := 0
		tool := newTool("fetch", func(ctx context.Context) (string, error) { attempts++; return beBusy(ctx) },
			actors.WithRetry(core.RetryConfig{InitialDelay: time.Second, RetryTimeout: 2 * time.Second, Jitter: core.NoJitter}))
		_, err := tool.Call(st.Context(t.Context()), item{})
		require.ErrorIs(t, err, core.ErrRetryTimeout)
		assert.Equal(t, 1, attempts)
		last := lastRecord(t, st)
		assert.True(t, last.IsOutcome(), "the last record is %v", last.Status)
	})
}

func TestPollingOfAnInnerCallIsNotPollingOfTheOuter(t *testing.T) {
	st := state.New()
	defer st.Close()
	poll := newTool("poll", succeed, actors.WithRetry(core.RetryConfig{
		MaxAttempts: 2, InitialDelay: core.NoDelay, RetryWhen: func(core.Attempt) bool { return true },
	}))
	never := core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}
	exclude, stop := never, never
	exclude.Exclude = []core.Matcher{core.MatchAny()}
	stop.StopWhen = func(core.Attempt) bool { return true }
	for name, cfg := range map[string]core.RetryConfig{"Exclude": exclude, "StopWhen": stop} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			outer := newAgent("outer", func(ctx context.Context) (string, error) {
				attempts++
				return poll.Call(ctx, item{})
			}, actors.WithRetry(cfg))
			_, err := outer.Call(st.Context(t.Context()), item{})
			require.Error(t, err)
			assert.Equal(t, 1, attempts)
		})
	}
}

func TestAbandonedAttemptLeavesNothingThroughAContextOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		inner, done := newTool("inner", succeed), make(chan error, 2)
		deaf := newTool("deaf", func(ctx context.Context) (string, error) {
			<-time.After(time.Minute)
			again := state.From(ctx).Context(context.WithoutCancel(ctx))
			done <- state.Put(again, "k", 1)
			_, err := inner.Call(again, item{})
			done <- err
			return "", nil
		}, actors.WithAttemptTimeout(time.Second), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		_, err := deaf.Call(st.Context(t.Context()), item{})
		require.Error(t, err)
		before := len(testkit.Records(t, st))
		require.Error(t, <-done)
		require.Error(t, <-done)
		assert.Len(t, testkit.Records(t, st), before)
	})
}

func TestPreparedCallStoppedByItsGroupIsASuspension(t *testing.T) {
	st := state.New()
	defer st.Close()
	started := make(chan struct{})
	waits, fails := newTool("waits", listening(started)), newTool("fails", refuse)
	agent := newAgent("agent", func(ctx context.Context) (string, error) {
		first, second := waits.Event().Prepare(ctx, item{}), fails.Event().Prepare(ctx, item{})
		_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, first.Execute, func(ctx context.Context) (string, error) {
			<-started
			return second.Execute(ctx)
		})
		return "", err
	})
	_, err := agent.Call(st.Context(t.Context()), item{})
	require.ErrorIs(t, err, core.ErrPermanent)
	for _, r := range testkit.Records(t, st) {
		assert.False(t, r.Name == "waits" && r.IsOutcome(), "%v: %v", r.Status, r.Reason)
	}
}

func TestSuspensionOfABranchFailsNoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		base, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		suspended := newTool("suspended", beBusy, actors.WithRetry(tooPatient))
		works := newTool("works", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
		out, err := actors.Parallel(st.Context(base), actors.Group{Name: "g"}, branchOf(works), branchOf(suspended))
		require.ErrorIs(t, err, core.ErrInterrupted)
		var failed *actors.GroupError
		require.NotErrorAs(t, err, &failed)
		assert.Equal(t, "done", out[0], "the suspension interrupted another branch")
	})
}

func TestStatusAfterAGroupIsThatOfTheCallsThatCount(t *testing.T) {
	works, fails := newTool("works", succeed), newTool("fails", refuse)
	tests := map[string]struct {
		program func(context.Context) error
		status  snapshot.Status
	}{
		"a failed group, and a fallback that completes": {func(ctx context.Context) error {
			started := make(chan struct{})
			_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branchOf(newTool("waits", listening(started))),
				func(ctx context.Context) (string, error) { <-started; return fails.Call(ctx, item{}) })
			if err == nil {
				return errors.New("the group did not fail")
			}
			_, err = works.Call(ctx, item{})
			return err
		}, snapshot.StatusCompleted},
		"a branch that handles its failure": {func(ctx context.Context) error {
			_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, func(ctx context.Context) (string, error) {
				if _, err := fails.Call(ctx, item{}); err == nil {
					return "", errors.New("the branch did not fail")
				}
				return works.Call(ctx, item{})
			})
			return err
		}, snapshot.StatusCompleted},
		"a failed branch, and a nested group that ends last": {func(ctx context.Context) error {
			first := make(chan struct{})
			_, err := actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true},
				func(ctx context.Context) (string, error) { defer close(first); return fails.Call(ctx, item{}) },
				func(ctx context.Context) (string, error) {
					<-first
					_, err := actors.Map(ctx, actors.Group{Name: "nested"}, works, []item{{}})
					return "", err
				})
			return err
		}, snapshot.StatusFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			st := state.New()
			err := test.program(st.Context(t.Context()))
			require.NoError(t, st.Close())
			assert.Equal(t, test.status, st.Status())
			assert.Equal(t, test.status == snapshot.StatusFailed, err != nil, "%v", err)
		})
	}
}
