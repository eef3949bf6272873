package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// TestForkListsEffectsAndNeedsADecision forks a run before a payment and a booking. The ledger
// shows which of them the fork has repeated.
func TestForkListsEffectsAndNeedsADecision(t *testing.T) {
	dir := t.TempDir()
	var ledger []string
	type order struct {
		What string `json:"what"`
	}
	pay := decorators.Tool("pay", "", func(_ context.Context, o order) (string, error) {
		ledger = append(ledger, "pay "+o.What)
		return "receipt for " + o.What, nil
	}, actors.WithIrreversible())
	book := decorators.Tool("book", "", func(_ context.Context, o order) (string, error) {
		ledger = append(ledger, "book "+o.What)
		return "booked", nil
	}).Compensate(func(context.Context, order, string) error { return nil })
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := book.Call(ctx, order{"hotel"}); err != nil {
			return "", err
		}
		return pay.Call(ctx, order{"hotel"})
	})
	travel := func(id string) string {
		store, err := filestore.New(dir)
		require.NoError(t, err)
		st, err := state.Open(t.Context(), store, id, state.WithCompensations(book))
		require.NoError(t, err)
		out, err := trip.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		return out
	}
	travel("old")
	call(t, dir, "fork", "old", "trip/pay", "new").failed(t, exitFailure,
		"run old has calls with effects after trip/pay: trip/pay (irreversible); decide with --take-over, so that the new run takes over their effects")
	call(t, dir, "fork", "old", "trip", "new", "--take-over").failed(t, exitFailure,
		"run old has calls with effects after trip: trip/book (has a compensation), trip/pay (irreversible); "+
			"decide with --repeat-effects, so that the new run repeats the calls that are not irreversible")

	assert.Equal(t, "trip/pay (irreversible) will not be repeated: its effect is taken over, or the run asks\n"+
		"run taken begins before trip/pay of run old, with 4 records; open it to continue\n", call(t, dir, "fork", "old", "trip/pay", "taken", "--take-over").text(t))
	assert.Equal(t, "receipt for hotel", travel("taken"))
	assert.Contains(t, call(t, dir, "fork", "old", "trip", "repeated", "--repeat-effects").text(t), "trip/book (has a compensation) will be repeated\n")
	assert.Equal(t, "receipt for hotel", travel("repeated"))
	assert.Equal(t, []string{"book hotel", "pay hotel", "book hotel"}, ledger)

	assert.Contains(t, call(t, dir, "fork", "old", "trip/pay", "listed", "--take-over", "--json").text(t), `"irreversible": true`)
}

func TestForkSetsAnOutput(t *testing.T) {
	dir := t.TempDir()
	out := ""
	travel := func(id string) {
		store, err := filestore.New(dir)
		require.NoError(t, err)
		st, err := state.Open(t.Context(), store, id)
		require.NoError(t, err)
		look := decorators.Tool("look", "", func(context.Context, struct{}) (map[string]int, error) { return map[string]int{"temp": 7}, nil })
		_, err = decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) {
			seen, err := look.Call(ctx, struct{}{})
			if out = "warm"; seen["temp"] < 10 {
				out = "cold"
			}
			return out, err
		}).Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	travel("old")
	require.Equal(t, "cold", out)
	call(t, dir, "fork", "old", "agent/look", "new", "--set", `agent/look={"temp": 31}`).text(t)
	travel("new")
	assert.Equal(t, "warm", out)

	call(t, dir, "fork", "old", "agent/look", "x", "--set", `agent/look={"temp": "hot"}`).failed(t, exitFailure,
		"fork run old: set agent/look: the answer does not fit: temp: got a string, but the record has an integer")
	for _, wrong := range []string{"agent/look", "=1", "agent/look={"} {
		assert.Equal(t, exitUsage, call(t, dir, "fork", "old", "agent/look", "x", "--set", wrong).code, wrong)
	}
	assert.Equal(t, exitUsage, call(t, dir, "fork", "old", "agent/look", "x", "--set", "agent/look=1", "--set", "agent/look=2").code)
}

// TestForkListsToolsThatWillBeCalledAgain forks a run before two tools that are not known to have
// effects.
func TestForkListsToolsThatWillBeCalledAgain(t *testing.T) {
	dir := t.TempDir()
	tool := decorators.Tool("tool", "", func(_ context.Context, in struct{ N int }) (int, error) { return in.N, nil })
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (sum int, _ error) {
		for n := range 14 {
			out, err := tool.Call(ctx, struct{ N int }{n})
			if err != nil {
				return 0, err
			}
			sum += out
		}
		return sum, nil
	})
	store, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "old")
	require.NoError(t, err)
	_, err = agent.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, err)
	require.NoError(t, st.Close())

	assert.Regexp(t, "^agent/tool#13 will be called again: it has completed in run old\nagent/tool#14 will be called again: it has completed in run old\nrun two begins",
		call(t, dir, "fork", "old", "agent/tool#13", "two").text(t))
	assert.Contains(t, call(t, dir, "fork", "old", "agent/tool#2", "many").text(t),
		"agent/tool#11 will be called again: it has completed in run old\nand 3 more tool calls will be called again\nrun many begins")
	assert.Contains(t, call(t, dir, "--json", "fork", "old", "agent/tool#14", "one").text(t), "\"repeated\": [\n    \"agent/tool#14\"\n  ]")
	assert.NotContains(t, call(t, dir, "fork", "old", "agent/tool#14", "given", "--set", "agent/tool#14=7").text(t), "called again")
}
