package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// Groups and branches do not count; the calls inside them do.
func TestReportCountsCallsAndNotTheGroupsThatHoldThem(t *testing.T) {
	s := memstore.New()
	tool := testkit.Tool(t, "tool", once, testkit.Succeed)
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, err := group(ctx, "both", calling(tool), calling(tool))
		return "", err
	})
	program := func(ctx context.Context) error {
		if _, err := group(ctx, "own", calling(tool)); err != nil {
			return err
		}
		_, err := testkit.Call(ctx, agent)
		return err
	}
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.NoError(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())
	assert.Equal(t, state.Report{Attempts: 4, Executed: 4}, st.Report())

	st, err = state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.NoError(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())
	assert.Equal(t, 1, st.Report().Restored, "only the agent counts: the calls inside it were not recalled")
	assert.Zero(t, st.Report().Attempts)
}
