package actors_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The winner is recorded, and the program no longer has that branch. Whatever the policy, the run does not fail
// for that: it continues with the previous program.
func TestFirstWithoutTheBranchThatWonStopsTheRun(t *testing.T) {
	for name, policy := range map[string]state.DivergencePolicy{"fail": state.DivergenceFail, "trust": state.DivergenceTrust, "rerun": state.DivergenceRerun} {
		t.Run(name, func(t *testing.T) {
			open := func(store snapshot.Store, n int) (string, error) {
				st, err := state.Open(t.Context(), store, "run", state.WithDivergence(policy))
				require.NoError(t, err)
				defer func() { require.NoError(t, st.Close()) }()
				lose := func(context.Context) (string, error) { return "", errors.New("no") }
				win := func(context.Context) (string, error) { return "yes", nil }
				branches := []func(context.Context) (string, error){lose, lose, win}[:n]
				agent := decorators.Agent("a", "", func(ctx context.Context, _ struct{}) (string, error) {
					return actors.First(ctx, actors.Group{Name: "g"}, branches...)
				})
				return agent.Call(st.Context(t.Context()), struct{}{})
			}
			store := memstore.New()
			_, err := open(store, 3)
			require.NoError(t, err)
			misfits := 0
			for records, left := range actorstest.AfterEachRecord(t, store, "run") {
				_, err := open(left, 2)
				require.NotErrorIs(t, err, core.ErrPanic, "after %d records", len(records))
				var differs *core.DivergenceError
				if errors.As(err, &differs) && differs.How == "output" {
					misfits++
					assert.ErrorContains(t, err, "branch 2 was first, but there are 2 branches")
					out, err := open(left, 3)
					require.NoError(t, err, "after %d records", len(records))
					assert.Equal(t, "yes", out)
				}
			}
			assert.Equal(t, policy == state.DivergenceTrust, misfits > 0)
		})
	}
}
