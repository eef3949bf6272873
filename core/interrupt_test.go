package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// nested returns an agent that calls a tool.
func nested(t *testing.T, outer, inner core.RetryConfig, h testkit.Handler, around func(context.Context, *testkit.Definition) (string, error)) *testkit.Definition {
	t.Helper()
	child := testkit.Tool(t, "tool", inner, h)
	return testkit.Agent(t, "agent", outer, func(ctx context.Context, _ string) (string, error) { return around(ctx, child) })
}

// swallow calls d and succeeds, regardless of the result.
func swallow(ctx context.Context, d *testkit.Definition) (string, error) {
	_, _ = testkit.Call(ctx, d)
	return "out", nil
}

func TestInterruptBeforeTheCall(t *testing.T) {
	st, ctx := testkit.Run(t)
	assert.True(t, st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}), "first")
	assert.False(t, st.Interrupt(snapshot.Stop{By: "dev", Message: "other"}), "second")
	ran := 0
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Counted(&ran, testkit.Succeed)).Require(func(context.Context, string) error { ran++; return nil }))
	assert.Empty(t, testkit.Records(t, st)[1:], "records of calls: a call that is made after an interrupt is not recorded")
	e := testkit.Interrupted(t, err, record.InterruptUser)
	assert.Equal(t, "deploy", e.Message, "message")
	assert.Equal(t, "ops", e.By, "by")
	assert.Equal(t, "interrupted (user) by ops: deploy", e.Error(), "text")
	assert.Equal(t, 0, ran, "ran")
	assert.Same(t, e, st.Interrupted(), "the run's")

	_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", steady, testkit.Succeed)) // with a context made after the interrupt
	testkit.Interrupted(t, err, record.InterruptUser)
}

func TestInterruptDuringThePreconditions(t *testing.T) {
	for _, result := range []error{nil, errBoom} {
		st, ctx := testkit.Run(t)
		ran := 0
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Counted(&ran, testkit.Succeed)).Require(func(context.Context, string) error {
			st.Interrupt(snapshot.Stop{})
			return result
		}))
		wantRecords(t, st, "interrupted(0,user,@entry)")
		testkit.Interrupted(t, err, record.InterruptUser)
		assert.Equal(t, 0, ran, "handler ran")
	}
}

func TestInterruptEndsTheContextOfAHandlerWithItselfAsCause(t *testing.T) {
	for _, cfg := range []core.RetryConfig{steady, timed(3), total(time.Hour)} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}) })
			elapsed := testkit.Stopwatch()
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, func(ctx context.Context, _ string) (string, error) {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				<-derived.Done()
				assert.ErrorIs(t, derived.Err(), context.Canceled)
				assert.ErrorIs(t, context.Cause(derived), core.ErrInterrupted)
				assert.ErrorIs(t, context.Cause(ctx), core.ErrInterrupted)
				return "", errBoom // whatever the handler returns
			}))
			wantRecords(t, st, "started(0) interrupted(0,user)")
			e := testkit.Interrupted(t, err, record.InterruptUser)
			assert.Equal(t, "ops", e.By, "by")
			assert.Equal(t, time.Second, elapsed(), "time")
		})
	}
}

func TestHandlerThatSucceedsInSpiteOfAnInterruptIsCompleted(t *testing.T) {
	for _, cfg := range []core.RetryConfig{steady, timed(3)} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			d := testkit.Tool(t, "tool", cfg, func(ctx context.Context, _ string) (string, error) {
				st.Interrupt(snapshot.Stop{})
				<-ctx.Done()
				return "out", nil
			})
			out, err := testkit.Call(ctx, d)
			testkit.Completed(t, out, err)
			_, err = testkit.Call(ctx, d)
			testkit.Interrupted(t, err, record.InterruptUser)
			wantRecords(t, st, "started(0) completed(0)")
		})
	}
}

func TestInterruptWaitsForAHandlerWithoutATimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		elapsed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Deaf(time.Minute)))
		testkit.Completed(t, out, err)
		assert.Equal(t, time.Minute, elapsed(), "time")
	})
}

func TestInterruptAbandonsAHandlerWithATimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", timed(3), testkit.Deaf(9*time.Second)))
		testkit.Interrupted(t, err, record.InterruptUser)
		assert.Equal(t, time.Second+grace, elapsed(), "time")
		wantRecords(t, st, "started(0) interrupted(0,user)")
		assert.Equal(t, int64(1), st.Report().Abandoned, "abandoned")
	})
}

