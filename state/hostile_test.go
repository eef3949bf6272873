package state_test

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/internal/testkit"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// Records from a file that was not written by a run may lack a detail that the records of runs
// always have.
func TestRecordsWithoutTheirDetailDoNotPanic(t *testing.T) {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (bool, error) {
		return core.Await[bool](ctx, "?")
	})
	require.NoError(t, err)
	at, err := record.ParseAddress("agent")
	require.NoError(t, err)
	for kind := record.Kind(0); kind < 20; kind++ {
		for status := record.Status(0); status < 10; status++ {
			s := &tape{records: []record.Record{{Seq: 1, Kind: kind, Status: status, Address: at, Name: "agent?1"}}}
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			_ = testkit.Questions(t, st)
			_, _ = d.Event().Execute(st.Context(t.Context()), 1)
			require.NoError(t, st.Close())
			_ = state.Answer(t.Context(), s, "run-1", "agent?1", "", true)
		}
	}
}
