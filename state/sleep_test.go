package state_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// nap returns a handler that sleeps for an hour between two steps.
func nap(entered *int) func(context.Context, struct{}) (time.Duration, error) {
	return func(ctx context.Context, _ struct{}) (time.Duration, error) {
		*entered++
		began, err := core.Step(ctx, "begin", func(context.Context) (time.Time, error) { return time.Now(), nil })
		if err != nil {
			return 0, err
		}
		if err := core.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return time.Since(began), nil
	}
}

func TestSleepWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		entered := 0
		agent := decorators.Agent("nap", "", nap(&entered))
		for range 2 {
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			began := time.Now()
			took, err := agent.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, err)
			assert.Equal(t, time.Hour, took)
			require.NoError(t, st.Close())
			assert.LessOrEqual(t, time.Since(began), time.Hour)
		}
		assert.Equal(t, 1, entered)
	})
}

func TestSleepContinuesForTheRestAfterAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		entered := 0
		agent := decorators.Agent("nap", "", nap(&entered))
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		time.AfterFunc(20*time.Minute, func() { st.Interrupt(snapshot.Stop{}) })
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		var stopped *core.InterruptedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, record.InterruptUser, stopped.Reason)
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())
		<-time.After(10 * time.Minute)

		st, err = state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		began := time.Now()
		took, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		assert.Equal(t, time.Hour, took)
		assert.Equal(t, 30*time.Minute, time.Since(began))
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusCompleted, st.Status())
		assert.Equal(t, 2, entered)
	})
}

func TestParkedSleepPausesTheRunUntilItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		entered := 0
		agent := decorators.Agent("nap", "", nap(&entered))
		open := func() (time.Duration, snapshot.Status, error) {
			st, err := state.Open(t.Context(), store, "r", state.WithParking(time.Minute))
			require.NoError(t, err)
			took, err := agent.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return took, st.Status(), err
		}
		due := time.Now().Add(time.Hour)
		_, status, err := open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.Equal(t, snapshot.StatusPaused, status)
		info, err := store.Info(t.Context(), "r")
		require.NoError(t, err)
		assert.True(t, due.Equal(info.Due), info.Due)
		questions, err := state.Questions(t.Context(), store, "r")
		require.NoError(t, err)
		assert.Empty(t, questions)
		require.ErrorIs(t, state.Answer(t.Context(), store, "r", "nap?sleep1", "", nil), state.ErrNotAsked)

		<-time.After(30 * time.Minute) // opened too early: the run is parked again
		_, status, err = open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.Equal(t, snapshot.StatusPaused, status)
		info, err = store.Info(t.Context(), "r")
		require.NoError(t, err)
		assert.True(t, due.Equal(info.Due), info.Due)

		require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
		assert.True(t, due.Equal(time.Now()))
		took, status, err := open()
		require.NoError(t, err)
		assert.Equal(t, time.Hour, took)
		assert.Equal(t, snapshot.StatusCompleted, status)
	})
}

func TestStrictReplayOfASleepWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		entered := 0
		agent := decorators.Agent("nap", "", nap(&entered))
		st, err := state.Open(t.Context(), store, "r", state.WithParking(time.Minute))
		require.NoError(t, err)
		agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, st.Close())
		<-time.After(2 * time.Hour)
		began := time.Now()
		st, err = state.Replay(t.Context(), store, "r")
		require.NoError(t, err)
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
		assert.True(t, began.Equal(time.Now()))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, core.Sleep(ctx, time.Hour), context.DeadlineExceeded, "outside a run")
		require.NoError(t, core.Sleep(t.Context(), time.Hour))
		require.NoError(t, core.Sleep(t.Context(), 0))

		st := state.New()
		defer st.Close()
		agent := decorators.Agent("nap", "", func(ctx context.Context, _ struct{}) (string, error) {
			inner, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return "woken", map[bool]error{true: nil, false: context.Canceled}[core.Sleep(inner, time.Hour) != nil && ctx.Err() == nil]
		})
		out, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		assert.Equal(t, "woken", out)
	})
}

