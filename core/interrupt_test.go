package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// nested is a run of an agent that calls a tool.
func nested(t *testing.T, outer, inner core.RetryConfig, h handler, around func(context.Context, *definition) (string, error)) *definition {
	t.Helper()
	child := tool(t, inner, h)
	return agent(t, outer, func(ctx context.Context, _ string) (string, error) { return around(ctx, child) })
}

// swallow calls d and makes a success of whatever comes of it.
func swallow(ctx context.Context, d *definition) (string, error) {
	_, _ = call(ctx, d)
	return "out", nil
}

func TestInterruptBeforeTheCall(t *testing.T) {
	st, ctx := run(t)
	equal(t, "first", st.Interrupt(core.InterruptUser, "deploy", "ops"), true)
	equal(t, "second", st.Interrupt(core.InterruptUser, "other", "dev"), false)
	ran := 0
	_, err := call(ctx, tool(t, steady, counted(&ran, succeed)).Require(func(context.Context, string) error { ran++; return nil }))
	told(t, st, "interrupted(0,user,@entry)")
	e := interrupted(t, err, core.InterruptUser)
	equal(t, "message", e.Message, "deploy")
	equal(t, "by", e.By, "ops")
	equal(t, "text", e.Error(), "interrupted (user) by ops: deploy")
	equal(t, "ran", ran, 0)
	equal(t, "the run's", st.Interrupted(), e)

	_, err = call(st.Context(t.Context()), tool(t, steady, succeed)) // a context made after it
	interrupted(t, err, core.InterruptUser)
}

func TestInterruptDuringThePreconditions(t *testing.T) {
	for _, result := range []error{nil, errBoom} {
		st, ctx := run(t)
		ran := 0
		_, err := call(ctx, tool(t, steady, counted(&ran, succeed)).Require(func(context.Context, string) error {
			st.Interrupt(core.InterruptUser, "", "")
			return result
		}))
		told(t, st, "interrupted(0,user,@entry)")
		interrupted(t, err, core.InterruptUser)
		equal(t, "handler ran", ran, 0)
	}
}

func TestInterruptEndsTheContextOfAHandlerWithItselfAsCause(t *testing.T) {
	for _, cfg := range []core.RetryConfig{steady, timed(3), total(time.Hour)} {
		bubble(t, func(t *testing.T) {
			st, ctx := run(t)
			time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "deploy", "ops") })
			elapsed := stopwatch()
			_, err := call(ctx, tool(t, cfg, func(ctx context.Context, _ string) (string, error) {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				<-derived.Done()
				is(t, derived.Err(), context.Canceled)
				is(t, context.Cause(derived), core.ErrInterrupted)
				is(t, context.Cause(ctx), core.ErrInterrupted)
				return "", errBoom // whatever it says
			}))
			told(t, st, "started(0) interrupted(0,user)")
			e := interrupted(t, err, core.InterruptUser)
			equal(t, "by", e.By, "ops")
			equal(t, "time", elapsed(), time.Second)
		})
	}
}

func TestHandlerThatSucceedsInSpiteOfAnInterruptIsCompleted(t *testing.T) {
	for _, cfg := range []core.RetryConfig{steady, timed(3)} {
		bubble(t, func(t *testing.T) {
			st, ctx := run(t)
			d := tool(t, cfg, func(ctx context.Context, _ string) (string, error) {
				st.Interrupt(core.InterruptUser, "", "")
				<-ctx.Done()
				return "out", nil
			})
			out, err := call(ctx, d)
			completed(t, out, err)
			_, err = call(ctx, d)
			interrupted(t, err, core.InterruptUser)
			told(t, st, "tool:started(0) tool:completed(0) tool#2:interrupted(0,user,@entry)")
		})
	}
}

func TestInterruptWaitsForAHandlerWithoutATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "", "") })
		elapsed := stopwatch()
		out, err := call(ctx, tool(t, steady, deaf(time.Minute)))
		completed(t, out, err)
		equal(t, "time", elapsed(), time.Minute)
	})
}

func TestInterruptAbandonsAHandlerWithATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "", "") })
		elapsed := stopwatch()
		_, err := call(ctx, tool(t, timed(3), deaf(9*time.Second)))
		interrupted(t, err, core.InterruptUser)
		equal(t, "time", elapsed(), time.Second+grace)
		told(t, st, "started(0) interrupted(0,user)")
		equal(t, "abandoned", st.Stats().Abandoned, 1)
	})
}

