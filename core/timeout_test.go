package core_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// grace is how long a handler may take to return after its context ended.
const grace = 50 * time.Millisecond

// timed is a configuration without jitter and with an attempt timeout of 10s.
func timed(maxAttempts int) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: maxAttempts, AttemptTimeout: 10 * time.Second}
}

// total is a configuration without jitter and with a total timeout.
func total(d time.Duration) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: core.Unlimited, RetryTimeout: d}
}

func TestAttemptTimeoutEndsTheContextOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		elapsed := stopwatch()
		d := tool(t, timed(2), func(ctx context.Context, _ string) (string, error) {
			at, ok := ctx.Deadline()
			equal(t, "has a deadline", ok, true)
			equal(t, "deadline", time.Until(at), 10*time.Second)
			is(t, context.Cause(pauseIn(ctx)), context.DeadlineExceeded)
			is(t, ctx.Err(), context.DeadlineExceeded)
			return "", ctx.Err()
		})
		_, err := call(ctx, d)
		told(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) failed(1,exhausted,timeout)")
		failed(t, err, core.ReasonExhausted)
		is(t, err, context.DeadlineExceeded, core.ErrExhausted)
		equal(t, "time", elapsed(), 21*time.Second)
		equal(t, "abandoned", st.Stats().Abandoned, 0)
		var e *core.TimeoutError
		if !errors.As(err, &e) || e.Limit != 10*time.Second || !e.Timeout() {
			t.Errorf("%v holds no TimeoutError of 10s", err)
		}
	})
}

func TestDeadlineIsTheSameWheneverItIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		begin := time.Now()
		d := tool(t, timed(1), func(ctx context.Context, _ string) (string, error) {
			for range 3 {
				if err := pause(ctx, time.Second); err != nil {
					return "", err
				}
				at, _ := ctx.Deadline()
				equal(t, "deadline", at.Sub(begin), 10*time.Second)
				again, _ := ctx.Deadline()
				equal(t, "asked again", again, at)
			}
			return "out", nil
		})
		out, err := call(ctx, d)
		completed(t, out, err)
	})
}

// pauseIn waits for the end of a context derived from ctx.
func pauseIn(ctx context.Context) context.Context {
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	<-derived.Done()
	return derived
}

func TestWhatAHandlerSaysAfterItsTimeIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		_, err := call(ctx, tool(t, timed(1), func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", errBoom
		}))
		is(t, err, errBoom, context.DeadlineExceeded)
	})
}

func TestSuccessAfterItsTimeIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		d := tool(t, timed(2), attempts(deaf(10*time.Second+grace/2), succeed)).
			Ensure(func(context.Context, string, string) error { return nil })
		out, err := call(ctx, d)
		completed(t, out, err)
		told(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
	})
}

func TestHandlerThatDoesNotListenIsAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		elapsed := stopwatch()
		out, err := call(ctx, tool(t, timed(2), attempts(deaf(time.Minute), succeed)))
		completed(t, out, err)
		equal(t, "time", elapsed(), 11*time.Second+grace)
		told(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
		equal(t, "abandoned", st.Stats().Abandoned, 1)
		equal(t, "late returns", st.Stats().LateReturns, 0)

		<-time.After(time.Hour)
		equal(t, "late returns in the end", st.Stats().LateReturns, 1)
		told(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
	})
}

