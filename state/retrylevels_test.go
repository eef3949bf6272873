package state_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestRetryLevelsOfARunAreInItsSnapshot(t *testing.T) {
	s, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	p := func(ctx context.Context) (string, error) { return execute(ctx, toolOf("t", tryOnce, succeed)) }
	levels := func() snapshot.RetryLevels {
		t.Helper()
		loaded := testkit.LoadRun(t, s, runID)
		data, err := loaded.Encode()
		require.NoError(t, err)
		again, err := snapshot.Decode(data)
		require.NoError(t, err)
		assert.Equal(t, loaded.Retry, again.Retry)
		return loaded.Retry
	}
	run(t, s, p, state.WithRetry(core.RetryConfig{MaxAttempts: 7}), state.WithRetryFor(record.KindAgent, core.RetryConfig{MaxAttempts: 1}),
		state.WithRetryForActor("u", core.RetryConfig{MaxAttempts: 2}), state.WithRetryFor(record.KindLLM, core.RetryConfig{InitialDelay: time.Minute, Exclude: []core.Matcher{core.MatchAny()}}))
	got := levels()
	require.Len(t, got, 4)
	assert.Equal(t, 2, got["actor:u"].MaxAttempts)
	assert.Equal(t, 7, got[snapshot.RetryOfAll].MaxAttempts)
	assert.Equal(t, 1, got["agent_call"].MaxAttempts)
	assert.Equal(t, time.Minute, got["llm_call"].InitialDelay)
	assert.Equal(t, []string{"Exclude"}, got["llm_call"].Functions)

	at, err := record.ParseAddress("t")
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), s, runID, at, "fork", state.ForkOptions{}))
	fork := testkit.LoadRun(t, s, "fork")
	assert.Equal(t, got, fork.Retry)

	run(t, s, p)
	assert.Empty(t, levels(), "the levels are those of the latest opening")
}