func TestInterruptedChildSuspendsItsParentWhateverThatMakesOfIt(t *testing.T) {
	for name, around := range map[string]func(context.Context, *definition) (string, error){
		"returned":  call,
		"swallowed": swallow,
		"replaced": func(ctx context.Context, d *definition) (string, error) {
			_, _ = call(ctx, d)
			return "", core.Permanent(errBoom)
		},
	} {
		for _, cfg := range []core.RetryConfig{steady, timed(3)} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					st, ctx := run(t)
					time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "", "") })
					_, err := call(ctx, nested(t, cfg, steady, listening(time.Minute), around))
					interrupted(t, err, core.InterruptUser)
					told(t, st,
						"agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,user) agent:interrupted(0,user)")
				})
			})
		}
	}
}

func TestInterruptWakesAWaitAtOnce(t *testing.T) {
	const first = "started(0) failed(0,retry,connection) retrying(1,1s) "
	t.Run("at its start", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var st *state.ExecutionState
			st, ctx := run(t, state.WithPublisher(on(core.StatusRetrying, func(core.Record) { st.Interrupt(core.InterruptUser, "", "") })))
			elapsed := stopwatch()
			_, err := call(ctx, tool(t, steady, fail(errFlaky)))
			interrupted(t, err, core.InterruptUser)
			equal(t, "time", elapsed(), 0)
			told(t, st, first+"interrupted(1,user,@wait)")
		})
	})
	for name, after := range map[string]time.Duration{"in its middle": time.Second / 2, "just before its end": time.Second - 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				time.AfterFunc(after, func() { st.Interrupt(core.InterruptUser, "", "") })
				elapsed := stopwatch()
				ran := 0
				_, err := call(ctx, tool(t, steady, counted(&ran, fail(errFlaky))))
				interrupted(t, err, core.InterruptUser)
				equal(t, "time", elapsed(), after)
				equal(t, "handler ran", ran, 1)
				told(t, st, first+"interrupted(1,user,@wait)")
			})
		})
	}
	t.Run("at its end", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			st, ctx := run(t, state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
				if time.Since(start) < time.Second {
					return nil, nil
				}
				return &core.InterruptedError{Reason: core.InterruptUser}, nil
			}))
			_, err := call(ctx, tool(t, steady, fail(errFlaky)))
			interrupted(t, err, core.InterruptUser)
			equal(t, "time", time.Since(start), time.Second)
			told(t, st, first+"interrupted(1,user,@wait)")
		})
	})
	t.Run("without a delay", func(t *testing.T) {
		var st *state.ExecutionState
		st, ctx := run(t, state.WithPublisher(on(core.StatusRetrying, func(core.Record) { st.Interrupt(core.InterruptUser, "", "") })))
		_, err := call(ctx, tool(t, atOnce, fail(errFlaky)))
		interrupted(t, err, core.InterruptUser)
		told(t, st, "started(0) failed(0,retry,connection) retrying(1,0s) interrupted(1,user,@wait)")
	})
}

func TestInterruptWakesEverySleepingRetryAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		d := tool(t, core.RetryConfig{InitialDelay: time.Hour, MaxDelay: 10 * time.Hour}, fail(errFlaky))
		elapsed := stopwatch()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				_, err := call(ctx, d)
				interrupted(t, err, core.InterruptUser)
			})
		}
		synctest.Wait()
		st.Interrupt(core.InterruptUser, "", "")
		wg.Wait()
		equal(t, "time", elapsed(), 0)
	})
}

func TestInterruptIsNeverRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}, MaxAttempts: core.Unlimited, RetryWhen: func(core.Attempt) bool { return true }}
		time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "", "") })
		_, err := call(ctx, nested(t, every, every, listening(time.Minute), call))
		interrupted(t, err, core.InterruptUser)
		told(t, st, "agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,user) agent:interrupted(0,user)")
	})
}

func TestInterruptIsDecidedByTheContextAndNotByTheError(t *testing.T) {
	_, ctx := run(t)
	for _, err := range []error{context.Canceled, &core.InterruptedError{Reason: core.InterruptUser}, &core.InterruptedError{Cause: context.Canceled}} {
		_, got := call(ctx, tool(t, steady, fail(err)))
		failed(t, got, core.ReasonPermanent)
		is(t, got, err)
	}
}