func TestNothingOfAnAbandonedAttemptLandsLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shelf := new(shelf)
		st, ctx := run(t, state.WithArtifacts(shelf))
		child := define(t, core.Spec{Kind: core.KindTool, Name: "child"}, deaf(20*time.Second))
		done := make(chan struct{})
		d := tool(t, timed(2), attempts(func(ctx context.Context, in string) (string, error) {
			defer close(done)
			// This call is under way when the attempt is abandoned …
			_, err := call(ctx, child)
			is(t, err, core.ErrAttemptOver)
			// … and all of this comes later.
			_, err = call(ctx, child)
			is(t, err, core.ErrAttemptOver)
			is(t, state.Put(ctx, "key", "late"), core.ErrAttemptOver)
			is(t, state.PutStepResult(ctx, "step", "late"), core.ErrAttemptOver)
			state.From(ctx).Log(slog.LevelInfo, "late", nil)
			core.AddUsage(ctx, core.Usage{InputTokens: 1000})
			return large(ctx, in)
		}, succeed))
		out, err := call(ctx, d)
		completed(t, out, err)
		<-done
		synctest.Wait()
		told(t, st,
			"tool:started(0) tool/child:started(0) tool:failed(0,retry,timeout) tool:retrying(1,1s)",
			"tool:started(1) tool:completed(1)")
		equal(t, "records", len(st.Records()), 7) // these and the run's first
		if v, ok, err := state.Get[string](ctx, "key"); ok || err != nil {
			t.Errorf("a value of the abandoned attempt is there: %q, %v", v, err)
		}
		equal(t, "late returns", st.Stats().LateReturns, 1)
		equal(t, "artifacts", len(shelf.kept), 0)
	})
}

func TestRunCompletesAlthoughAnAbandonedAttemptLeftACallBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		child := define(t, core.Spec{Kind: core.KindTool, Name: "child"}, deaf(time.Minute))
		out, err := call(ctx, tool(t, timed(2), attempts(func(ctx context.Context, _ string) (string, error) { return call(ctx, child) }, succeed)))
		completed(t, out, err)
		<-time.After(time.Hour)
		elapsed := stopwatch()
		st.Close()
		equal(t, "status", st.Status(), state.StatusCompleted)
		equal(t, "time to close", elapsed(), 0)
	})
}

func TestCallAfterItsParentReturnedIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		child := define(t, core.Spec{Kind: core.KindTool, Name: "child"}, succeed)
		late := make(chan error)
		_, err := call(ctx, agent(t, once, func(ctx context.Context, _ string) (string, error) {
			go func() {
				<-time.After(time.Second)
				_, err := call(ctx, child)
				late <- err
			}()
			return "out", nil
		}))
		is(t, <-late, core.ErrAttemptOver)
		told(t, st, "started(0) completed(0)")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAbandonedHandlerDoesNotTouchTheNextAttemptsOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		out, err := call(ctx, tool(t, timed(2), attempts(
			func(context.Context, string) (string, error) { <-time.After(12 * time.Second); return "late", nil },
			listening(5*time.Second), // from 11.05s to 16.05s
		)))
		completed(t, out, err)
	})
}

func TestAttemptTimeoutCoversThePostconditions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		d := tool(t, timed(2), succeed).Ensure(func(ctx context.Context, _, _ string) error { return pause(ctx, time.Minute) })
		_, err := call(ctx, d)
		failed(t, err, core.ReasonExhausted)
		is(t, err, context.DeadlineExceeded)
		for _, r := range calls(st) {
			if r.Status == core.StatusFailed {
				equal(t, "duration", r.Duration, 10*time.Second)
			}
		}
	})
}

func TestAttemptTimeoutDoesNotCoverThePreconditions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		d := tool(t, timed(1), listening(9*time.Second)).Require(func(ctx context.Context, _ string) error { return pause(ctx, time.Minute) })
		out, err := call(ctx, d)
		completed(t, out, err)
		equal(t, "duration", calls(st)[1].Duration, 9*time.Second)
	})
}

func TestAttemptTimeoutBeginsAfterASlowInterruptChecker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t, state.WithInterruptChecker(func(ctx context.Context) (*core.InterruptedError, error) {
			return nil, pause(ctx, 15*time.Second)
		}))
		out, err := call(ctx, tool(t, timed(1), listening(5*time.Second)))
		completed(t, out, err)
	})
}

