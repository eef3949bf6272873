package core_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// grace is how long a handler may take to return after its context has ended.
const grace = 50 * time.Millisecond

// timed returns a configuration without jitter and with an attempt timeout of 10s.
func timed(maxAttempts int) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: maxAttempts, AttemptTimeout: 10 * time.Second}
}

// total returns a configuration without jitter and with a RetryTimeout of d.
func total(d time.Duration) core.RetryConfig {
	return core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: core.Unlimited, RetryTimeout: d}
}

func TestAttemptTimeoutEndsTheContextOfTheHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		d := testkit.Tool(t, "tool", timed(2), func(ctx context.Context, _ string) (string, error) {
			at, ok := ctx.Deadline()
			assert.True(t, ok, "has a deadline")
			assert.Equal(t, 10*time.Second, time.Until(at), "deadline")
			assert.ErrorIs(t, context.Cause(pauseIn(ctx)), context.DeadlineExceeded)
			assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return "", ctx.Err()
		})
		_, err := testkit.Call(ctx, d)
		wantRecords(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) failed(1,exhausted,timeout)")
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, core.ErrExhausted)
		assert.Equal(t, 21*time.Second, elapsed(), "time")
		assert.Equal(t, int64(0), st.Report().Abandoned, "abandoned")
		var e *core.TimeoutError
		if !errors.As(err, &e) || e.Limit != 10*time.Second || !e.Timeout() {
			t.Errorf("%v wraps no TimeoutError of 10s", err)
		}
	})
}

func TestDeadlineIsTheSameWheneverItIsAskedFor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		begin := time.Now()
		d := testkit.Tool(t, "tool", timed(1), func(ctx context.Context, _ string) (string, error) {
			for range 3 {
				if err := testkit.Pause(ctx, time.Second); err != nil {
					return "", err
				}
				at, _ := ctx.Deadline()
				assert.Equal(t, 10*time.Second, at.Sub(begin), "deadline")
				again, _ := ctx.Deadline()
				assert.Equal(t, at, again, "asked again")
			}
			return "out", nil
		})
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
	})
}

// pauseIn waits for a context derived from ctx to end.
func pauseIn(ctx context.Context) context.Context {
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	<-derived.Done()
	return derived
}

func TestErrorOfAHandlerAfterItsTimeoutIsKept(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(1), func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", errBoom
		}))
		assert.ErrorIs(t, err, errBoom)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSuccessAfterTheTimeoutIsAFailure(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", timed(2), testkit.Attempts(testkit.Deaf(10*time.Second+grace/2), testkit.Succeed)).
			Ensure(func(context.Context, string, string) error { return nil })
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		wantRecords(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
	})
}

func TestHandlerThatDoesNotListenIsAbandoned(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(2), testkit.Attempts(testkit.Deaf(time.Minute), testkit.Succeed)))
		testkit.Completed(t, out, err)
		assert.Equal(t, 11*time.Second+grace, elapsed(), "time")
		wantRecords(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
		assert.Equal(t, int64(1), st.Report().Abandoned, "abandoned")
		assert.Equal(t, int64(0), st.Report().LateReturns, "late returns")

		<-time.After(time.Hour)
		assert.Equal(t, int64(1), st.Report().LateReturns, "late returns at the end")
		wantRecords(t, st, "started(0) failed(0,retry,timeout) retrying(1,1s) started(1) completed(1)")
	})
}

