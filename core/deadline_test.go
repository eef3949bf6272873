package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
)

// within calls d with a deadline of the caller's own.
func within(d time.Duration) func(context.Context, *definition) (string, error) {
	return func(ctx context.Context, def *definition) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return call(ctx, def)
	}
}

// patient is a configuration whose first wait is of 20s.
func patient(maxAttempts int) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: maxAttempts, InitialDelay: 20 * time.Second}
}

func TestDeadlineOfTheCallersOwnFailsTheChildAtOnce(t *testing.T) {
	for _, own := range []time.Duration{10 * time.Second, 20 * time.Second} {
		bubble(t, func(t *testing.T) {
			st, ctx := run(t)
			elapsed := stopwatch()
			out, err := call(ctx, nested(t, steady, patient(3), fail(errFlaky), func(ctx context.Context, d *definition) (string, error) {
				_, err := within(own)(ctx, d)
				failed(t, err, core.ReasonDeadline)
				is(t, err, core.ErrDeadline, context.DeadlineExceeded, errFlaky)
				return "out", nil
			}))
			completed(t, out, err)
			equal(t, "time", elapsed(), 0)
			told(t, st, "agent:started(0) agent/tool:started(0) agent/tool:failed(0,deadline,connection) agent:completed(0)")
		})
	}
}

func TestDeadlineAfterTheNextAttemptBeginsIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_, err := call(ctx, nested(t, once, patient(3), attempts(fail(errFlaky), listening(time.Minute)), within(20*time.Second+1)))
		is(t, err, core.ErrDeadline)
		told(t, st, "agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
			"agent/tool:started(1) agent/tool:failed(1,deadline,timeout) agent:failed(0,exhausted,timeout)")
	})
}

func TestDeadlineOfTheCallersOwnCutsAnAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg core.RetryConfig
		h   handler
	}{
		"that listens":      {steady, listening(time.Minute)},
		"that is abandoned": {core.RetryConfig{AttemptTimeout: time.Hour}, deaf(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, ctx := run(t)
				out, err := call(ctx, nested(t, once, tt.cfg, tt.h, func(ctx context.Context, d *definition) (string, error) {
					_, err := within(10*time.Second)(ctx, d)
					failed(t, err, core.ReasonDeadline)
					is(t, err, core.ErrDeadline, context.DeadlineExceeded)
					return "out", nil
				}))
				completed(t, out, err)
			})
		})
	}
}

func TestDeadlineThatCutsALaterAttemptKeepsTheLastErrorOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		cfg := timed(3)
		_, err := call(ctx, nested(t, once, cfg, attempts(fail(core.Retryable(errBoom)), deaf(time.Minute)), within(5*time.Second)))
		is(t, err, core.ErrDeadline, errBoom)
	})
}

func TestDeadlineThatHasPassedFailsTheCallWithoutAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_, err := call(ctx, nested(t, once, steady, succeed, func(ctx context.Context, d *definition) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return call(ctx, d)
		}))
		is(t, err, core.ErrDeadline)
		told(t, st, "agent:started(0) agent/tool:failed(0,deadline,timeout,@entry) agent:failed(0,exhausted,timeout)")
	})
}

func TestDeadlineOfTheRootContextSuspendsAtOnce(t *testing.T) {
	for name, around := range map[string]func(context.Context, *definition) (string, error){"returned": call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, _ := run(t)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				elapsed := stopwatch()
				_, err := call(st.Context(ctx), nested(t, steady, patient(3), fail(errFlaky), around))
				interrupted(t, err, core.InterruptContext)
				is(t, err, context.DeadlineExceeded)
				equal(t, "time", elapsed(), 0)
				told(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
					"agent/tool:interrupted(1,context,@wait) agent:interrupted(0,context)")
			})
		})
	}
}

func TestDeadlineOfTheRootContextInterruptsAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, _ := run(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := call(st.Context(ctx), tool(t, steady, listening(time.Minute)))
		interrupted(t, err, core.InterruptContext)
		is(t, err, context.DeadlineExceeded)
		told(t, st, "started(0) interrupted(0,context)")
	})
}

func TestDeadlineOfTheParentsAttemptFailsThatAttemptAtOnce(t *testing.T) {
	for name, around := range map[string]func(context.Context, *definition) (string, error){"returned": call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				elapsed := stopwatch()
				out, err := call(ctx, nested(t, timed(2), patient(3), failing(1, errFlaky), around))
				completed(t, out, err)
				equal(t, "time", elapsed(), time.Second)
				told(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
					"agent/tool:interrupted(1,parent_timeout,@wait) agent:failed(0,retry,timeout) agent:retrying(1,1s)",
					"agent:started(1) agent@2/tool:started(0) agent@2/tool:completed(0) agent:completed(1)")
			})
		})
	}
}

