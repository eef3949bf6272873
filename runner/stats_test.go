package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/retrybudget"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// TestStatsCountAttemptsRetriesAndExhaustion checks Stats, also as published by expvar. A call that
// has exhausted its retry budget is counted like one that has exhausted its attempts.
func TestStatsCountAttemptsRetriesAndExhaustion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := func(name string, err error, options ...actors.Option) actors.Tool[word, string] {
			return decorators.Tool(name, "", func(context.Context, word) (string, error) { return "", err }, options...)
		}
		three := actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay})
		busy := core.Retryable(errors.New("busy"))
		budget := retrybudget.New(retrybudget.Options{Retries: 1})
		tools := []actors.Tool[word, string]{
			tool("down", busy, three), // 3 attempts, 2 retries
			tool("broke", busy, three, actors.WithInterceptors(budget.Interceptor())), // 2 attempts, 1 retry
			tool("wrong", core.Permanent(errors.New("no such customer"))),             // 1 attempt
		}
		r := newRunner(t, memstore.New(), runner.Options{})
		runner.Register(r, agent("all", func(ctx context.Context, in word) (string, error) {
			for _, tool := range tools {
				_, _ = tool.Call(ctx, in)
			}
			return "done", nil
		}))
		defer serve(t, r)()
		_, err := r.Start(t.Context(), "all", "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()

		var published runner.Stats
		require.NoError(t, json.Unmarshal([]byte(expvar.Func(func() any { return r.Stats() }).String()), &published))
		for _, s := range []runner.Stats{r.Stats(), published} {
			assert.EqualValues(t, 1+3+2+1, s.Attempts, "attempts, including that of the agent")
			assert.EqualValues(t, 3, s.Retries)
			assert.EqualValues(t, 2, s.Exhausted)
		}
	})
}
