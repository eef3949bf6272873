package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// docs/service.md: the agent's RetryTimeout limits the time of a run. Time during which the service
// is stopped or the run waits for an answer is not counted.
func TestRetryTimeoutOfTheAgentLimitsTheTimeOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		limited := agent("limited", func(ctx context.Context, in word) (string, error) {
			if err := takes(ctx, 20*time.Minute); err != nil {
				return "", err
			}
			if _, err := core.Await[string](ctx, "go on?"); err != nil {
				return "", err
			}
			return in.Text, takes(ctx, 40*time.Minute)
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1, RetryTimeout: time.Hour}))

		r := newRunner(t, store, runner.Options{})
		stop := serve(t, r)
		_, err := runner.Register(r, limited).Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		sleep(10 * time.Minute) // counted
		require.NoError(t, stop())
		sleep(5 * time.Hour)

		r = newRunner(t, store, runner.Options{})
		program := runner.Register(r, limited)
		defer serve(t, r)()
		sleep(24 * time.Hour) // 20 minutes are counted, and then the run waits for the answer
		info, err := store.Info(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusPaused, info.Status)
		require.NoError(t, r.Answer(t.Context(), "a", "limited?1", "", "yes"))
		answered := time.Now()
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 30*time.Minute, time.Since(answered).Round(time.Minute))
		_, err = program.Result(t.Context(), "a")
		require.ErrorIs(t, err, core.ErrRetryTimeout)
	})
}

// takes makes a step that takes the duration d.
func takes(ctx context.Context, d time.Duration) error {
	_, err := core.Step(ctx, "takes", func(ctx context.Context) (bool, error) {
		select {
		case <-time.After(d):
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	})
	return err
}