func TestCancelledRootContextInterrupts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, _ := run(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		_, err := call(st.Context(ctx), nested(t, steady, steady, listening(time.Minute), swallow))
		interrupted(t, err, core.InterruptContext)
		is(t, err, errBoom)
		told(t, st, "agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,context) agent:interrupted(0,context)")

		// The run itself was not interrupted: another context goes on.
		out, err := call(st.Context(t.Context()), tool(t, steady, succeed))
		completed(t, out, err)
	})
}

func TestCancelledRootContextWakesAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, _ := run(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err := call(st.Context(ctx), tool(t, steady, fail(errFlaky)))
		interrupted(t, err, core.InterruptContext)
		is(t, err, context.Canceled)
		told(t, st, "started(0) failed(0,retry,connection) retrying(1,1s) interrupted(1,context,@wait)")
	})
}

func TestTimeoutOfTheParentInterruptsTheChild(t *testing.T) {
	for name, around := range map[string]func(context.Context, *definition) (string, error){"returned": call, "swallowed": swallow} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				out, err := call(ctx, nested(t, timed(2), steady, attempts(listening(time.Minute), succeed), around))
				completed(t, out, err)
				told(t, st,
					"agent:started(0) agent/tool:started(0) agent/tool:interrupted(0,parent_timeout)",
					"agent:failed(0,retry,timeout) agent:retrying(1,1s)",
					"agent:started(1) agent@2/tool:started(0) agent@2/tool:completed(0) agent:completed(1)")
			})
		})
	}
}

func TestTimeoutOfTheParentInterruptsAllDescendants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		middle := define(t, core.Spec{Kind: core.KindAgent, Name: "middle"}, func(ctx context.Context, _ string) (string, error) {
			return swallow(ctx, tool(t, steady, listening(time.Minute)))
		})
		_, err := call(ctx, agent(t, timed(1), func(ctx context.Context, _ string) (string, error) { return swallow(ctx, middle) }))
		failed(t, err, core.ReasonExhausted)
		is(t, err, context.DeadlineExceeded)
		told(t, st,
			"agent:started(0) agent/middle:started(0) agent/middle/tool:started(0)",
			"agent/middle/tool:interrupted(0,parent_timeout) agent/middle:interrupted(0,parent_timeout)",
			"agent:failed(0,exhausted,timeout)")
	})
}

func TestGroupThatFailsFastInterruptsItsOtherBranches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		slow := define(t, core.Spec{Kind: core.KindTool, Name: "slow"}, listening(time.Minute))
		quick := define(t, core.Spec{Kind: core.KindTool, Name: "quick"}, attempts(func(ctx context.Context, _ string) (string, error) {
			return "", errors.Join(errBoom, pause(ctx, time.Second))
		}))
		out, err := call(ctx, agent(t, steady, func(ctx context.Context, _ string) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "all"}, func(ctx context.Context) (string, error) {
				_, err := call(ctx, slow)
				interrupted(t, err, core.InterruptGroup)
				is(t, err, errBoom)
				return "", err
			}, func(ctx context.Context) (string, error) {
				<-time.After(time.Millisecond) // the other has begun
				_, err := call(ctx, quick)
				failed(t, err, core.ReasonPermanent)
				return "", err
			})
			failed(t, err, core.ReasonPermanent)
			return "out", nil // the agent copes with it
		}))
		completed(t, out, err)
		toldInAnyOrder(t, st,
			"agent:started(0) agent/group:all:started(0) agent/group:all/1:started(0) agent/group:all/2:started(0)",
			"agent/group:all/1/slow:started(0) agent/group:all/2/quick:started(0)",
			"agent/group:all/2/quick:failed(0,permanent,unknown) agent/group:all/2:failed(0,permanent,unknown)",
			"agent/group:all/1/slow:interrupted(0,group) agent/group:all/1:interrupted(0,group)",
			"agent/group:all:failed(0,permanent,unknown) agent:completed(0)")
	})
}

