package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// TestForkOfAnyCallHasTheSameResult cuts the records of a random program with groups, retried
// agents, steps and questions, and forks the run at calls in these records. Each fork has the same
// result as the whole run. The call at which the run was forked runs again; calls that ended before
// it began do not.
func TestForkOfAnyCallHasTheSameResult(t *testing.T) {
	model := func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 47))
		program := askingTree(rng)
		whole := new(tape)
		want, err := finish(t, whole, newEffects(), program)
		require.NoError(t, err)
		modelCuts(rng, whole.records, func(prefix []record.Record) {
			made := slices.DeleteFunc(slices.Clone(prefix), func(r record.Record) bool { return !r.Kind.IsCall() })
			if len(made) == 0 {
				return // nothing to fork at
			}
			fork := made[rng.IntN(len(made))]
			at := fork.Address
			came := slices.IndexFunc(prefix, func(r record.Record) bool { return r.Kind.IsCall() && r.Address == at })
			store := &shelf{tapes: map[string]*tape{"old": {records: slices.Clip(prefix)}}}
			what := fmt.Sprintf("seed %d, cut after record %d, forked at %s", seed, len(prefix), at)
			err := state.Fork(t.Context(), store, "old", at, "new", state.ForkOptions{Effects: state.RepeatEffects})
			if errors.Is(err, state.ErrCompensated) {
				return // the fork would keep calls that were already compensated
			}
			require.NoError(t, err, what)

			again := newEffects()
			got, err := finishWith(t, store.tapes["new"], again, program, 1+rng.IntN(20))
			require.NoError(t, err, what)
			require.Equal(t, want, got, what)
			for address := range completedLeaves(prefix[:came]) {
				require.Zero(t, again.ran[address], "%s: %s had ended before", what, address)
			}
			if fork.Kind == record.KindTool || fork.Kind == record.KindStep {
				require.NotZero(t, again.ran[at.String()], "%s: the call does not run again", what)
			}
		})
	}
	for seed := *modelFirst; seed < *modelFirst+testkit.Seeds(*modelSeeds); seed += 4 { // each seed takes long
		synctest.Test(t, func(t *testing.T) { model(t, seed) })
	}
}
