package state_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// TestEffectOfAParentIsNotMadeAgain forks runs that have paid, and runs another program
// in the fork.
func TestEffectOfAParentIsNotMadeAgain(t *testing.T) {
	type attempts = [][]string
	for name, c := range map[string]struct {
		parent   attempts
		at       string
		declares bool
		fork     attempts
		decision state.InDoubtAnswer
		paid     string
		out      string
		asked    string
		left     string
	}{
		"from the beginning":       {parent: attempts{{"1", "2"}}, at: "order", fork: attempts{{"1", "2"}}, paid: "1 2", out: "1#1 2#2"},
		"after the first":          {parent: attempts{{"1", "2"}}, at: "order/pay#2", fork: attempts{{"1", "2"}}, paid: "1 2", out: "1#1 2#2"},
		"equal ones":               {parent: attempts{{"1", "1"}}, at: "order/pay#2", fork: attempts{{"1", "1", "1"}}, paid: "1 1 1", out: "1#1 1#2 1#3"},
		"in another order":         {parent: attempts{{"1", "2"}}, at: "order", fork: attempts{{"2", "1"}}, paid: "1 2", out: "2#2 1#1"},
		"one more":                 {parent: attempts{{"1"}}, at: "order", fork: attempts{{"1", "2"}}, paid: "1 2", out: "1#1 2#2"},
		"one less":                 {parent: attempts{{"1", "2"}}, at: "order", fork: attempts{{"1"}}, paid: "1 2", out: "1#1", left: "order/pay#2 of run parent"},
		"another one":              {parent: attempts{{"1"}}, at: "order", fork: attempts{{"2"}}, decision: takeOver, paid: "1", out: "1#1", asked: "order/pay?effect:order/pay of run parent"},
		"another one, made":        {parent: attempts{{"1"}}, at: "order", fork: attempts{{"2"}}, decision: runAgain, paid: "1 2", out: "2#2", asked: "order/pay?effect:order/pay of run parent", left: "order/pay of run parent"},
		"elsewhere":                {parent: attempts{{"1"}}, at: "order", fork: attempts{{"a:1"}}, decision: takeOver, paid: "1", out: "1#1", asked: "order/a/pay?effect:order/pay of run parent"},
		"elsewhere, declared":      {parent: attempts{{"1"}}, at: "order", declares: true, fork: attempts{{"a:1"}}, paid: "1", out: "1#1"},
		"retried parent":           {parent: attempts{{"1"}, {"1"}}, at: "order", fork: attempts{{"1"}}, paid: "1", out: "1#1"},
		"retried, in its attempt":  {parent: attempts{{"1"}, {"1"}}, at: "order@2/pay", fork: attempts{{"1"}, {"1"}}, paid: "1", out: "1#1"},
		"retried, and one more":    {parent: attempts{{"1"}, {"1"}}, at: "order@2/pay", fork: attempts{{"1"}, {"1", "1"}}, paid: "1 1", out: "1#1 1#2"},
		"retried fork":             {parent: attempts{{"1"}}, at: "order", fork: attempts{{"1"}, {"1"}}, paid: "1", out: "1#1"},
		"retried fork, second pay": {parent: attempts{{"1"}}, at: "order", fork: attempts{{}, {"1"}}, paid: "1", out: "1#1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				b := buyer{bank: new(bank), declares: c.declares, attempts: c.parent}
				_, _, _, err := b.run(t, store, "parent", inOrder(t, nil))
				require.NoError(t, err)
				require.NoError(t, state.Fork(t.Context(), store, "parent", testkit.Address(t, c.at), "fork", state.ForkOptions{Effects: state.TakeOverEffects}))
				require.NoError(t, store.Delete(t.Context(), "parent"))
				b.attempts = c.fork
				out, report, asked, err := b.run(t, store, "fork", func(core.Question) state.InDoubtAnswer { return c.decision })
				require.NoError(t, err)
				assert.Equal(t, c.out, out)
				assert.Equal(t, c.paid, b.amounts())
				assert.Equal(t, c.asked, strings.Join(asked, " "))
				assert.Equal(t, c.left, leftOver(report))
				assert.Equal(t, c.left != "", warns(t, store, "fork"))
			})
		})
	}
}

// warns reports whether the run has a warning about an effect that is left over.
func warns(t *testing.T, store *memstore.Store, runID string) bool {
	t.Helper()
	for _, r := range testkit.LoadRun(t, store, runID).Records {
		if r.Kind == record.KindLog && strings.Contains(r.Message(), "is left over") {
			return true
		}
	}
	return false
}

func TestForkOfAForkTakesTheEffectsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		b := buyer{bank: new(bank), attempts: [][]string{{"1", "2"}}}
		open := func(runID string) string {
			out, report, _, err := b.run(t, store, runID, inOrder(t, nil))
			require.NoError(t, err)
			assert.Empty(t, report.LeftOver)
			return out
		}
		fork := func(from, at, to string) {
			o := state.ForkOptions{Effects: state.TakeOverEffects, NewKeys: to == "c"}
			require.NoError(t, state.Fork(t.Context(), store, from, testkit.Address(t, at), to, o))
			require.NoError(t, store.Delete(t.Context(), from))
		}
		open("a")
		fork("a", "order/pay#2", "b")
		fork("b", "order", "c") // b was never opened, so c inherits the effects that b could have taken over
		assert.Equal(t, "1#1 2#2", open("c"))
		fork("c", "order/pay", "d") // c has taken over the effect
		assert.Equal(t, "1#1 2#2", open("d"))
		assert.Equal(t, "1 2", b.amounts())
	})
}

func TestForkWithEffectsBehindItNeedsADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		b := buyer{bank: new(bank), attempts: [][]string{{"1", "2"}}}
		_, _, _, err := b.run(t, store, "parent", inOrder(t, nil))
		require.NoError(t, err)
		at := testkit.Address(t, "order/pay#2")
		err = state.Fork(t.Context(), store, "parent", at, "fork", state.ForkOptions{})
		require.ErrorIs(t, err, state.ErrEffects)
		require.ErrorContains(t, err, "order/pay#2 (irreversible); decide with ForkOptions.Effects: TakeOverEffects")
		_, err = store.Load(t.Context(), "fork")
		require.Error(t, err, "no fork is created")
		effects, err := state.EffectsAfter(t.Context(), store, "parent", at, state.ForkOptions{})
		require.NoError(t, err)
		require.Len(t, effects, 1)
		assert.Equal(t, at, effects[0].Address)
		require.NoError(t, state.Fork(t.Context(), store, "parent", at, "fork", state.ForkOptions{Effects: state.RepeatEffects}))
		_, _, _, err = b.run(t, store, "fork", inOrder(t, nil))
		require.NoError(t, err)
		assert.Equal(t, "1 2", b.amounts(), "irreversible payments are not repeated")
	})
}
