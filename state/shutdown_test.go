package state_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

// shutdown runs the program until it waits, and then shuts the run down. patience is how long
// running attempts may take to finish.
func shutdown(t *testing.T, s snapshot.Store, patience time.Duration, program func(ctx context.Context) error) (st *state.ExecutionState, took time.Duration) {
	t.Helper()
	st = openRun(t, s)
	var wait sync.WaitGroup
	wait.Go(func() { assert.ErrorIs(t, program(st.Context(t.Context())), core.ErrInterrupted) })
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	require.NoError(t, st.Shutdown(ctx))
	took = time.Since(began)
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptShutdown}, info.Stop)
	wait.Wait()
	return st, took
}

func TestShutdownLetsRunningAttemptsFinishAndBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ran := make(map[string]int)
		step := func(ctx context.Context, name string) (string, error) {
			return core.Step(ctx, name, func(context.Context) (string, error) {
				ran[name]++
				_ = testkit.Pause(t.Context(), time.Minute)
				return name, nil
			})
		}
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) {
			one, err := step(ctx, "one")
			if err != nil {
				return "", err
			}
			two, err := step(ctx, "two")
			return one + " " + two, err
		})
		st, took := shutdown(t, s, time.Hour, func(ctx context.Context) error {
			_, err := agent.Call(ctx, struct{}{})
			return err
		})
		assert.Equal(t, time.Minute, took, "Shutdown waits for running attempts, and no longer")
		wantRecords(t, st, "run started", "agent_call agent started", "step agent/step:one started",
			"step agent/step:one completed", "step agent/step:two interrupted", "agent_call agent interrupted", "run interrupted")

		st = openRun(t, s)
		out, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		assert.Equal(t, "one two", out)
		require.NoError(t, st.Close())
		assert.Equal(t, map[string]int{"one": 1, "two": 1}, ran)
	})
}

func TestShutdownEndsAWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range [][]state.Option{nil, {state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) { return nil, nil })}} {
			st := state.New(options...)
			tool := testkit.Tool(t, "flaky", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}, func(context.Context, string) (string, error) { return "", errFlaky })
			var wait sync.WaitGroup
			wait.Go(func() {
				_, err := testkit.Call(st.Context(t.Context()), tool)
				assert.EqualError(t, err, "interrupted (shutdown)")
			})
			synctest.Wait()
			began := time.Now()
			require.NoError(t, st.Shutdown(t.Context()))
			assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
			wait.Wait()
			wantRecords(t, st, "run started", "tool_call flaky started", "tool_call flaky failed", "tool_call flaky retrying", "tool_call flaky interrupted", "run interrupted")
		}
	})
}

// A shutdown does not use up a call's only attempt, whether or not the call's handler heeds its
// context.
func TestShutdownCostsNoAttempt(t *testing.T) {
	for name, handler := range map[string]func(ctx context.Context) error{
		"that listens": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"that is deaf": func(ctx context.Context) error {
			_ = testkit.Pause(context.WithoutCancel(ctx), time.Hour)
			return errors.New("the caller has gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				slow := true
				tool := testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
					if slow {
						return "", handler(ctx)
					}
					return "done", nil
				})
				var calls sync.WaitGroup
				for range 3 { // deploys
					st := openRun(t, s)
					calls.Go(func() { _, _ = testkit.Call(st.Context(t.Context()), tool) })
					synctest.Wait()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					began := time.Now()
					require.NoError(t, st.Shutdown(ctx))
					cancel()
					assert.LessOrEqual(t, time.Since(began), time.Minute+200*time.Millisecond)
					info, err := s.Info(t.Context(), askedRun)
					require.NoError(t, err)
					assert.Equal(t, "shutdown", info.Stop.String())
				}
				calls.Wait()
				slow = false
				st := openRun(t, s)
				out, err := testkit.Call(st.Context(t.Context()), tool)
				require.NoError(t, err)
				assert.Equal(t, "done", out)
				require.NoError(t, st.Close())
				for _, r := range testkit.LoadRun(t, s, askedRun).Records {
					assert.Zero(t, r.Attempt)
				}
			})
		})
	}
}

func TestShutdownOfACallThatMustNotRunTwiceLeavesItInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		pay := func(ctx context.Context) error {
			_, err := core.Step(ctx, "pay", func(context.Context) (string, error) {
				_ = testkit.Pause(t.Context(), time.Hour)
				return "", nil
			}, core.StepInDoubt(core.InDoubtAsk))
			return err
		}
		var wait sync.WaitGroup
		st := openRun(t, s)
		wait.Go(func() { _ = pay(st.Context(t.Context())) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, st.Shutdown(ctx))
		st = openRun(t, s)
		require.ErrorIs(t, pay(st.Context(t.Context())), core.ErrAwaiting)
		require.NoError(t, st.Close())
		wait.Wait()
	})
}

func TestShutdownOfARunWhoseCallsHaveEndedLeavesItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := core.Step(st.Context(t.Context()), "slow", func(context.Context) (int, error) {
				_ = testkit.Pause(t.Context(), time.Minute)
				return 1, nil
			})
			assert.NoError(t, err)
		})
		synctest.Wait()
		for range 3 { // concurrently with each other and with Close
			wait.Go(func() { assert.NoError(t, st.Shutdown(t.Context())) })
		}
		wait.Wait()
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusCompleted, st.Status())
		require.ErrorIs(t, func() error {
			_, err := core.Step(st.Context(t.Context()), "late", func(context.Context) (int, error) { return 1, nil })
			return err
		}(), core.ErrInterrupted)
	})
}