func TestAbandonedAttemptRecordsNothingLater(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		shelf := new(shelf)
		st, ctx := testkit.Run(t, state.WithArtifacts(shelf))
		child := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "child"}, testkit.Deaf(20*time.Second))
		done := make(chan struct{})
		d := testkit.Tool(t, "tool", timed(2), testkit.Attempts(func(ctx context.Context, in string) (string, error) {
			defer close(done)
			// This call is running when the attempt is abandoned …
			_, err := testkit.Call(ctx, child)
			assert.ErrorIs(t, err, core.ErrAttemptOver)
			// … and everything below happens later.
			_, err = testkit.Call(ctx, child)
			assert.ErrorIs(t, err, core.ErrAttemptOver)
			assert.ErrorIs(t, state.Put(ctx, "key", "late"), core.ErrAttemptOver)
			state.From(ctx).Log(slog.LevelInfo, "late", nil)
			core.AddUsage(ctx, core.Usage{InputTokens: 1000})
			return large(ctx, in)
		}, testkit.Succeed))
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		<-done
		synctest.Wait()
		wantRecords(t, st,
			"tool:started(0) tool/child:started(0) tool:failed(0,retry,timeout) tool:retrying(1,1s)",
			"tool:started(1) tool:completed(1)")
		assert.Len(t, testkit.Records(t, st), 7, "records") // the six above, and the first record of the run
		if v, ok, err := state.Get[string](ctx, "key"); ok || err != nil {
			t.Errorf("a value of the abandoned attempt is there: %q, %v", v, err)
		}
		assert.Equal(t, int64(1), st.Report().LateReturns, "late returns")
		assert.Empty(t, shelf.kept, "artifacts")
	})
}

func TestRunCompletesAlthoughAnAbandonedAttemptLeftACallBehind(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		child := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "child"}, testkit.Deaf(time.Minute))
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(2), testkit.Attempts(func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, child) }, testkit.Succeed)))
		testkit.Completed(t, out, err)
		<-time.After(time.Hour)
		elapsed := testkit.Stopwatch()
		st.Close()
		assert.Equal(t, snapshot.StatusCompleted, st.Status(), "status")
		assert.Equal(t, time.Duration(0), elapsed(), "time to close")
	})
}

func TestCallAfterItsParentReturnedIsRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		child := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "child"}, testkit.Succeed)
		late := make(chan error)
		_, err := testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			go func() {
				<-time.After(time.Second)
				_, err := testkit.Call(ctx, child)
				late <- err
			}()
			return "out", nil
		}))
		assert.ErrorIs(t, <-late, core.ErrAttemptOver)
		wantRecords(t, st, "started(0) completed(0)")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAbandonedHandlerDoesNotTouchTheNextAttemptsOutput(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(2), testkit.Attempts(
			func(context.Context, string) (string, error) { <-time.After(12 * time.Second); return "late", nil },
			testkit.Listening(5*time.Second), // from 11.05s to 16.05s
		)))
		testkit.Completed(t, out, err)
	})
}

func TestAttemptTimeoutCoversThePostconditions(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", timed(2), testkit.Succeed).Ensure(func(ctx context.Context, _, _ string) error { return testkit.Pause(ctx, time.Minute) })
		_, err := testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		for _, r := range calls(t, st) {
			if r.Status == record.StatusFailed {
				assert.Equal(t, 10*time.Second, r.Duration, "duration")
			}
		}
	})
}

func TestAttemptTimeoutDoesNotCoverThePreconditions(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", timed(1), testkit.Listening(9*time.Second)).Require(func(ctx context.Context, _ string) error { return testkit.Pause(ctx, time.Minute) })
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		assert.Equal(t, 9*time.Second, calls(t, st)[1].Duration, "duration")
	})
}

func TestAttemptTimeoutBeginsAfterASlowInterruptChecker(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t, state.WithInterruptChecker(func(ctx context.Context) (*core.InterruptedError, error) {
			return nil, testkit.Pause(ctx, 15*time.Second)
		}))
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(1), testkit.Listening(5*time.Second)))
		testkit.Completed(t, out, err)
	})
}

// Time spent in checks before an attempt does not count against its timeout, even if the attempt
// follows the previous one without a delay.
func TestChecksBeforeAnAttemptDoNotCountAgainstItsTimeout(t *testing.T) {
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
			return nil, testkit.Pause(ctx, time.Second)
		})}},
		"RetryWhen": {retry: core.RetryConfig{InitialDelay: core.NoDelay, RetryWhen: slow}},
		"StopWhen":  {retry: core.RetryConfig{InitialDelay: core.NoDelay, StopWhen: notYet}},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t, tt.options...)
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.retry, func(context.Context, string) (string, error) {
					<-time.After(time.Minute)
					return "", errFlaky
				}))
				testkit.Failed(t, err, record.ReasonExhausted)
				for _, r := range calls(t, st) {
					if r.Status == record.StatusFailed {
						assert.Equal(t, time.Minute, r.Duration, "duration")
					}
				}
			})
		})
	}
}

func TestTimeoutWithoutRetryFailsTheCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, testkit.Listening(time.Minute)))
		wantRecords(t, st, "started(0) failed(0,exhausted,timeout)")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestHandlerThatExitsItsGoroutineHasFailed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(3), func(context.Context, string) (string, error) {
			exit()
			return "out", nil
		}))
		testkit.Failed(t, err, record.ReasonPanic)
		if !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("%q does not say what happened", err)
		}
		wantRecords(t, st, "started(0) failed(0,panic,panic)")
	})
}

func TestRetryTimeoutCutsARunningAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", total(5*time.Second), testkit.Listening(time.Minute)))
		assert.Equal(t, 5*time.Second, elapsed(), "time")
		wantRecords(t, st, "started(0) failed(0,retry_timeout,timeout)")
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.ErrorIs(t, err, core.ErrRetryTimeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestRetryTimeoutAbandonsAHandlerThatDoesNotListen(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", total(5*time.Second), testkit.Deaf(time.Minute)))
		assert.Equal(t, 5*time.Second+grace, elapsed(), "time")
		wantRecords(t, st, "started(0) failed(0,retry_timeout,timeout)")
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.Equal(t, int64(1), st.Report().Abandoned, "abandoned")
	})
}

func TestEachAttemptHasWhatIsLeftOfRetryTimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		cfg := total(15 * time.Second)
		cfg.AttemptTimeout = 8 * time.Second
		var left []time.Duration
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, func(ctx context.Context, _ string) (string, error) {
			at, _ := ctx.Deadline()
			left = append(left, time.Until(at))
			<-ctx.Done()
			return "", ctx.Err()
		}))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		if len(left) != 2 || left[0] != 8*time.Second || left[1] != 6*time.Second {
			t.Errorf("attempts had %v", left) // 8s, a wait of 1s, and the remaining 6s
		}
	})
}

func TestRetryTimeoutThatCutsALaterAttemptKeepsTheLastErrorOfTheHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", total(5*time.Second), testkit.Attempts(testkit.Fail(core.Retryable(errBoom)), testkit.Deaf(time.Minute))))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.ErrorIs(t, err, errBoom)
		assert.ErrorIs(t, err, core.ErrRetryTimeout)
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
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", total(tt.total), testkit.Fail(errFlaky)))
				wantRecords(t, st, tt.want)
				testkit.Failed(t, err, record.ReasonRetryTimeout)
				assert.ErrorIs(t, err, core.ErrRetryTimeout)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, errFlaky)
			})
		})
	}
}