func TestSleepsAndQuestionsOfParallelBranchesContinueInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var woken []string
		agent := decorators.Agent("all", "", func(ctx context.Context, _ struct{}) (string, error) {
			if err := core.Sleep(ctx, 3*time.Hour); err != nil {
				return "", err
			}
			woken = append(woken, "slept")
			return core.Await(ctx, "who?", core.AwaitDefault(time.Hour, "nobody"))
		})
		begin := time.Now()
		for range 3 {
			st, err := state.Open(t.Context(), store, "r", state.WithParking(time.Minute))
			require.NoError(t, err)
			out, err := agent.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			if err == nil {
				assert.Equal(t, "nobody", out)
				assert.Equal(t, 4*time.Hour, time.Since(begin))
				assert.Equal(t, []string{"slept", "slept"}, woken)
				return
			}
			require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
		}
		t.Fatal("the run did not end")
	})
}

func ask(ctx context.Context, _ struct{}) (string, error) {
	return core.Await(ctx, "who?", core.AwaitDefault(time.Hour, "nobody"))
}

func TestQuestionHasItsDefaultWhenItsTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		answered, opened time.Duration // time since the question; answered is 0 if there is no answer
		want             string
	}{
		"nobody answers":                   {0, time.Hour, "nobody"},
		"an answer in time":                {time.Minute, 2 * time.Hour, "Ada"},
		"a late answer, before it resumes": {90 * time.Minute, 2 * time.Hour, "Ada"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				agent := decorators.Agent("ask", "", ask)
				open := func() (string, error) {
					st, err := state.Open(t.Context(), store, "r")
					require.NoError(t, err)
					out, err := agent.Call(st.Context(t.Context()), struct{}{})
					require.NoError(t, st.Close())
					return out, err
				}
				began := time.Now()
				_, err := open()
				require.ErrorIs(t, err, core.ErrAwaiting)
				questions, err := state.Questions(t.Context(), store, "r")
				require.NoError(t, err)
				require.Len(t, questions, 1)
				assert.True(t, began.Add(time.Hour).Equal(questions[0].Due))
				if c.answered > 0 {
					<-time.After(c.answered)
					require.NoError(t, state.Answer(t.Context(), store, "r", questions[0].ID, "", "Ada"))
				} else {
					<-time.After(time.Minute)
					_, err := open() // too early
					require.ErrorIs(t, err, core.ErrAwaiting)
					info, err := store.Info(t.Context(), "r")
					require.NoError(t, err)
					assert.True(t, began.Add(time.Hour).Equal(info.Due))
				}
				<-time.After(time.Until(began.Add(c.opened)))
				out, err := open()
				require.NoError(t, err)
				assert.Equal(t, c.want, out)
				require.ErrorIs(t, state.Answer(t.Context(), store, "r", questions[0].ID, "", "Bob"), state.ErrAnswered)
			})
		})
	}
}

func TestBadDefaultFailsTheCall(t *testing.T) {
	st := state.New()
	defer st.Close()
	agent := decorators.Agent("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
		return core.Await(ctx, "who?", core.AwaitDefault(0, "nobody"))
	})
	_, err := agent.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.ErrorContains(t, err, "Default(0s")
	assert.Panics(t, func() { state.New(state.WithParking(0)) })
}

func TestZeroAwaitOptionDoesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		options []core.AwaitOption[string]
		hasDue  bool
	}{
		"alone":           {[]core.AwaitOption[string]{{}}, false},
		"after a default": {[]core.AwaitOption[string]{core.AwaitDefault(time.Hour, "nobody"), {}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			agent := decorators.Agent("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
				return core.Await(ctx, "who?", c.options...)
			})
			_, err = agent.Call(st.Context(t.Context()), struct{}{})
			require.ErrorIs(t, err, core.ErrAwaiting)
			require.NoError(t, st.Close())
			questions, err := state.Questions(t.Context(), store, "r")
			require.NoError(t, err)
			require.Len(t, questions, 1)
			assert.Equal(t, c.hasDue, !questions[0].Due.IsZero())
		})
	}
}

func TestAnswerThatComesAfterTheCallsHaveStoppedMakesTheRunDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		agent := decorators.Agent("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
			return core.Await[string](ctx, "who?")
		})
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, state.Answer(t.Context(), store, "r", "ask?1", "", "Ada"))
		synctest.Wait() // until the run has recorded the answer
		require.NoError(t, st.Close())
		info, err := store.Info(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		assert.False(t, info.Due.IsZero())
	})
}

func TestSleepEndsWhenTheProcessStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		entered := 0
		agent := decorators.Agent("nap", "", nap(&entered))
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { _ = st.Shutdown(t.Context()) })
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		var stopped *core.InterruptedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, record.InterruptShutdown, stopped.Reason)
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())

		st, err = state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		took, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		assert.Equal(t, time.Hour, took)
		require.NoError(t, st.Close())
	})
}

// The clock was a day ahead when the wait began and has been set back since.
func TestWaitIsNotLongerWhenTheClockIsSetBack(t *testing.T) {
	sleeps := func(*testing.T) *testkit.Definition {
		return testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			return "out", core.Sleep(ctx, time.Hour)
		})
	}
	retries := func(t *testing.T) *testkit.Definition {
		retry := core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}
		return testkit.Tool(t, "flaky", retry, testkit.Failing(1, errFlaky))
	}
	for name, define := range map[string]func(*testing.T) *testkit.Definition{"sleep": sleeps, "delay": retries} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, waits := new(tape), define(t)
				open := func(d time.Duration, options ...state.Option) (time.Duration, error) {
					st, err := state.Open(t.Context(), s, "run-1", options...)
					require.NoError(t, err)
					defer time.AfterFunc(d, func() { st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}) }).Stop()
					began := time.Now()
					_, err = testkit.Call(st.Context(t.Context()), waits)
					require.NoError(t, st.Close())
					return time.Since(began), err
				}
				ahead := func() { s.shift(24 * time.Hour) }
				_, err := open(time.Minute)
				require.ErrorIs(t, err, core.ErrInterrupted)
				ahead()
				took, err := open(48 * time.Hour)
				require.NoError(t, err)
				assert.Equal(t, time.Hour, took)

				s, waits = new(tape), define(t)
				parking := state.WithParking(time.Minute)
				_, err = open(time.Hour, parking)
				require.ErrorIs(t, err, core.ErrInterrupted)
				ahead()
				for range 2 { // the run is parked again, now according to the corrected clock
					took, err = open(time.Hour, parking)
					require.ErrorIs(t, err, core.ErrInterrupted)
					assert.Zero(t, took)
					<-time.After(30*time.Minute + time.Millisecond)
				}
				took, err = open(time.Hour, parking)
				require.NoError(t, err)
				assert.Zero(t, took)
			})
		})
	}
}

func TestPausedRunDoesNotContinueForAQuestionThatIsNoLongerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		agent := decorators.Agent("all", "", func(ctx context.Context, _ struct{}) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "fail", Workers: 1},
				func(ctx context.Context) (string, error) { return ask(ctx, struct{}{}) },
				func(context.Context) (string, error) { return "", errBoom })
			require.ErrorIs(t, err, errBoom)
			return core.Await[string](ctx, "what?")
		})
		st, err := state.Open(t.Context(), store, "r", state.WithParking(time.Minute))
		require.NoError(t, err)
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
		questions, err := state.Questions(t.Context(), store, "r")
		require.NoError(t, err)
		require.Len(t, questions, 1)
		info, err := store.Info(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		assert.Zero(t, info.Due, "the default of the question of the failed group changes nothing")
	})
}

// The duration of a sleep may depend on when the program runs.
func TestASleepMayHaveAnotherDurationWhenTheRunIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		at := time.Now().Add(time.Hour)
		open := func() error {
			st, err := state.Open(t.Context(), store, "run", state.WithParking(time.Minute))
			require.NoError(t, err)
			program := decorators.Agent("program", "", func(ctx context.Context, in string) (string, error) {
				if err := core.Sleep(ctx, time.Until(at)); err != nil {
					return "", err
				}
				_, err := core.Await[bool](ctx, "publish?")
				return "", err
			})
			_, err = program.Call(st.Context(t.Context()), "in")
			require.NoError(t, st.Close())
			return err
		}
		require.ErrorIs(t, open(), core.ErrAwaiting)
		for range 2 {
			<-time.After(40 * time.Minute)
			err := open()
			require.ErrorIs(t, err, core.ErrAwaiting, "%v later", time.Since(at))
			require.NotErrorIs(t, err, core.ErrDivergence)
		}
		require.ErrorContains(t, open(), "publish?", "the time has passed, and the sleep is on record")

		differences, err := state.Validate(t.Context(), store, "run", func(ctx context.Context) error {
			_, err := decorators.Agent("program", "", func(ctx context.Context, in string) (string, error) {
				if err := core.Sleep(ctx, -time.Second); err != nil {
					return "", err
				}
				_, err := core.Await[bool](ctx, "publish?")
				return "", err
			}).Call(ctx, "in")
			return err
		})
		require.NoError(t, err)
		require.Empty(t, differences)
	})
}