func TestInterruptedChildSuspendsItsParentWhateverTheParentReturns(t *testing.T) {
	for name, around := range map[string]func(context.Context, *testkit.Definition) (string, error){
		"returned":  testkit.Call,
		"swallowed": swallow,
		"replaced": func(ctx context.Context, d *testkit.Definition) (string, error) {
			_, _ = testkit.Call(ctx, d)
			return "", core.Permanent(errBoom)
		},
	} {
		for _, cfg := range []core.RetryConfig{steady, timed(3)} {
			t.Run(name, func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					st, ctx := testkit.Run(t)
					time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
					_, err := testkit.Call(ctx, nested(t, cfg, steady, testkit.Listening(time.Minute), around))
					testkit.Interrupted(t, err, record.InterruptUser)
					wantRecords(t, st,
						"agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,user) agent:interrupted(0,user)")
				})
			})
		}
	}
}

func TestInterruptWakesAWaitAtOnce(t *testing.T) {
	const first = "started(0) failed(0,retry,connection) retrying(1,1s) "
	t.Run("at its start", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			var st *state.ExecutionState
			st, ctx := testkit.Run(t, state.WithPublisher(on(record.StatusRetrying, func(record.Record) { st.Interrupt(snapshot.Stop{}) })))
			elapsed := testkit.Stopwatch()
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
			testkit.Interrupted(t, err, record.InterruptUser)
			assert.Equal(t, time.Duration(0), elapsed(), "time")
			wantRecords(t, st, first+"interrupted(1,user,@wait)")
		})
	})
	for name, after := range map[string]time.Duration{"in its middle": time.Second / 2, "just before its end": time.Second - 1} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				time.AfterFunc(after, func() { st.Interrupt(snapshot.Stop{}) })
				elapsed := testkit.Stopwatch()
				ran := 0
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Counted(&ran, testkit.Fail(errFlaky))))
				testkit.Interrupted(t, err, record.InterruptUser)
				assert.Equal(t, after, elapsed(), "time")
				assert.Equal(t, 1, ran, "handler ran")
				wantRecords(t, st, first+"interrupted(1,user,@wait)")
			})
		})
	}
	t.Run("at its end", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			start := time.Now()
			st, ctx := testkit.Run(t, state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
				if time.Since(start) < time.Second {
					return nil, nil
				}
				return &core.InterruptedError{Reason: record.InterruptUser}, nil
			}))
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
			testkit.Interrupted(t, err, record.InterruptUser)
			assert.Equal(t, time.Second, time.Since(start), "time")
			wantRecords(t, st, first+"interrupted(1,user,@wait)")
		})
	})
	t.Run("without a delay", func(t *testing.T) {
		var st *state.ExecutionState
		st, ctx := testkit.Run(t, state.WithPublisher(on(record.StatusRetrying, func(record.Record) { st.Interrupt(snapshot.Stop{}) })))
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", atOnce, testkit.Fail(errFlaky)))
		testkit.Interrupted(t, err, record.InterruptUser)
		wantRecords(t, st, "started(0) failed(0,retry,connection) retrying(1,0s) interrupted(1,user,@wait)")
	})
}

func TestInterruptWakesEverySleepingRetryAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: 10 * time.Hour}, testkit.Fail(errFlaky))
		elapsed := testkit.Stopwatch()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				_, err := testkit.Call(ctx, d)
				testkit.Interrupted(t, err, record.InterruptUser)
			})
		}
		synctest.Wait()
		st.Interrupt(snapshot.Stop{})
		wg.Wait()
		assert.Equal(t, time.Duration(0), elapsed(), "time")
	})
}

func TestInterruptIsNeverRetried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}, MaxAttempts: core.Unlimited, RetryWhen: func(core.Attempt) bool { return true }}
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := testkit.Call(ctx, nested(t, every, every, testkit.Listening(time.Minute), testkit.Call))
		testkit.Interrupted(t, err, record.InterruptUser)
		wantRecords(t, st, "agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,user) agent:interrupted(0,user)")
	})
}

func TestInterruptIsDecidedByTheContextAndNotByTheError(t *testing.T) {
	_, ctx := testkit.Run(t)
	for _, err := range []error{context.Canceled, &core.InterruptedError{Reason: record.InterruptUser}, &core.InterruptedError{Cause: context.Canceled}} {
		_, got := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(err)))
		testkit.Failed(t, got, record.ReasonPermanent)
		assert.ErrorIs(t, got, err)
	}
}

func TestCancelledRootContextInterrupts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, _ := testkit.Run(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		_, err := testkit.Call(st.Context(ctx), nested(t, steady, steady, testkit.Listening(time.Minute), swallow))
		testkit.Interrupted(t, err, record.InterruptContext)
		assert.ErrorIs(t, err, errBoom)
		wantRecords(t, st, "agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,context) agent:interrupted(0,context)")

		// The run itself was not interrupted, so calls with another context still work.
		out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", steady, testkit.Succeed))
		testkit.Completed(t, out, err)
	})
}

func TestCancelledRootContextWakesAWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, _ := testkit.Run(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err := testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
		testkit.Interrupted(t, err, record.InterruptContext)
		assert.ErrorIs(t, err, context.Canceled)
		wantRecords(t, st, "started(0) failed(0,retry,connection) retrying(1,1s) interrupted(1,context,@wait)")
	})
}

func TestTimeoutOfTheParentInterruptsTheChild(t *testing.T) {
	for name, around := range map[string]func(context.Context, *testkit.Definition) (string, error){"returned": testkit.Call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				out, err := testkit.Call(ctx, nested(t, timed(2), steady, testkit.Attempts(testkit.Listening(time.Minute), testkit.Succeed), around))
				testkit.Completed(t, out, err)
				wantRecords(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,parent_timeout)",
					"agent:failed(0,retry,timeout) agent:retrying(1,1s)",
					"agent:started(1) agent@2/tool:started(0) agent@2/tool:completed(0) agent:completed(1)")
			})
		})
	}
}

func TestTimeoutOfTheParentInterruptsAllDescendants(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		middle := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "middle"}, func(ctx context.Context, _ string) (string, error) {
			return swallow(ctx, testkit.Tool(t, "tool", steady, testkit.Listening(time.Minute)))
		})
		_, err := testkit.Call(ctx, testkit.Agent(t, "agent", timed(1), func(ctx context.Context, _ string) (string, error) { return swallow(ctx, middle) }))
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		wantRecords(t, st,
			"agent:started(0) agent/middle:started(0) agent/middle/tool:started(0)",
			"agent/middle/tool:interrupted(0,parent_timeout) agent/middle:interrupted(0,parent_timeout)",
			"agent:failed(0,exhausted,timeout)")
	})
}

func TestGroupThatFailsFastInterruptsItsOtherBranches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		slow := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "slow"}, testkit.Listening(time.Minute))
		quick := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "quick"}, testkit.Attempts(func(ctx context.Context, _ string) (string, error) {
			return "", errors.Join(errBoom, testkit.Pause(ctx, time.Second))
		}))
		out, err := testkit.Call(ctx, testkit.Agent(t, "agent", steady, func(ctx context.Context, _ string) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "all"}, func(ctx context.Context) (string, error) {
				_, err := testkit.Call(ctx, slow)
				testkit.Interrupted(t, err, record.InterruptGroup)
				assert.ErrorIs(t, err, errBoom)
				return "", err
			}, func(ctx context.Context) (string, error) {
				<-time.After(time.Millisecond) // by now, the other branch has begun
				_, err := testkit.Call(ctx, quick)
				testkit.Failed(t, err, record.ReasonPermanent)
				return "", err
			})
			testkit.Failed(t, err, record.ReasonPermanent)
			return "out", nil // the agent ignores the failure
		}))
		testkit.Completed(t, out, err)
		wantRecordsInAnyOrder(t, st,
			"agent:started(0) agent/group:all:started(0) agent/group:all/1:started(0) agent/group:all/2:started(0)",
			"agent/group:all/1/slow:started(0) agent/group:all/2/quick:started(0)",
			"agent/group:all/2/quick:failed(0,permanent,unknown) agent/group:all/2:failed(0,permanent,unknown)",
			"agent/group:all/1/slow:interrupted(0,group) agent/group:all/1:interrupted(0,group)",
			"agent/group:all:failed(0,permanent,unknown) agent:completed(0)")
	})
}

func TestGroupThatFailsFastSuspendsWhatIsInsideItsBranches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := nested(t, steady, steady, testkit.Listening(time.Minute), swallow)
		_, err := actors.Parallel(ctx, actors.Group{Name: "all"}, func(ctx context.Context) (string, error) {
			_, err := testkit.Call(ctx, d)
			testkit.Interrupted(t, err, record.InterruptGroup)
			return "", err
		}, func(ctx context.Context) (string, error) {
			return "", errors.Join(testkit.Pause(ctx, time.Second), errBoom)
		})
		assert.ErrorIs(t, err, errBoom)
		wantRecordsInAnyOrder(t, st,
			"group:all:started(0) group:all/1:started(0) group:all/2:started(0) group:all/1/agent:started(0) group:all/1/agent/tool:started(0)",
			"group:all/2:failed(0,permanent,unknown)",
			"group:all/1/agent/tool:interrupted(0,group) group:all/1/agent:interrupted(0,group) group:all/1:interrupted(0,group)",
			"group:all:failed(0,permanent,unknown)")
	})
}

