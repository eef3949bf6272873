package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A crashing program is opened repeatedly. When a handler calls crash, its process ends, and later
// records are lost.
type crashing struct {
	tape    *tape
	left    *tape // the records left by the ended process; nil while it runs
	options []state.Option
}

func newCrashing(options ...state.Option) *crashing {
	return &crashing{tape: new(tape), options: options}
}

// crash ends the process.
func (c *crashing) crash() {
	if c.left == nil {
		c.tape.mu.Lock()
		defer c.tape.mu.Unlock()
		c.left = c.tape.cut(len(c.tape.records))
	}
}

// run opens the run, executes the program and closes the run. It returns the program's error and
// the status with which the run was closed.
func (c *crashing) run(t *testing.T, program func(context.Context) error) (snapshot.Status, error) {
	t.Helper()
	c.left = nil
	st, err := state.Open(t.Context(), c.tape, "run-1", c.options...)
	require.NoError(t, err)
	err = program(st.Context(t.Context()))
	require.NoError(t, st.Close())
	if c.left != nil {
		c.tape = c.left
	}
	return st.Status(), err
}

// runUntilCrashLoop runs a program until its run is interrupted with the reason crash_loop. It
// returns how often the process ended before that.
func (c *crashing) runUntilCrashLoop(t *testing.T, program func(context.Context) error) (crashes int, e *record.InterruptedError) {
	t.Helper()
	for crashes = range 30 {
		status, err := c.run(t, program)
		if c.left == nil {
			require.Equal(t, snapshot.StatusInterrupted, status)
			return crashes, testkit.Interrupted(t, err, record.InterruptCrashLoop)
		}
	}
	t.Fatal("the run was never interrupted with crash_loop")
	return 0, nil
}

// started returns the started records of the call at the address.
func (c *crashing) started(address string) (all []record.Record) {
	for _, r := range c.tape.records {
		if r.Address.String() == address && r.Status == record.StatusStarted {
			all = append(all, r)
		}
	}
	return all
}

// callingOnce returns a program that makes one call.
func callingOnce(t *testing.T, spec core.Spec, handler func(context.Context) (string, error)) func(context.Context) error {
	t.Helper()
	d, err := core.NewDefinition(spec, func(ctx context.Context, _ int) (string, error) { return handler(ctx) })
	require.NoError(t, err)
	return func(ctx context.Context) error {
		_, err := d.Event().Execute(ctx, 1)
		return err
	}
}

// leaves are the kinds of calls that cannot be entered again.
var leaves = map[string]record.Kind{"tool": record.KindTool, "llm": record.KindLLM, "step": record.KindStep}

func TestLostAttemptIsMadeAgainUnderItsOwnNumber(t *testing.T) {
	for name, kind := range leaves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrashing()
				var keys []string
				program := callingOnce(t, core.Spec{Kind: kind, Name: "call"}, func(ctx context.Context) (string, error) {
					key, err := core.IdempotencyKey(ctx)
					keys = append(keys, key)
					assert.Zero(t, core.ScopeOf(ctx).Attempt())
					if len(keys) < 4 {
						c.crash()
					}
					return "", err
				})
				for range 4 {
					_, err := c.run(t, program)
					require.NoError(t, err)
				}
				require.Len(t, keys, 4)
				assert.Len(t, slices.Compact(keys), 1, "the effect has one key")
				for i, r := range c.started("call") {
					assert.Zero(t, r.Attempt)
					want := record.ReasonLost
					if i == 0 {
						want = record.ReasonNone
					}
					assert.Equal(t, want, r.Reason, "start %d", i+1)
				}
			})
		})
	}
}

func TestLostAttemptCountsAgainstNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing(state.WithMaxLosses(core.Unlimited))
		retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay, RetryTimeout: time.Minute}
		made := 0
		program := callingOnce(t, core.Spec{Kind: record.KindTool, Name: "call", Retry: &retry}, func(ctx context.Context) (string, error) {
			made++
			if made <= 10 {
				time.Sleep(50 * time.Second) //nolint:forbidigo // in the bubble's time
				c.crash()
				return "", nil
			}
			return "", core.Retryable(errors.New("busy"))
		})
		var err error
		for range 11 {
			_, err = c.run(t, program)
		}
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.Equal(t, 12, made, "both attempts ran to their end")
	})
}

