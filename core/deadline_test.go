package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// within returns a function that calls the given definition with a deadline of d.
func within(d time.Duration) func(context.Context, *testkit.Definition) (string, error) {
	return func(ctx context.Context, def *testkit.Definition) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return testkit.Call(ctx, def)
	}
}

// patient returns a configuration whose first wait takes 20s.
func patient(maxAttempts int) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: maxAttempts, InitialDelay: 20 * time.Second}
}

func TestCallersOwnDeadlineFailsTheChildAtOnce(t *testing.T) {
	for _, own := range []time.Duration{10 * time.Second, 20 * time.Second} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			elapsed := testkit.Stopwatch()
			out, err := testkit.Call(ctx, nested(t, steady, patient(3), testkit.Fail(errFlaky), func(ctx context.Context, d *testkit.Definition) (string, error) {
				_, err := within(own)(ctx, d)
				testkit.Failed(t, err, record.ReasonDeadline)
				assert.ErrorIs(t, err, core.ErrDeadline)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, errFlaky)
				return "out", nil
			}))
			testkit.Completed(t, out, err)
			assert.Equal(t, time.Duration(0), elapsed(), "time")
			wantRecords(t, st, "agent:started(0) agent/tool:started(0) agent/tool:failed(0,deadline,connection) agent:completed(0)")
		})
	}
}

func TestDeadlineAfterTheNextAttemptBeginsIsWaitedFor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, nested(t, once, patient(3), testkit.Attempts(testkit.Fail(errFlaky), testkit.Listening(time.Minute)), within(20*time.Second+1)))
		assert.ErrorIs(t, err, core.ErrDeadline)
		wantRecords(t, st, "agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
			"agent/tool:started(1) agent/tool:failed(1,deadline,timeout) agent:failed(0,exhausted,timeout)")
	})
}

func TestCallersOwnDeadlineCutsAnAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg core.RetryConfig
		h   testkit.Handler
	}{
		"that listens":      {steady, testkit.Listening(time.Minute)},
		"that is abandoned": {core.RetryConfig{AttemptTimeout: time.Hour}, testkit.Deaf(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t)
				out, err := testkit.Call(ctx, nested(t, once, tt.cfg, tt.h, func(ctx context.Context, d *testkit.Definition) (string, error) {
					_, err := within(10*time.Second)(ctx, d)
					testkit.Failed(t, err, record.ReasonDeadline)
					assert.ErrorIs(t, err, core.ErrDeadline)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					return "out", nil
				}))
				testkit.Completed(t, out, err)
			})
		})
	}
}

func TestDeadlineThatCutsALaterAttemptKeepsTheLastErrorOfTheHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		cfg := timed(3)
		_, err := testkit.Call(ctx, nested(t, once, cfg, testkit.Attempts(testkit.Fail(core.Retryable(errBoom)), testkit.Deaf(time.Minute)), within(5*time.Second)))
		assert.ErrorIs(t, err, core.ErrDeadline)
		assert.ErrorIs(t, err, errBoom)
	})
}

func TestDeadlineThatHasPassedFailsTheCallWithoutAnAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, nested(t, once, steady, testkit.Succeed, func(ctx context.Context, d *testkit.Definition) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return testkit.Call(ctx, d)
		}))
		assert.ErrorIs(t, err, core.ErrDeadline)
		wantRecords(t, st, "agent:started(0) agent/tool:failed(0,deadline,timeout,@entry) agent:failed(0,exhausted,timeout)")
	})
}

func TestDeadlineOfTheRootContextSuspendsAtOnce(t *testing.T) {
	for name, around := range map[string]func(context.Context, *testkit.Definition) (string, error){"returned": testkit.Call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, _ := testkit.Run(t)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				elapsed := testkit.Stopwatch()
				_, err := testkit.Call(st.Context(ctx), nested(t, steady, patient(3), testkit.Fail(errFlaky), around))
				testkit.Interrupted(t, err, record.InterruptContext)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Duration(0), elapsed(), "time")
				wantRecords(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
					"agent/tool:interrupted(1,context,@wait) agent:interrupted(0,context)")
			})
		})
	}
}

func TestDeadlineOfTheRootContextInterruptsAHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, _ := testkit.Run(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", steady, testkit.Listening(time.Minute)))
		testkit.Interrupted(t, err, record.InterruptContext)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		wantRecords(t, st, "started(0) interrupted(0,context)")
	})
}

