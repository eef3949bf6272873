package state_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

var errBusy = core.Retryable(errors.New("busy"))

type job struct {
	Hours int `json:"hours"`
}

// hourly returns a configuration that retries after exactly delay.
func hourly(delay time.Duration) core.RetryConfig {
	return core.RetryConfig{MaxAttempts: 5, Backoff: core.Constant, InitialDelay: delay, MaxDelay: 24 * time.Hour, Jitter: core.NoJitter}
}

// openParking opens the run, makes the call, and returns the call's result and the stored Info of
// the run.
func openParking[Out any](t *testing.T, store snapshot.Store, agent actors.Agent[struct{}, Out]) (Out, snapshot.Info, error) {
	t.Helper()
	st, err := state.Open(t.Context(), store, "r", state.WithParking(time.Minute))
	require.NoError(t, err)
	out, err := agent.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, st.Close())
	info, infoErr := store.Info(t.Context(), "r")
	require.NoError(t, infoErr)
	return out, info, err
}

func TestLongBackoffParksTheRunUntilTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		attempts := 0
		flaky := decorators.Tool("flaky", "", func(context.Context, struct{}) (int, error) {
			if attempts++; attempts < 3 {
				return 0, errBusy
			}
			return attempts, nil
		}, actors.WithRetry(hourly(time.Hour)))
		agent := decorators.Agent("a", "", flaky.Call)
		begin := time.Now()

		_, info, err := openParking(t, store, agent)
		var stopped *core.InterruptedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, record.InterruptAwait, stopped.Reason)
		assert.Zero(t, time.Since(begin), "nothing waits in the process")
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		assert.True(t, begin.Add(time.Hour).Equal(info.Due), info.Due)
		questions, err := state.Questions(t.Context(), store, "r")
		require.NoError(t, err)
		assert.Empty(t, questions)

		<-time.After(20 * time.Minute) // too early: the call is parked for the remaining time
		_, info, _ = openParking(t, store, agent)
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		assert.True(t, begin.Add(time.Hour).Equal(info.Due), info.Due)
		assert.Equal(t, 1, attempts)

		<-time.After(39*time.Minute + 30*time.Second) // the rest is short enough to wait for; the next delay is not
		_, info, _ = openParking(t, store, agent)
		assert.Equal(t, time.Hour, time.Since(begin))
		assert.True(t, begin.Add(2*time.Hour).Equal(info.Due), info.Due)
		assert.Equal(t, 2, attempts)

		require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
		assert.Equal(t, 2*time.Hour, time.Since(begin))
		out, info, err := openParking(t, store, agent)
		require.NoError(t, err)
		assert.Equal(t, 3, out)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.True(t, info.Due.IsZero())

		found, err := store.Load(t.Context(), "r")
		require.NoError(t, err)
		for rec, err := range found.Records() {
			require.NoError(t, err)
			if rec.Kind == record.KindTool && rec.Status == record.StatusCompleted {
				assert.Equal(t, 3, rec.TotalAttempts())
				assert.Equal(t, 2*time.Hour, rec.Elapsed, "waits count, whether or not the run was parked")
			}
		}
	})
}

func TestParkedTimeCountsAgainstRetryTimeout(t *testing.T) {
	for name, early := range map[string]time.Duration{"opened when due": time.Hour, "opened too early": 25 * time.Minute, "opened late": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				attempts := 0
				cfg := hourly(time.Hour)
				cfg.RetryTimeout = 150 * time.Minute
				flaky := decorators.Tool("flaky", "", func(context.Context, struct{}) (int, error) {
					attempts++
					return 0, errBusy
				}, actors.WithRetry(cfg))
				agent := decorators.Agent("a", "", flaky.Call)
				_, info, _ := openParking(t, store, agent)
				<-time.After(early)
				var err error
				for range 5 {
					if _, info, err = openParking(t, store, agent); info.Status != snapshot.StatusPaused {
						break
					}
					require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
				}
				require.ErrorIs(t, err, core.ErrRetryTimeout)
				assert.Equal(t, 3, attempts, "two delays of an hour fit")
			})
		})
	}
}

func TestBackoffWithinATimeoutWaitsInTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		flaky := decorators.Tool("flaky", "", func(context.Context, struct{}) (int, error) { return 0, errBusy },
			actors.WithRetry(hourly(time.Hour)))
		agent := decorators.Agent("a", "", flaky.Call, actors.WithAttemptTimeout(90*time.Minute))
		begin := time.Now()
		_, info, err := openParking(t, store, agent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, snapshot.StatusFailed, info.Status)
		assert.Equal(t, time.Hour, time.Since(begin), "a run that parks would make 5 attempts")
	})
}

func TestBranchesOfAGroupContinueWhileOthersAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var made []string
		begin := time.Now()
		work := decorators.Tool("work", "", func(ctx context.Context, in job) (string, error) {
			hours := in.Hours
			made = append(made, fmt.Sprint(hours, " at ", time.Since(begin)))
			if hours > 0 && core.ScopeOf(ctx).Attempt() == 0 {
				return "", core.WithRetryAfter(errBusy, time.Duration(hours)*time.Hour)
			}
			return fmt.Sprint(hours), nil
		}, actors.WithRetry(core.RetryConfig{MaxRetryAfter: 24 * time.Hour, InitialDelay: core.NoDelay}))
		agent := decorators.Agent("a", "", func(ctx context.Context, _ struct{}) ([]string, error) {
			return actors.Map(ctx, actors.Group{Name: "g", Workers: 1}, work, []job{{3}, {0}, {2}})
		})
		_, info, err := openParking(t, store, agent)
		require.Error(t, err)
		assert.Equal(t, []string{"3 at 0s", "0 at 0s", "2 at 0s"}, made)
		assert.True(t, begin.Add(2*time.Hour).Equal(info.Due), info.Due)

		require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
		_, info, err = openParking(t, store, agent)
		require.Error(t, err)
		assert.True(t, begin.Add(3*time.Hour).Equal(info.Due), info.Due)

		require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"))
		out, _, err := openParking(t, store, agent)
		require.NoError(t, err)
		assert.Equal(t, []string{"3", "0", "2"}, out)
		assert.Equal(t, []string{"2 at 2h0m0s", "3 at 3h0m0s"}, made[3:])
	})
}

func TestParkedBackoffIsReplayedWithoutAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		attempts := 0
		flaky := decorators.Tool("flaky", "", func(context.Context, struct{}) (int, error) {
			if attempts++; attempts < 2 {
				return 0, errBusy
			}
			return attempts, nil
		}, actors.WithRetry(hourly(time.Hour)))
		agent := decorators.Agent("a", "", flaky.Call)
		openParking(t, store, agent)
		<-time.After(2 * time.Hour)
		_, _, err := openParking(t, store, agent)
		require.NoError(t, err)
		begin := time.Now()
		st, err := state.Replay(t.Context(), store, "r")
		require.NoError(t, err)
		out, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Equal(t, 2, out)
		assert.Equal(t, 2, attempts)
		assert.Zero(t, time.Since(begin))
	})
}

func TestRunParkedForTheLongestTimeIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		const longest = time.Duration(math.MaxInt64)
		busy := decorators.Tool("busy", "", func(context.Context, struct{}) (int, error) {
			<-time.After(time.Second)
			return 0, core.WithRetryAfter(errBusy, longest)
		}, actors.WithRetry(core.RetryConfig{MaxRetryAfter: longest}))
		agent := decorators.Agent("a", "", busy.Call)
		_, info, _ := openParking(t, store, agent)
		_, again, err := openParking(t, store, agent)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, snapshot.StatusPaused, again.Status)
		assert.True(t, info.Due.Equal(again.Due), again.Due)
	})
}
