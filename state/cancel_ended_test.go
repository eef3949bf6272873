package state_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The outcome of a run is final, even while a process has the run open again to read its result,
// and even after such a process was killed. A cancel must not undo the run's calls.
func TestCancelOfACompletedRunThatIsOpenAgainChangesNothing(t *testing.T) {
	const open, afterKill, afterKillWithLog = "while it is open", "after that process was killed", "after that process had logged and was killed"
	nothing := func(*state.ExecutionState) {}
	for _, when := range []string{open, afterKill, afterKillWithLog} {
		t.Run(when, func(t *testing.T) {
			var store snapshot.Store = memstore.New()
			undone := 0
			pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "paid", nil }).
				Compensate(func(context.Context, struct{}, string) error { undone++; return nil })
			call := func(before, after func(*state.ExecutionState)) {
				st, err := state.Open(t.Context(), store, runID, state.WithCompensations(pay))
				require.NoError(t, err)
				before(st)
				out, err := pay.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, err)
				assert.Equal(t, "paid", out)
				after(st)
				require.NoError(t, st.Close())
				assert.Equal(t, snapshot.StatusCompleted, st.Status())
			}
			call(nothing, nothing)
			switch when {
			case open:
				call(func(*state.ExecutionState) {
					require.NoError(t, state.Cancel(t.Context(), store, runID, snapshot.Stop{}))
				}, nothing)
			case afterKill:
				store = killed(t, store, everyRecord)
				require.ErrorIs(t, state.Cancel(t.Context(), store, runID, snapshot.Stop{}), state.ErrEnded)
			case afterKillWithLog:
				var left snapshot.Store
				call(func(st *state.ExecutionState) {
					st.Log(slog.LevelInfo, "reading the result", nil)
				}, func(*state.ExecutionState) { left = killed(t, store, everyRecord) })
				store = left
				records := testkit.LoadRun(t, store, runID).Records
				assert.Equal(t, "reading the result", records[len(records)-1].Message())
				require.ErrorIs(t, state.Cancel(t.Context(), store, runID, snapshot.Stop{}), state.ErrEnded)
			}
			call(nothing, nothing)
			info, err := store.Info(t.Context(), runID)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			assert.Zero(t, undone)
		})
	}
}