// TestAttemptTakesNoTimeOfWhatIsAskedBeforeIt: also one that follows at once.
func TestAttemptTakesNoTimeOfWhatIsAskedBeforeIt(t *testing.T) {
	slow := func(core.Attempt) bool {
		<-time.After(time.Second)
		return true
	}
	notYet := func(a core.Attempt) bool { return !slow(a) }
	for name, tt := range map[string]struct {
		retry   core.RetryConfig
		options []state.Option
	}{
		"checker": {retry: atOnce, options: []state.Option{state.WithInterruptChecker(func(ctx context.Context) (*core.InterruptedError, error) {
			return nil, pause(ctx, time.Second)
		})}},
		"RetryWhen": {retry: core.RetryConfig{InitialDelay: core.NoDelay, RetryWhen: slow}},
		"StopWhen":  {retry: core.RetryConfig{InitialDelay: core.NoDelay, StopWhen: notYet}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t, tt.options...)
				_, err := call(ctx, tool(t, tt.retry, func(context.Context, string) (string, error) {
					<-time.After(time.Minute)
					return "", errFlaky
				}))
				failed(t, err, core.ReasonExhausted)
				for _, r := range calls(st) {
					if r.Status == core.StatusFailed {
						equal(t, "duration", r.Duration, time.Minute)
					}
				}
			})
		})
	}
}

func TestTimeoutWithoutRetryFailsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_, err := call(ctx, tool(t, core.RetryConfig{Disabled: true, AttemptTimeout: time.Second}, listening(time.Minute)))
		told(t, st, "started(0) failed(0,exhausted,timeout)")
		is(t, err, context.DeadlineExceeded)
	})
}

func TestHandlerThatExitsItsGoroutineHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_, err := call(ctx, tool(t, timed(3), func(context.Context, string) (string, error) {
			exit()
			return "out", nil
		}))
		failed(t, err, core.ReasonPanic)
		if !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("%q does not say what happened", err)
		}
		told(t, st, "started(0) failed(0,panic,panic)")
	})
}

func TestRetryTimeoutCutsARunningAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		elapsed := stopwatch()
		_, err := call(ctx, tool(t, total(5*time.Second), listening(time.Minute)))
		equal(t, "time", elapsed(), 5*time.Second)
		told(t, st, "started(0) failed(0,retry_timeout,timeout)")
		failed(t, err, core.ReasonRetryTimeout)
		is(t, err, core.ErrRetryTimeout, context.DeadlineExceeded)
	})
}

func TestRetryTimeoutAbandonsAHandlerThatDoesNotListen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		elapsed := stopwatch()
		_, err := call(ctx, tool(t, total(5*time.Second), deaf(time.Minute)))
		equal(t, "time", elapsed(), 5*time.Second+grace)
		told(t, st, "started(0) failed(0,retry_timeout,timeout)")
		failed(t, err, core.ReasonRetryTimeout)
		equal(t, "abandoned", st.Stats().Abandoned, 1)
	})
}

func TestEachAttemptHasWhatIsLeftOfRetryTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		cfg := total(15 * time.Second)
		cfg.AttemptTimeout = 8 * time.Second
		var left []time.Duration
		_, err := call(ctx, tool(t, cfg, func(ctx context.Context, _ string) (string, error) {
			at, _ := ctx.Deadline()
			left = append(left, time.Until(at))
			<-ctx.Done()
			return "", ctx.Err()
		}))
		failed(t, err, core.ReasonRetryTimeout)
		if len(left) != 2 || left[0] != 8*time.Second || left[1] != 6*time.Second {
			t.Errorf("attempts had %v", left) // 8s, a wait of 1s, the 6s that are left
		}
	})
}

func TestRetryTimeoutThatCutsALaterAttemptKeepsTheLastErrorOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		_, err := call(ctx, tool(t, total(5*time.Second), attempts(fail(core.Retryable(errBoom)), deaf(time.Minute))))
		failed(t, err, core.ReasonRetryTimeout)
		is(t, err, errBoom, core.ErrRetryTimeout)
	})
}