// Of several deadlines that come too early, the first to come decides: the
// others would never have been reached.
func TestNearestDeadlineDecides(t *testing.T) {
	t.Run("the parent's before the grandparent's", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st, ctx := run(t)
			grandparent := timed(2)
			grandparent.AttemptTimeout = 15 * time.Second
			parent := nested(t, timed(2), patient(3), failing(1, errFlaky), call)
			top := define(t, core.Spec{Kind: core.KindAgent, Name: "top", Retry: &grandparent}, func(ctx context.Context, _ string) (string, error) { return call(ctx, parent) })
			out, err := call(ctx, top)
			completed(t, out, err)
			told(t, st,
				"top:started(0) top/agent:started(0) top/agent/tool:started(0) top/agent/tool:failed(0,retry,connection) top/agent/tool:retrying(1,20s)",
				"top/agent/tool:interrupted(1,parent_timeout,@wait) top/agent:failed(0,retry,timeout) top/agent:retrying(1,1s)",
				"top/agent:started(1) top/agent@2/tool:started(0) top/agent@2/tool:completed(0) top/agent:completed(1) top:completed(0)")
		})
	})
	t.Run("the parent's before the root context's", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st, _ := run(t)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			out, err := call(st.Context(ctx), nested(t, timed(2), patient(3), failing(1, errFlaky), call))
			completed(t, out, err)
		})
	})
	t.Run("the caller's own before the root context's", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st, _ := run(t)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			_, err := call(st.Context(ctx), nested(t, once, patient(3), fail(errFlaky), within(10*time.Second)))
			failed(t, err, core.ReasonExhausted)
			is(t, err, core.ErrDeadline, errFlaky)
		})
	})
	t.Run("the caller's own before the parent's", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			_, ctx := run(t)
			out, err := call(ctx, nested(t, timed(1), patient(3), fail(errFlaky), func(ctx context.Context, d *definition) (string, error) {
				_, err := within(5*time.Second)(ctx, d)
				is(t, err, core.ErrDeadline)
				return "out", nil
			}))
			completed(t, out, err)
		})
	})
}

// A deadline that a handler sets around its call is that call's own, also
// where a call further inside is the first to run into it.
func TestDeadlineOfTheCallersOwnReachesFurtherInside(t *testing.T) {
	for name, around := range map[string]func(context.Context, *definition) (string, error){"returned": call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, ctx := run(t)
				elapsed := stopwatch()
				inner := nested(t, steady, patient(3), fail(errFlaky), around)
				outer := define(t, core.Spec{Kind: core.KindAgent, Name: "outer"}, func(ctx context.Context, _ string) (string, error) {
					_, err := within(10*time.Second)(ctx, inner)
					failed(t, err, core.ReasonDeadline)
					is(t, err, core.ErrDeadline, context.DeadlineExceeded)
					return "out", nil
				})
				out, err := call(ctx, outer)
				completed(t, out, err)
				equal(t, "time", elapsed(), 0)
			})
		})
	}
}

func TestRetryTimeoutOfTheParentEndsItBeforeTheChildsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		elapsed := stopwatch()
		_, err := call(ctx, nested(t, total(10*time.Second), patient(3), fail(errFlaky), call))
		failed(t, err, core.ReasonRetryTimeout)
		is(t, err, core.ErrRetryTimeout, context.DeadlineExceeded)
		equal(t, "time", elapsed(), 0)
		told(t, st,
			"agent:started(0) agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,20s)",
			"agent/tool:interrupted(1,parent_timeout,@wait) agent:failed(0,retry_timeout,timeout)")
	})
}

// A call whose caller cancelled it has no success without the outcomes of the
// calls inside it.
func TestCanceledCallThatSwallowsWhatItCanceledHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		inner := nested(t, once, patient(3), fail(errFlaky), swallow)
		outer := define(t, core.Spec{Kind: core.KindAgent, Name: "outer"}, func(ctx context.Context, _ string) (string, error) {
			own, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			_, err := call(own, inner)
			failed(t, err, core.ReasonCanceled)
			is(t, err, core.ErrCanceled, context.Canceled)
			return "out", nil
		})
		out, err := call(ctx, outer)
		completed(t, out, err)
	})
}
