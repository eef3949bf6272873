package state_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// spender returns an agent that asks a model the given number of times and then calls finish. Each
// answer uses ten input tokens and one output token.
func spender(t *testing.T, asks int, finish testkit.Handler) *testkit.Definition {
	model := testkit.Define(t, core.Spec{Kind: record.KindLLM, Name: "model"}, func(ctx context.Context, _ string) (string, error) {
		core.AddUsage(ctx, record.Usage{InputTokens: 10, OutputTokens: 1, Cost: 0.5})
		return "out", nil
	})
	return testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, in string) (string, error) {
		for range asks {
			if _, err := testkit.Call(ctx, model); err != nil {
				return "", err
			}
		}
		return finish(ctx, in)
	})
}

func spent(asks int) record.Usage {
	return record.Usage{InputTokens: 10 * asks, OutputTokens: asks, Cost: 0.5 * float64(asks)}
}

func usageOf(t *testing.T, store snapshot.Store, runID string) record.Usage {
	t.Helper()
	info, err := store.Info(t.Context(), runID)
	require.NoError(t, err)
	return info.Usage
}

func TestUsageOfARunIsInItsReportAndItsInfo(t *testing.T) {
	store := memstore.New()
	wait := func(ctx context.Context, _ string) (string, error) {
		return core.Await[string](ctx, "go on?")
	}
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	assert.Zero(t, st.Report().Usage, "usage at the beginning")
	_, err = testkit.Call(st.Context(t.Context()), spender(t, 3, wait))
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.Equal(t, spent(3), st.Report().Usage)
	require.NoError(t, st.Close())
	assert.Equal(t, spent(3), usageOf(t, store, "run"))

	// Recalled calls are counted once, and new calls are added.
	require.NoError(t, state.Answer(t.Context(), store, "run", "agent?1", "", "yes"))
	st, err = state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	assert.Equal(t, spent(3), st.Report().Usage, "usage after the run was opened again")
	_, err = testkit.Call(st.Context(t.Context()), spender(t, 3, func(ctx context.Context, in string) (string, error) {
		if _, err := wait(ctx, in); err != nil {
			return "", err
		}
		return testkit.Call(ctx, spender(t, 2, testkit.Succeed))
	}))
	require.NoError(t, err)
	assert.Equal(t, spent(5), st.Report().Usage)
	require.NoError(t, st.Close())
	assert.Equal(t, spent(5), usageOf(t, store, "run"))

	// A replay uses nothing; a fork has the usage of the calls it kept.
	replay, err := state.Replay(t.Context(), store, "run")
	require.NoError(t, err)
	assert.Equal(t, spent(5), replay.Report().Usage)
	require.NoError(t, replay.Close())
	at, err := record.ParseAddress("agent/model#3")
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), store, "run", at, "fork", state.ForkOptions{}))
	assert.Equal(t, spent(2), usageOf(t, store, "fork"))
}

func TestUsageOfACrashedRunIsKnownWhenItIsClosed(t *testing.T) {
	pause := func(ctx context.Context, _ string) (string, error) { return core.Await[string](ctx, "go on?") }
	// crashed returns a store that contains only the records of a run.
	crashed := func(t *testing.T) snapshot.Store {
		from, to := memstore.New(), memstore.New()
		st, err := state.Open(t.Context(), from, "run")
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), spender(t, 3, pause))
		require.ErrorIs(t, err, core.ErrAwaiting)
		records := testkit.Records(t, st)
		require.NoError(t, st.Close())
		j, err := to.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(records...))
		require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusInterrupted}))
		assert.Zero(t, usageOf(t, to, "run"))
		return to
	}
	t.Run("resumed", func(t *testing.T) {
		store := crashed(t)
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		assert.Equal(t, spent(3), st.Report().Usage)
		require.NoError(t, st.Close())
		assert.Equal(t, spent(3), usageOf(t, store, "run"))
	})
	t.Run("cancelled", func(t *testing.T) {
		store := crashed(t)
		require.NoError(t, state.Cancel(t.Context(), store, "run", snapshot.Stop{By: "ops", Message: "enough"}))
		assert.Equal(t, spent(3), usageOf(t, store, "run"))
	})
}

func TestCostThatIsNotANumberIsNotAdded(t *testing.T) {
	st, ctx := testkit.Run(t)
	d := testkit.Define(t, core.Spec{Kind: record.KindLLM, Name: "model"}, func(ctx context.Context, cost float64) (string, error) {
		core.AddUsage(ctx, record.Usage{InputTokens: 1, Cost: cost})
		return "out", nil
	})
	for _, cost := range []float64{math.NaN(), 2, math.Inf(1)} {
		_, err := d.Event().Execute(ctx, cost)
		require.NoError(t, err)
	}
	assert.Equal(t, record.Usage{InputTokens: 3, Cost: 2}, st.Report().Usage)
}
