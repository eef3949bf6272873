package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A call outside any run follows the same rules as one inside, but is not recorded.
func TestCallOutsideARunEndsAsOneInARun(t *testing.T) {
	listeningAfter := func(d time.Duration, err error) testkit.Handler {
		return func(ctx context.Context, _ string) (string, error) {
			return "", errors.Join(testkit.Pause(ctx, d), err)
		}
	}
	require := func(err error) func(*testkit.Definition) *testkit.Definition {
		return func(d *testkit.Definition) *testkit.Definition {
			return d.Require(func(context.Context, string) error { return err })
		}
	}
	ensure := func(err error) func(*testkit.Definition) *testkit.Definition {
		return func(d *testkit.Definition) *testkit.Definition {
			return d.Ensure(func(context.Context, string, string) error { return err })
		}
	}
	same := func(d *testkit.Definition) *testkit.Definition { return d }
	polling := steady
	polling.RetryWhen = func(a core.Attempt) bool { return a.Output == "pending" }
	for _, tt := range []struct {
		name string
		cfg  *core.RetryConfig // nil for the default
		kind record.Kind
		h    func() testkit.Handler
		with func(*testkit.Definition) *testkit.Definition
	}{
		{"success", nil, record.KindTool, func() testkit.Handler { return testkit.Succeed }, same},
		{"built-in of tools", nil, record.KindTool, func() testkit.Handler { return testkit.Fail(errFlaky) }, same},
		{"built-in of LLMs", nil, record.KindLLM, func() testkit.Handler { return testkit.Fail(errFlaky) }, same},
		{"built-in of agents", nil, record.KindAgent, func() testkit.Handler { return testkit.Fail(errFlaky) }, same},
		{"success after failures", &steady, record.KindTool, func() testkit.Handler { return testkit.Failing(2, errFlaky) }, same},
		{"unknown error", &steady, record.KindTool, func() testkit.Handler { return testkit.Fail(errBoom) }, same},
		{"permanent error", &steady, record.KindTool, func() testkit.Handler { return testkit.Fail(core.Permanent(errFlaky)) }, same},
		{"panic", &steady, record.KindTool, func() testkit.Handler { return func(context.Context, string) (string, error) { panic("oops") } }, same},
		{"precondition", &steady, record.KindTool, func() testkit.Handler { return testkit.Succeed }, require(errBoom)},
		{"precondition that holds", &steady, record.KindTool, func() testkit.Handler { return testkit.Failing(1, errFlaky) }, require(nil)},
		{"postcondition", &steady, record.KindTool, func() testkit.Handler { return testkit.Succeed }, ensure(errBoom)},
		{"postcondition that holds", &steady, record.KindTool, func() testkit.Handler { return testkit.Failing(1, errFlaky) }, ensure(nil)},
		{"attempt timeout", ptr(timed(2)), record.KindTool, func() testkit.Handler { return testkit.Listening(time.Hour) }, same},
		{"abandoned", ptr(timed(2)), record.KindTool, func() testkit.Handler { return testkit.Attempts(testkit.Deaf(time.Hour), testkit.Succeed) }, same},
		{"retry timeout", ptr(total(2500 * time.Millisecond)), record.KindTool, func() testkit.Handler { return listeningAfter(time.Second, errFlaky) }, same},
		{"retry-after", &steady, record.KindTool, func() testkit.Handler { return testkit.Failing(1, core.WithRetryAfter(errFlaky, time.Minute)) }, same},
		{"retry-after too long", &steady, record.KindTool, func() testkit.Handler { return testkit.Fail(core.WithRetryAfter(errFlaky, time.Hour)) }, same},
		{"polling", &polling, record.KindTool, func() testkit.Handler {
			return testkit.Attempts(func(context.Context, string) (string, error) { return "pending", nil }, testkit.Succeed)
		}, same},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				actor := func() *testkit.Definition {
					return tt.with(testkit.Define(t, core.Spec{Kind: tt.kind, Name: "tool", Retry: tt.cfg}, tt.h()))
				}
				_, ctx := testkit.Run(t)
				elapsed := testkit.Stopwatch()
				wantOut, wantErr := testkit.Call(ctx, actor())
				wantTime := elapsed()
				elapsed = testkit.Stopwatch()
				out, err := testkit.Call(t.Context(), actor())
				gotTime := elapsed()
				assert.Equal(t, wantOut, out, "output")
				if tt.cfg != nil { // the built-in delays have jitter
					assert.Equal(t, wantTime, gotTime, "time")
				}
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("got %v, in a run %v", err, wantErr)
				}
				if err == nil {
					return
				}
				assert.Equal(t, wantErr.Error(), err.Error(), "text")
				var want *core.CallError
				errors.As(wantErr, &want)
				got := testkit.Failed(t, err, want.Reason)
				assert.Equal(t, want.Stage, got.Stage, "stage")
				assert.Equal(t, want.Attempts, got.Attempts, "attempts")
				assert.True(t, got.Address.IsZero(), "address")
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestCancellationOutsideARunInterrupts(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   core.RetryConfig
		h     testkit.Handler
		after time.Duration
	}{
		"before the call":             {steady, testkit.Succeed, 0},
		"in the handler":              {steady, testkit.Listening(time.Hour), time.Second},
		"in a handler with a timeout": {core.RetryConfig{AttemptTimeout: time.Minute}, testkit.Listening(time.Hour), time.Second},
		"in a wait":                   {core.RetryConfig{InitialDelay: 30 * time.Second}, testkit.Fail(errFlaky), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.after == 0 {
					cancel(errBoom)
				}
				time.AfterFunc(tt.after, func() { cancel(errBoom) })
				elapsed := testkit.Stopwatch()
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, tt.h))
				testkit.Interrupted(t, err, record.InterruptContext)
				assert.ErrorIs(t, err, errBoom)
				assert.Equal(t, tt.after, elapsed(), "time")
			})
		})
	}
}