func TestGroupThatFailsFastSuspendsWhatIsInsideItsBranches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		d := nested(t, steady, steady, listening(time.Minute), swallow)
		_, err := actors.Parallel(ctx, actors.Group{Name: "all"}, func(ctx context.Context) (string, error) {
			_, err := call(ctx, d)
			interrupted(t, err, core.InterruptGroup)
			return "", err
		}, func(ctx context.Context) (string, error) { return "", errors.Join(pause(ctx, time.Second), errBoom) })
		is(t, err, errBoom)
		toldInAnyOrder(t, st,
			"group:all:started(0) group:all/1:started(0) group:all/2:started(0) group:all/1/agent:started(0) group:all/1/agent/tool:started(0)",
			"group:all/2:failed(0,permanent,unknown)",
			"group:all/1/agent/tool:interrupted(0,group) group:all/1/agent:interrupted(0,group) group:all/1:interrupted(0,group)",
			"group:all:failed(0,permanent,unknown)")
	})
}

func TestInterruptOfTheRunInAGroupSuspendsTheParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		time.AfterFunc(time.Second, func() { st.Interrupt(core.InterruptUser, "", "") })
		_, err := call(ctx, nested(t, steady, steady, listening(time.Minute), func(ctx context.Context, d *definition) (string, error) {
			_, err := actors.Map(ctx, actors.Group{Name: "all"}, d, []string{"in"})
			interrupted(t, err, core.InterruptUser)
			return "out", nil
		}))
		interrupted(t, err, core.InterruptUser)
		told(t, st, "agent:started(0) agent/group:all:started(0) agent/group:all/1:started(0) agent/group:all/1:interrupted(0,user)",
			"agent/group:all:interrupted(0,user) agent:interrupted(0,user)")
	})
}

func TestCallersOwnCancellationFailsTheChildAndNotTheParent(t *testing.T) {
	for name, tt := range map[string]struct {
		h    handler
		want string
	}{
		"in the handler":              {listening(time.Minute), "agent/tool:started(0) agent/tool:failed(0,canceled,canceled)"},
		"in a wait":                   {fail(core.WithRetryAfter(errFlaky, time.Minute)), "agent/tool:started(0) agent/tool:failed(0,retry,connection) agent/tool:retrying(1,1m0s,retry_after) agent/tool:failed(0,canceled,connection)"},
		"ignored by a successful one": {deaf(time.Minute), "agent/tool:started(0) agent/tool:completed(0)"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				out, err := call(ctx, nested(t, steady, steady, tt.h, func(ctx context.Context, d *definition) (string, error) {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					time.AfterFunc(time.Second, cancel)
					if _, err := call(ctx, d); err != nil {
						failed(t, err, core.ReasonCanceled)
						is(t, err, core.ErrCanceled, context.Canceled)
					}
					return "out", nil
				}))
				completed(t, out, err)
				told(t, st, "agent:started(0) "+tt.want+" agent:completed(0)")
			})
		})
	}
}

func TestCallersOwnCancellationBeforeTheCallFailsItWithoutAnAttempt(t *testing.T) {
	st, ctx := run(t)
	out, err := call(ctx, nested(t, steady, steady, succeed, func(ctx context.Context, d *definition) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := call(ctx, d)
		equal(t, "attempts", failed(t, err, core.ReasonCanceled).Attempts, 0)
		return "out", nil
	}))
	completed(t, out, err)
	told(t, st, "agent:started(0) agent/tool:failed(0,canceled,canceled,@entry) agent:completed(0)")
}

func TestRunsInterruptWinsOverTheCallersOwnCancellation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_, err := call(ctx, nested(t, steady, steady, listening(time.Minute), func(ctx context.Context, d *definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			st.Interrupt(core.InterruptUser, "", "")
			cancel()
			_, err := call(ctx, d)
			interrupted(t, err, core.InterruptUser)
			return "", err
		}))
		interrupted(t, err, core.InterruptUser)
		told(t, st, "agent:started(0) agent/tool:interrupted(0,user,@entry) agent:interrupted(0,user)")
	})
}

func TestInterruptedErrorOfARunIsSharedByItsCalls(t *testing.T) {
	st, ctx := run(t)
	st.Interrupt("budget", "too dear", "meter")
	_, one := call(ctx, tool(t, steady, succeed))
	_, two := call(ctx, tool(t, steady, succeed))
	equal(t, "reason", interrupted(t, one, "budget").Message, "too dear")
	equal(t, "error", one.Error(), two.Error())
}