func TestWaitThatWouldReachRetryTimeoutIsNotBegun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		total time.Duration
		want  string
	}{
		// Waits of 1s and 2s.
		{"in the middle of the second wait", 2 * time.Second, "started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry_timeout,connection)"},
		{"exactly at the end of the second wait", 3 * time.Second, "started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry_timeout,connection)"},
		{"just after the second wait", 3*time.Second + 1, "started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry,connection) retrying(2,2s) started(2) failed(2,retry_timeout,connection)"},
		{"exactly at the end of the first wait", time.Second, "started(0) failed(0,retry_timeout,connection)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				_, err := call(ctx, tool(t, total(tt.total), fail(errFlaky)))
				told(t, st, tt.want)
				failed(t, err, core.ReasonRetryTimeout)
				is(t, err, core.ErrRetryTimeout, context.DeadlineExceeded, errFlaky)
			})
		})
	}
}

func TestFailureByRetryTimeoutDoesNotSleepFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		elapsed := stopwatch()
		cfg := total(10 * time.Second)
		cfg.InitialDelay = 11 * time.Second
		_, err := call(ctx, tool(t, cfg, fail(errFlaky)))
		failed(t, err, core.ReasonRetryTimeout)
		equal(t, "time", elapsed(), 0)
	})
}

func TestRetryTimeoutCoversAttemptsAndWaitsOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		d := tool(t, total(10*time.Second), listening(9*time.Second)).
			Require(func(ctx context.Context, _ string) error { return pause(ctx, 8*time.Second) })
		out, err := call(ctx, d)
		completed(t, out, err)
	})
}

func TestAttemptTimeoutOfTheActorWinsOverItsConfiguration(t *testing.T) {
	const actor, own, event, kind, global = 1 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second
	for _, tt := range []struct {
		name string
		spec core.Spec
		ev   *core.RetryConfig
		want time.Duration
	}{
		{"the event's configuration", core.Spec{AttemptTimeout: actor, Retry: &core.RetryConfig{AttemptTimeout: own}}, &core.RetryConfig{AttemptTimeout: event}, event},
		{"the actor's own", core.Spec{AttemptTimeout: actor, Retry: &core.RetryConfig{AttemptTimeout: own}}, nil, actor},
		{"the actor's own under a silent event", core.Spec{AttemptTimeout: actor, Retry: &core.RetryConfig{AttemptTimeout: own}}, &core.RetryConfig{}, actor},
		{"the actor's configuration", core.Spec{Retry: &core.RetryConfig{AttemptTimeout: own}}, nil, own},
		{"the actor's own over the kind's", core.Spec{AttemptTimeout: actor}, nil, actor},
		{"the kind's", core.Spec{}, nil, kind},
		{"none under a silent event", core.Spec{}, &core.RetryConfig{}, 0},
		{"none under a silent actor", core.Spec{Retry: &core.RetryConfig{}}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, ctx := run(t,
					state.WithRetryFor(core.KindTool, core.RetryConfig{AttemptTimeout: kind}),
					state.WithRetry(core.RetryConfig{AttemptTimeout: global}))
				tt.spec.Kind, tt.spec.Name = core.KindTool, "tool"
				e := define(t, tt.spec, func(ctx context.Context, _ string) (string, error) {
					at, ok := ctx.Deadline()
					equal(t, "has a deadline", ok, tt.want > 0)
					if ok {
						equal(t, "timeout", time.Until(at), tt.want)
					}
					return "out", nil
				}).Event()
				if tt.ev != nil {
					e = e.WithRetry(*tt.ev)
				}
				out, err := e.Execute(ctx, "in")
				completed(t, out, err)
			})
		})
	}
}

func TestContextOfAFinishedAttemptHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		stopped := make(chan struct{})
		out, err := call(ctx, tool(t, timed(1), func(ctx context.Context, _ string) (string, error) {
			context.AfterFunc(ctx, func() { close(stopped) })
			return "out", nil
		}))
		completed(t, out, err)
		<-stopped
	})
}

// A precondition may leave something behind that still looks at its context.
func TestContextOfAPreconditionMayBeWatchedOnDuringTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		stop, stopped := make(chan struct{}), make(chan struct{})
		d := tool(t, timed(1), listening(time.Second)).Require(func(ctx context.Context, _ string) error {
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						_ = ctx.Err()
					}
				}
			}()
			return nil
		})
		out, err := call(ctx, d)
		completed(t, out, err)
		close(stop)
		<-stopped
	})
}