// If one of the handler's contexts ended a sleep, the sleep ends with the same error after a
// resume, whether or not the sleep's own time has run out by then.
func TestSleepThatTheHandlersContextEndedEndsInTheSameWayAgain(t *testing.T) {
	errBored := errors.New("bored")
	for name, derive := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Minute, func() { cancel(errBored) })
			return ctx, func() { cancel(nil) }
		},
		"ended before": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
	} {
		for _, parking := range []time.Duration{24 * time.Hour, 2 * time.Minute} {
			if name == "cancel" && parking < time.Hour {
				continue // the run is parked before the context ends
			}
			t.Run(fmt.Sprint(name, ", parking ", parking), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var ends []string
					report := decorators.Tool("report", "", func(_ context.Context, in shipment) (string, error) { return in.V, nil })
					agent := decorators.Agent("nap", "", func(ctx context.Context, _ struct{}) (string, error) {
						limited, cancel := derive(ctx)
						defer cancel()
						err := core.Sleep(limited, time.Hour)
						if core.IsSuspension(err) {
							return "", err
						}
						ends = append(ends, fmt.Sprint(err, errors.Is(err, context.DeadlineExceeded)))
						if _, err := report.Call(ctx, shipment{fmt.Sprint(err)}); err != nil {
							return "", err
						}
						return core.Await[string](ctx, "go on?")
					})
					store := memstore.New()
					for _, pause := range []time.Duration{time.Second, 2 * time.Hour, 0} {
						st, err := state.Open(t.Context(), store, "r", state.WithParking(parking))
						require.NoError(t, err)
						began := time.Now()
						_, err = agent.Call(st.Context(t.Context()), struct{}{})
						require.ErrorIs(t, err, core.ErrAwaiting)
						require.NoError(t, st.Close())
						if len(ends) > 1 {
							assert.Less(t, time.Since(began), time.Second, "it does not sleep again")
						}
						<-time.After(pause)
					}
					require.Len(t, ends, 3)
					assert.Equal(t, ends[0], ends[1])
					assert.Equal(t, ends[0], ends[2])
				})
			})
		}
	}
}

// The next attempt sleeps for the remaining time, as does a tool that is called again because the
// run is retried.
func TestSleepThatTheHandlersContextEndedContinuesInTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		tool := decorators.Tool("nap", "", func(ctx context.Context, _ struct{}) (int, error) {
			attempts++
			limited, cancel := context.WithTimeout(ctx, 25*time.Minute)
			defer cancel()
			if err := core.Sleep(limited, time.Hour); err != nil {
				return 0, core.Retryable(err)
			}
			return attempts, nil
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}))
		store, began := memstore.New(), time.Now()
		run := func() (int, error) {
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			out, err := tool.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return out, err
		}
		_, err := run()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, attempts)
		_, err = state.Retry(t.Context(), store, "r")
		require.NoError(t, err)
		for range 2 {
			out, err := run()
			require.NoError(t, err)
			assert.Equal(t, 3, out)
			assert.Equal(t, time.Hour, time.Since(began).Round(time.Minute))
		}
	})
}

// If an agent failed because its own context ended its sleep, the agent sleeps for the remaining
// time when it is retried.
func TestSleepThatMadeAnAgentFailContinuesInARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := decorators.Agent("nap", "", func(ctx context.Context, _ struct{}) (string, error) {
			limited, cancel := context.WithTimeout(ctx, 40*time.Minute)
			defer cancel()
			return "rested", core.Sleep(limited, time.Hour)
		})
		store, began := memstore.New(), time.Now()
		run := func() (string, error) {
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			out, err := agent.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return out, err
		}
		_, err := run()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = state.Retry(t.Context(), store, "r")
		require.NoError(t, err)
		for range 2 {
			out, err := run()
			require.NoError(t, err)
			assert.Equal(t, "rested", out)
			assert.Equal(t, time.Hour, time.Since(began).Round(time.Minute))
		}
	})
}