func TestDeadlineOfTheParentsAttemptFailsThatAttemptAtOnce(t *testing.T) {
	for name, around := range map[string]func(context.Context, *testkit.Definition) (string, error){"returned": testkit.Call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				elapsed := testkit.Stopwatch()
				out, err := testkit.Call(ctx, nested(t, timed(2), patient(3), testkit.Failing(1, errFlaky), around))
				testkit.Completed(t, out, err)
				assert.Equal(t, time.Second, elapsed(), "time")
				wantRecords(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
					"agent/tool:interrupted(1,parent_timeout,@wait) agent:failed(0,retry,timeout) agent:retrying(1,1s)",
					"agent:started(1) agent@2/tool:started(0) agent@2/tool:completed(0) agent:completed(1)")
			})
		})
	}
}

// If several deadlines are too early, the earliest decides.
func TestNearestDeadlineDecides(t *testing.T) {
	t.Run("the parent's before the grandparent's", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			grandparent := timed(2)
			grandparent.AttemptTimeout = 15 * time.Second
			parent := nested(t, timed(2), patient(3), testkit.Failing(1, errFlaky), testkit.Call)
			top := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "top", Retry: &grandparent}, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, parent) })
			out, err := testkit.Call(ctx, top)
			testkit.Completed(t, out, err)
			wantRecords(t, st,
				"top:started(0) top/agent:started(0) top/agent/tool:started(0) top/agent/tool:failed(0,retry,connection) top/agent/tool:retrying(1,20s)",
				"top/agent/tool:interrupted(1,parent_timeout,@wait) top/agent:failed(0,retry,timeout) top/agent:retrying(1,1s)",
				"top/agent:started(1) top/agent@2/tool:started(0) top/agent@2/tool:completed(0) top/agent:completed(1) top:completed(0)")
		})
	})
	t.Run("the parent's before the root context's", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			st, _ := testkit.Run(t)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			out, err := testkit.Call(st.Context(ctx), nested(t, timed(2), patient(3), testkit.Failing(1, errFlaky), testkit.Call))
			testkit.Completed(t, out, err)
		})
	})
	t.Run("the caller's own before the root context's", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			st, _ := testkit.Run(t)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			_, err := testkit.Call(st.Context(ctx), nested(t, once, patient(3), testkit.Fail(errFlaky), within(10*time.Second)))
			testkit.Failed(t, err, record.ReasonExhausted)
			assert.ErrorIs(t, err, core.ErrDeadline)
			assert.ErrorIs(t, err, errFlaky)
		})
	})
	t.Run("the caller's own before the parent's", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, nested(t, timed(1), patient(3), testkit.Fail(errFlaky), func(ctx context.Context, d *testkit.Definition) (string, error) {
				_, err := within(5*time.Second)(ctx, d)
				assert.ErrorIs(t, err, core.ErrDeadline)
				return "out", nil
			}))
			testkit.Completed(t, out, err)
		})
	})
}

// If a handler sets a deadline for a call, it is that call that fails, even if a call inside it is
// the first to reach the deadline.
func TestCallersOwnDeadlineReachesFurtherInside(t *testing.T) {
	for name, around := range map[string]func(context.Context, *testkit.Definition) (string, error){"returned": testkit.Call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t)
				elapsed := testkit.Stopwatch()
				inner := nested(t, steady, patient(3), testkit.Fail(errFlaky), around)
				outer := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "outer"}, func(ctx context.Context, _ string) (string, error) {
					_, err := within(10*time.Second)(ctx, inner)
					testkit.Failed(t, err, record.ReasonDeadline)
					assert.ErrorIs(t, err, core.ErrDeadline)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					return "out", nil
				})
				out, err := testkit.Call(ctx, outer)
				testkit.Completed(t, out, err)
				assert.Equal(t, time.Duration(0), elapsed(), "time")
			})
		})
	}
}

func TestRetryTimeoutOfTheParentEndsItBeforeTheChildsWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, nested(t, total(10*time.Second), patient(3), testkit.Fail(errFlaky), testkit.Call))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.ErrorIs(t, err, core.ErrRetryTimeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Duration(0), elapsed(), "time")
		wantRecords(t, st,
			"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
			"agent/tool:interrupted(1,parent_timeout,@wait) agent:failed(0,retry_timeout,timeout)")
	})
}

// A call that was canceled by its caller fails if calls inside it have no outcome, even if its
// handler succeeds.
func TestCanceledCallThatSwallowsWhatItCanceledHasFailed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		inner := nested(t, once, patient(3), testkit.Fail(errFlaky), swallow)
		outer := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "outer"}, func(ctx context.Context, _ string) (string, error) {
			own, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			_, err := testkit.Call(own, inner)
			testkit.Failed(t, err, record.ReasonContextCanceled)
			assert.ErrorIs(t, err, core.ErrContextCanceled)
			assert.ErrorIs(t, err, context.Canceled)
			return "out", nil
		})
		out, err := testkit.Call(ctx, outer)
		testkit.Completed(t, out, err)
	})
}