func TestDeadlineOutsideARunIsTheCallsOwn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		elapsed := testkit.Stopwatch()
		_, err := within(10*time.Second)(t.Context(), testkit.Tool(t, "tool", patient(3), testkit.Fail(errFlaky)))
		testkit.Failed(t, err, record.ReasonDeadline)
		assert.ErrorIs(t, err, core.ErrDeadline)
		assert.ErrorIs(t, err, errFlaky)
		assert.Equal(t, time.Duration(0), elapsed(), "time")

		_, err = within(10*time.Second)(t.Context(), testkit.Tool(t, "tool", steady, testkit.Listening(time.Hour)))
		testkit.Failed(t, err, record.ReasonDeadline)
		assert.Equal(t, 10*time.Second, elapsed(), "time")
	})
}

func TestNestedCallsOutsideARun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		out, err := testkit.Call(t.Context(), nested(t, timed(2), steady, testkit.Attempts(testkit.Listening(time.Hour), testkit.Succeed), testkit.Call))
		testkit.Completed(t, out, err)
	})
}

func TestAttemptsAreNumberedOutsideARun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var attempts []int
		out, err := testkit.Call(t.Context(), testkit.Tool(t, "tool", timed(3), func(ctx context.Context, in string) (string, error) {
			attempt := core.ScopeOf(ctx).Attempt()
			attempts = append(attempts, attempt)
			if attempt < 2 {
				return "", core.Retryable(errBoom)
			}
			return testkit.Succeed(ctx, in)
		}))
		testkit.Completed(t, out, err)
		assert.Equal(t, []int{0, 1, 2}, attempts)
		assert.Nil(t, core.ScopeOf(t.Context()), "outside every call")
	})
}

func TestScopeOutsideEveryCallIsEmpty(t *testing.T) {
	s := core.ScopeOf(t.Context())
	assert.Empty(t, s.RunID()+s.Path()+s.Address().String())
	assert.Zero(t, s.Attempt())
	assert.Empty(t, s.Tags())
	assert.Zero(t, s.RunCounts())
	assert.False(t, s.Closed())
	assert.Zero(t, s.Kind())
	assert.Empty(t, s.Name())
	assert.Nil(t, s.Parent())
	_, ctx := testkit.Run(t)
	assert.NotEmpty(t, core.ScopeOf(ctx).RunID(), "of the run, between its calls")
	assert.Zero(t, core.ScopeOf(ctx).Kind())
	assert.Nil(t, core.ScopeOf(ctx).Parent())
}

// A handler can find out which calls surround its own, even outside a run.
func TestScopeLeadsToTheCallsAroundIt(t *testing.T) {
	_, inRun := testkit.Run(t)
	for _, ctx := range []context.Context{inRun, t.Context()} {
		var around []string
		tool := testkit.Tool(t, "find", steady, func(ctx context.Context, in string) (string, error) {
			for s := core.ScopeOf(ctx); s.Kind() != 0; s = s.Parent() {
				around = append(around, fmt.Sprint(s.Kind(), " ", s.Name()))
			}
			return testkit.Succeed(ctx, in)
		})
		agent := testkit.Agent(t, "assistant", steady, func(ctx context.Context, in string) (string, error) {
			return core.Step(ctx, "look", func(ctx context.Context) (string, error) { return testkit.Call(ctx, tool) })
		})
		out, err := testkit.Call(ctx, agent)
		testkit.Completed(t, out, err)
		assert.Equal(t, []string{"tool_call find", "step look", "agent_call assistant"}, around)
	}
}