func TestTextOfARetryTimeoutNamesTheDelayThatWasPlanned(t *testing.T) {
	of := func(limit time.Duration, set func(*core.RetryConfig)) core.RetryConfig {
		cfg := total(limit)
		cfg.InitialDelay = 8 * time.Second
		set(&cfg)
		return cfg
	}
	anything := func(c *core.RetryConfig) { c.RetryOn = []core.Matcher{core.MatchAny()} }
	for _, tt := range []struct {
		name  string
		cfg   core.RetryConfig
		tries testkit.Handler
		want  string
	}{
		{"backoff", of(5*time.Second, func(*core.RetryConfig) {}), testkit.Fail(errFlaky), "the next delay of 8s does not fit into RetryTimeout of 5s, 0s of it used"},
		{"an error of unknown class", of(5*time.Second, anything), testkit.Fail(errBoom), "the next delay of 8s does not fit into RetryTimeout of 5s, 0s of it used"},
		{"capped", of(5*time.Second, func(c *core.RetryConfig) { c.MaxDelay = 6 * time.Second }), testkit.Fail(errFlaky), "the next delay of 6s does not fit into RetryTimeout of 5s, 0s of it used"},
		{"Retry-After", of(10*time.Second, func(*core.RetryConfig) {}), testkit.Fail(core.WithRetryAfter(errFlaky, 40*time.Second)), "the service asked for 40s, and 10s of RetryTimeout are left"},
		{"Retry-After of an error of unknown class", of(10*time.Second, anything), testkit.Fail(core.WithRetryAfter(errBoom, 40*time.Second)), "the service asked for 40s, and 10s of RetryTimeout are left"},
		{
			"Retry-After that was cut", of(10*time.Second, func(c *core.RetryConfig) { c.MaxRetryAfter, c.CapRetryAfter = 20*time.Second, true }),
			testkit.Fail(core.WithRetryAfter(errFlaky, time.Hour)), "the service asked for 1h0m0s, which MaxRetryAfter cuts to 20s, and 10s of RetryTimeout are left",
		},
		{
			"Retry-After below the backoff", of(7*time.Second, func(*core.RetryConfig) {}), testkit.Fail(core.WithRetryAfter(errFlaky, time.Second)),
			"the next delay of 8s does not fit into RetryTimeout of 7s, 0s of it used",
		},
		{
			"after an attempt that timed out", of(15*time.Second, func(c *core.RetryConfig) { c.AttemptTimeout = 10 * time.Second }), testkit.Listening(time.Hour),
			"the next delay of 8s does not fit into RetryTimeout of 15s, 10s of it used",
		},
		{"in an attempt", of(5*time.Second, func(*core.RetryConfig) {}), testkit.Listening(time.Hour), "RetryTimeout of 5s is over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, tt.tries))
				assert.Equal(t, tt.want, testkit.Failed(t, err, record.ReasonRetryTimeout).Detail)
			})
		})
	}
}

func TestFailureByRetryTimeoutDoesNotSleepFirst(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		cfg := total(10 * time.Second)
		cfg.InitialDelay = 11 * time.Second
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Fail(errFlaky)))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.Equal(t, time.Duration(0), elapsed(), "time")
	})
}

func TestRetryTimeoutCoversAttemptsAndWaitsOnly(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", total(10*time.Second), testkit.Listening(9*time.Second)).
			Require(func(ctx context.Context, _ string) error { return testkit.Pause(ctx, 8*time.Second) })
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
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
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t,
					state.WithRetryFor(record.KindTool, core.RetryConfig{AttemptTimeout: kind}),
					state.WithRetry(core.RetryConfig{AttemptTimeout: global}))
				tt.spec.Kind, tt.spec.Name = record.KindTool, "tool"
				e := testkit.Define(t, tt.spec, func(ctx context.Context, _ string) (string, error) {
					at, ok := ctx.Deadline()
					assert.Equal(t, tt.want > 0, ok, "has a deadline")
					if ok {
						assert.Equal(t, tt.want, time.Until(at), "timeout")
					}
					return "out", nil
				}).Event()
				if tt.ev != nil {
					e = e.WithRetry(*tt.ev)
				}
				out, err := e.Execute(ctx, "in")
				testkit.Completed(t, out, err)
			})
		})
	}
}

func TestContextOfAFinishedAttemptHasEnded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		stopped := make(chan struct{})
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(1), func(ctx context.Context, _ string) (string, error) {
			context.AfterFunc(ctx, func() { close(stopped) })
			return "out", nil
		}))
		testkit.Completed(t, out, err)
		<-stopped
	})
}

// A precondition may leave behind a goroutine that still uses its context.
func TestContextOfAPreconditionMayBeUsedDuringTheAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		stop, stopped := make(chan struct{}), make(chan struct{})
		d := testkit.Tool(t, "tool", timed(1), testkit.Listening(time.Second)).Require(func(ctx context.Context, _ string) error {
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
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		close(stop)
		<-stopped
	})
}
