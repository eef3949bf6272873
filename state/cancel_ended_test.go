package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The outcome of a run is final, also while a process has it open again to read its result, and
// after such a process was killed. A cancel must not undo its calls.
func TestCancelOfACompletedRunThatIsOpenAgainChangesNothing(t *testing.T) {
	for name, killed := range map[string]bool{"while it is open": false, "after that process was killed": true} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			undone := 0
			pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "paid", nil }).
				Compensate(func(context.Context, struct{}, string) error { undone++; return nil })
			call := func(during func()) {
				st, err := state.Open(t.Context(), store, "r", state.WithCompensations(pay))
				require.NoError(t, err)
				during()
				out, err := pay.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, err)
				assert.Equal(t, "paid", out)
				require.NoError(t, st.Close())
				assert.Equal(t, snapshot.StatusCompleted, st.Status())
			}
			call(func() {})
			if killed {
				journal, err := store.Open(t.Context(), "r", snapshot.OpenOptions{})
				require.NoError(t, err)
				require.NoError(t, journal.Close(t.Context(), snapshot.End{Status: snapshot.StatusRunning}))
				require.ErrorIs(t, state.Cancel(t.Context(), store, "r", snapshot.Stop{}), state.ErrEnded)
			} else {
				call(func() { require.NoError(t, state.Cancel(t.Context(), store, "r", snapshot.Stop{})) })
			}
			call(func() {})
			info, err := store.Info(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			assert.Zero(t, undone)
		})
	}
}