func TestHelpersOutsideARunDoNothing(t *testing.T) {
	out, err := testkit.Call(t.Context(), testkit.Tool(t, "tool", steady, func(ctx context.Context, _ string) (string, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 1})
		if state.From(ctx) != nil {
			t.Error("there is a run")
		}
		assert.True(t, core.ScopeOf(ctx).Address().IsZero(), "address")
		st := state.From(ctx)
		st.Log(slog.LevelInfo, "not logged anywhere", nil)
		assert.False(t, st.Interrupt(snapshot.Stop{}), "interrupt")
		assert.Empty(t, st.RunID(), "id")
		assert.ErrorIs(t, state.Put(ctx, "key", 1), core.ErrNoRun)
		_, _, err := state.Get[int](ctx, "key")
		assert.ErrorIs(t, err, core.ErrNoRun)
		out, err := group(ctx, "all", calling(testkit.Tool(t, "tool", steady, testkit.Succeed)))
		return out[0], err
	}))
	testkit.Completed(t, out, err)
	if a := testkit.Tool(t, "tool", steady, testkit.Succeed).Event().Prepare(t.Context(), "in").Address(); !a.IsZero() {
		t.Errorf("address %v outside a run", a)
	}
}

func TestGroupOutsideARunCancelsItsBranches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		elapsed := testkit.Stopwatch()
		_, err := actors.Parallel(t.Context(), actors.Group{Name: "all"},
			func(ctx context.Context) (string, error) {
				return "", errors.Join(testkit.Pause(ctx, time.Second), errBoom)
			},
			func(ctx context.Context) (string, error) {
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Listening(time.Hour)))
				testkit.Interrupted(t, err, record.InterruptGroup)
				assert.ErrorIs(t, err, errBoom)
				return "", err
			})
		testkit.Failed(t, err, record.ReasonPermanent)
		assert.ErrorIs(t, err, errBoom)
		assert.Equal(t, time.Second, elapsed(), "time")
	})
}

// Calls to an actor share a timer if their contexts end at the same time. A synctest bubble has its
// own clock, so calls inside it must not share a timer with calls outside.
func TestCallsOfABubbleDoNotWaitWithOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*testing.T) context.Context
	}{
		{"contexts that never end", func(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }},
		{"contexts that may end", func(t *testing.T) context.Context { return t.Context() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := make(chan struct{}, 4)
			brief := core.RetryConfig{MaxAttempts: 2, InitialDelay: 50 * time.Millisecond, Jitter: core.NoJitter}
			d := testkit.Tool(t, "tool", brief, func(context.Context, string) (string, error) {
				begun <- struct{}{}
				return "", errFlaky
			})
			var outside sync.WaitGroup
			outside.Go(func() {
				_, err := testkit.Call(tt.make(t), d)
				testkit.Failed(t, err, record.ReasonExhausted)
			})
			<-begun
			synctest.Test(t, func(t *testing.T) {
				elapsed := testkit.Stopwatch()
				_, err := testkit.Call(tt.make(t), d)
				testkit.Failed(t, err, record.ReasonExhausted)
				assert.Equal(t, brief.InitialDelay, elapsed(), "time")
			})
			outside.Wait()
		})
	}
}

func TestCancelWakesAllCallsOutsideARun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := testkit.Tool(t, "tool", steady, testkit.Fail(core.WithRetryAfter(errFlaky, time.Minute)))
		elapsed := testkit.Stopwatch()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				_, err := testkit.Call(ctx, d)
				assert.ErrorIs(t, err, errBoom)
				testkit.Interrupted(t, err, record.InterruptContext)
			})
		}
		<-time.After(time.Second)
		cancel(errBoom)
		calls.Wait()
		assert.Equal(t, time.Second, elapsed(), "time")
	})
}

func TestAZeroPreparedCallIsNotMade(t *testing.T) {
	var p core.PreparedCall[string, string]
	_, err := p.Execute(t.Context())
	require.EqualError(t, err, "core: the prepared call is a zero PreparedCall; Prepare returns one")
}