func TestInterruptOfTheRunInAGroupSuspendsTheParent(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := testkit.Call(ctx, nested(t, steady, steady, testkit.Listening(time.Minute), func(ctx context.Context, d *testkit.Definition) (string, error) {
			_, err := actors.Map(ctx, actors.Group{Name: "all"}, d, []string{"in"})
			testkit.Interrupted(t, err, record.InterruptUser)
			return "out", nil
		}))
		testkit.Interrupted(t, err, record.InterruptUser)
		wantRecords(t, st, "agent:started(0) agent/group:all:started(0) agent/group:all/1:started(0) agent/group:all/1:interrupted(0,user)",
			"agent/group:all:interrupted(0,user) agent:interrupted(0,user)")
	})
}

func TestCallersOwnCancellationFailsTheChildAndNotTheParent(t *testing.T) {
	for name, tt := range map[string]struct {
		h    testkit.Handler
		want string
	}{
		"in the handler":              {testkit.Listening(time.Minute), "agent/tool:started(0) agent/tool:failed(0,context_canceled,canceled)"},
		"in a wait":                   {testkit.Fail(core.WithRetryAfter(errFlaky, time.Minute)), "agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,1m0s,retry_after) agent/tool:failed(0,context_canceled,connection)"},
		"ignored by a successful one": {testkit.Deaf(time.Minute), "agent/tool:started(0) agent/tool:completed(0)"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				out, err := testkit.Call(ctx, nested(t, steady, steady, tt.h, func(ctx context.Context, d *testkit.Definition) (string, error) {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					time.AfterFunc(time.Second, cancel)
					if _, err := testkit.Call(ctx, d); err != nil {
						testkit.Failed(t, err, record.ReasonContextCanceled)
						assert.ErrorIs(t, err, core.ErrContextCanceled)
						assert.ErrorIs(t, err, context.Canceled)
					}
					return "out", nil
				}))
				testkit.Completed(t, out, err)
				wantRecords(t, st, "agent:started(0) "+tt.want+" agent:completed(0)")
			})
		})
	}
}

func TestCallersOwnCancellationBeforeTheCallFailsItWithoutAnAttempt(t *testing.T) {
	st, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, nested(t, steady, steady, testkit.Succeed, func(ctx context.Context, d *testkit.Definition) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := testkit.Call(ctx, d)
		assert.Equal(t, 0, testkit.Failed(t, err, record.ReasonContextCanceled).Attempts, "attempts")
		return "out", nil
	}))
	testkit.Completed(t, out, err)
	wantRecords(t, st, "agent:started(0) agent/tool:failed(0,context_canceled,canceled,@entry) agent:completed(0)")
}

func TestRunsInterruptWinsOverTheCallersOwnCancellation(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, nested(t, steady, steady, testkit.Listening(time.Minute), func(ctx context.Context, d *testkit.Definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			st.Interrupt(snapshot.Stop{})
			cancel()
			_, err := testkit.Call(ctx, d)
			testkit.Interrupted(t, err, record.InterruptUser)
			return "", err
		}))
		testkit.Interrupted(t, err, record.InterruptUser)
		wantRecords(t, st, "started(0) interrupted(0,user)")
	})
}

func TestInterruptedErrorOfARunIsSharedByItsCalls(t *testing.T) {
	st, ctx := testkit.Run(t)
	st.Interrupt(snapshot.Stop{Reason: "budget", By: "meter", Message: "too dear"})
	_, one := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed))
	_, two := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed))
	assert.Equal(t, "too dear", testkit.Interrupted(t, one, "budget").Message, "reason")
	assert.Equal(t, two.Error(), one.Error(), "error")
}

// Even if a handler removes the cancellation from its context, an interrupt must not be delayed
// until the handler's calls end.
func TestInterruptReachesCallsWhoseContextWasCutOff(t *testing.T) {
	cutOff := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cut off": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		},
		"with a timeout after": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Hour)
		},
		"with an end after": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithoutCancel(ctx))
		},
		"with a value after": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Hour)
			return context.WithValue(ctx, keyOfNothing{}, 1), cancel
		},
	}
	for name, tool := range map[string]*testkit.Definition{
		"in the handler": testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Listening(time.Hour)),
		"in a wait":      testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}, testkit.Fail(errFlaky)),
	} {
		for how, cut := range cutOff {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				elapsed := testkit.Stopwatch()
				time.AfterFunc(time.Minute, func() { st.Interrupt(snapshot.Stop{By: "ops"}) })
				_, err := testkit.Call(ctx, testkit.Agent(t, "agent", core.RetryConfig{}, func(ctx context.Context, _ string) (string, error) {
					ctx, cancel := cut(ctx)
					defer cancel()
					return testkit.Call(ctx, tool)
				}))
				testkit.Interrupted(t, err, record.InterruptUser)
				assert.Equal(t, time.Minute, elapsed(), name+" "+how)
			})
		}
	}
}

type keyOfNothing struct{}
