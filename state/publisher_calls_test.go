package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// A publisher may make calls in the run whose records it receives, even when it receives a record
// that was appended while a call was being claimed.
func TestPublisherMakesACallAtAnyRecord(t *testing.T) {
	s := new(tape)
	tool := testkit.Tool(t, "tool", once, testkit.Succeed)
	_, err := openedFor(t, s, tool, undisturbed)
	require.NoError(t, err)

	var ctx context.Context
	var seen []string
	publisher := testkit.Publisher(func(r record.Record) {
		if r.Kind != record.KindLog && r.Kind != record.KindVersion {
			return
		}
		seen = append(seen, r.Kind.String())
		_, err := core.Step(ctx, "noticed", func(context.Context) (int, error) { return 1, nil })
		assert.NoError(t, err)
	})
	st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(publisher), state.WithDivergence(state.DivergenceTrust))
	require.NoError(t, err)
	ctx = st.Context(t.Context())
	_, err = tool.Event().Execute(ctx, "another input")
	require.NoError(t, err)
	assert.Equal(t, 1, core.Version(ctx, "rules", 1))
	_, err = testkit.Call(ctx, tool)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, []string{"log", "version"}, seen)
}