func TestCallThatEndsItsProcessEachTimeInterruptsTheRun(t *testing.T) {
	for _, limit := range []struct {
		name    string
		want    int
		retry   *core.RetryConfig
		options []state.Option
	}{
		{"by default", 5, nil, nil},
		{"by the run", 2, nil, []state.Option{state.WithMaxLosses(2)}},
		{"by its configuration", 3, &core.RetryConfig{MaxLosses: 3}, []state.Option{state.WithMaxLosses(2)}},
		{"even if it is not retried", 3, &core.RetryConfig{MaxLosses: 3, MaxAttempts: 1}, nil},
		{"after more losses than it has attempts", 7, &core.RetryConfig{MaxLosses: 7, MaxAttempts: 2}, nil},
	} {
		for name, kind := range leaves {
			t.Run(limit.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrashing(limit.options...)
					program := callingOnce(t, core.Spec{Kind: kind, Name: "call", Retry: limit.retry}, func(context.Context) (string, error) {
						c.crash()
						return "", nil
					})
					for range 3 { // each resume allows the same number of losses again
						crashes, e := c.runUntilCrashLoop(t, program)
						assert.Equal(t, limit.want, crashes)
						assert.Contains(t, e.Message, fmt.Sprintf("%d times in a row while call (%s) was under way", limit.want, name))
					}
				})
			})
		}
	}
}

func TestRunWithoutALimitOfLossesIsNeverInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing(state.WithMaxLosses(core.Unlimited))
		program := callingOnce(t, core.Spec{Kind: record.KindTool, Name: "call"}, func(context.Context) (string, error) {
			c.crash()
			return "", nil
		})
		for range 20 {
			_, err := c.run(t, program)
			require.NoError(t, err)
			require.NotNil(t, c.left)
		}
	})
}

// nest returns a program of nested agents. The innermost agent runs the given
// function.
func nest(t *testing.T, names []string, innermost func(context.Context) error) func(context.Context) error {
	t.Helper()
	inside := innermost
	for _, name := range slices.Backward(names) {
		next := inside
		inside = callingOnce(t, core.Spec{Kind: record.KindAgent, Name: name}, func(ctx context.Context) (string, error) { return "", next(ctx) })
	}
	return inside
}

func TestLossesOfTheInnermostCallInterruptTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		innermost *core.Spec // the call that crashes; nil if it is the innermost agent itself
		want      string
	}{
		"a tool":         {&core.Spec{Kind: record.KindTool, Name: "bad"}, "a/b/c/bad (tool)"},
		"an agent":       {&core.Spec{Kind: record.KindAgent, Name: "bad"}, "a/b/c/bad (agent)"},
		"code of agents": {nil, "a/b/c (agent)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := newCrashing()
				crash := func(context.Context) (string, error) { run.crash(); return "", nil }
				innermost := func(ctx context.Context) error { _, err := crash(ctx); return err }
				if c.innermost != nil {
					innermost = callingOnce(t, *c.innermost, crash)
				}
				program := nest(t, []string{"a", "b", "c"}, innermost)
				for range 2 {
					crashes, e := run.runUntilCrashLoop(t, program)
					assert.Equal(t, 5, crashes)
					assert.Contains(t, e.Message, "while "+c.want)
				}
			})
		})
	}
}

func TestLossesOfAnAgentThatMadeProgressDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing(state.WithMaxLosses(2))
		step := 0
		program := nest(t, []string{"agent"}, func(ctx context.Context) error {
			for i := range 20 {
				now := step
				_, err := core.Step(ctx, fmt.Sprint("step", i), func(context.Context) (int, error) { step++; return step, nil })
				if err != nil {
					return err
				}
				if step > now {
					c.crash()
					return nil
				}
			}
			return nil
		})
		for range 20 {
			_, err := c.run(t, program)
			require.NoError(t, err)
		}
		assert.Equal(t, 20, step)
	})
}

func TestAnOrderlyCloseIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing()
		retry := core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Hour}
		crashes := false
		program := callingOnce(t, core.Spec{Kind: record.KindTool, Name: "slow", Retry: &retry}, func(ctx context.Context) (string, error) {
			if crashes {
				c.crash()
				return "", nil
			}
			time.Sleep(24 * time.Hour) //nolint:forbidigo // the handler ignores its context
			return "", nil
		})
		deploy := func(ctx context.Context) error {
			done := make(chan error, 1)
			go func() { done <- program(ctx) }()
			synctest.Wait()
			return nil // the run is closed while the handler is running
		}
		for range 10 {
			crashes = false
			_, err := c.run(t, deploy)
			require.NoError(t, err)
			crashes = true
			_, err = c.run(t, program)
			require.NoError(t, err)
			require.NotNil(t, c.left, "the run was not interrupted with crash_loop")
		}
		time.Sleep(48 * time.Hour) //nolint:forbidigo // until the abandoned handlers have returned
	})
}

func TestLossesCountAsAttemptsIfTheConfigurationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing()
		retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay, LossesCount: true}
		var attempts []int
		program := callingOnce(t, core.Spec{Kind: record.KindTool, Name: "call", Retry: &retry}, func(ctx context.Context) (string, error) {
			attempts = append(attempts, core.ScopeOf(ctx).Attempt())
			c.crash()
			return "", nil
		})
		var err error
		for range 4 {
			_, err = c.run(t, program)
		}
		e := testkit.Failed(t, err, record.ReasonInDoubt)
		assert.Equal(t, 3, e.Attempts)
		assert.Equal(t, []int{0, 1, 2}, attempts)
	})
}

func TestCallThatAsksWhenInDoubtIsAskedAboutBeforeItsLossesCount(t *testing.T) {
	for name, kind := range leaves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrashing(state.WithMaxLosses(1))
				program := nest(t, []string{"agent"}, callingOnce(t, core.Spec{Kind: kind, Name: "call", InDoubt: core.InDoubtAsk},
					func(context.Context) (string, error) { c.crash(); return "", nil }))
				_, err := c.run(t, program)
				require.NoError(t, err)
				for range 3 {
					status, err := c.run(t, program)
					require.ErrorIs(t, err, core.ErrAwaiting)
					assert.Equal(t, snapshot.StatusPaused, status)
				}
			})
		})
	}
}

func TestReplayOfALostCallCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrashing()
		program := nest(t, []string{"agent"}, func(context.Context) error { c.crash(); return nil })
		for range 5 {
			_, err := c.run(t, program)
			require.NoError(t, err)
		}
		for range 2 {
			st, err := state.Replay(t.Context(), c.tape, "run-1")
			require.NoError(t, err)
			require.NoError(t, program(st.Context(t.Context())), "a replay interrupts nothing")
			require.NoError(t, st.Close())
			found, err := state.Validate(t.Context(), c.tape, "run-1", program)
			require.NoError(t, err)
			assert.Empty(t, found)
		}
		c.left = nil
		st, err := state.Open(t.Context(), c.tape, "run-1")
		require.NoError(t, err)
		testkit.Interrupted(t, program(st.Context(t.Context())), record.InterruptCrashLoop)
		require.NoError(t, st.Close())
	})
}

func TestForkDoesNotInheritTheLossesOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, crashes, inner := newCrashing(), true, 0
		tool := callingOnce(t, core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context) (string, error) { inner++; return "", nil })
		program := nest(t, []string{"agent"}, func(ctx context.Context) error {
			if crashes {
				c.crash()
				return nil
			}
			return tool(ctx)
		})
		for range 4 {
			_, err := c.run(t, program)
			require.NoError(t, err)
		}
		crashes = false
		_, err := c.run(t, program)
		require.NoError(t, err)
		s := &shelf{tapes: map[string]*tape{"old": c.tape}}
		require.NoError(t, state.Fork(t.Context(), s, "old", testkit.Address(t, "agent/tool"), "new", state.ForkOptions{}))
		c.tape = s.tapes["new"]
		for range 5 {
			crashes = true
			_, err = c.run(t, program)
			require.NoError(t, err)
			require.NotNil(t, c.left, "the run was not interrupted with crash_loop")
		}
		crashes = false
		_, err = c.run(t, program)
		testkit.Interrupted(t, err, record.InterruptCrashLoop)
		assert.Equal(t, 1, inner)
	})
}
