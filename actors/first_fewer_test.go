package actors_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// The winner is recorded, but the program no longer has that branch. Regardless of the policy, the
// run does not fail because of this: it continues with the previous program.
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

// The branch that ended first is recorded, but the program no longer has it. The run does not
// complete, because the outputs of the other branches are missing.
func TestMapSeqWithoutTheBranchThatEndedNextStopsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := decorators.Tool("wait", "", func(_ context.Context, in number) (int, error) {
			<-time.After(time.Duration(in.N) * time.Second)
			return in.N, nil
		})
		open := func(store snapshot.Store, seconds ...int) (outputs []int, err error) {
			var inputs []number
			for _, n := range seconds {
				inputs = append(inputs, number{n})
			}
			st, err := state.Open(t.Context(), store, "run", state.WithDivergence(state.DivergenceTrust))
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			agent := decorators.Agent("a", "", func(ctx context.Context, _ struct{}) (int, error) {
				outputs = nil
				for out, err := range actors.MapSeq(ctx, actors.Group{Name: "g"}, wait, inputs) {
					if err != nil {
						return 0, err
					}
					outputs = append(outputs, out.Output)
					if _, err := core.Await[int](ctx, "go on?"); err != nil {
						return 0, err
					}
				}
				return len(outputs), nil
			})
			_, err = agent.Call(st.Context(t.Context()), struct{}{})
			return outputs, err
		}
		store := memstore.New()
		_, err := open(store, 2, 3, 1)
		require.ErrorIs(t, err, core.ErrAwaiting)
		outputs, err := open(store, 2, 3)
		var differs *core.DivergenceError
		require.ErrorAs(t, err, &differs)
		require.ErrorContains(t, err, "branch 2 ended next, but there are 2 branches")
		assert.Empty(t, outputs)
		outputs, err = open(store, 2, 3, 1) // the previous program
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.Equal(t, []int{1}, outputs)
	})
}
