package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestADivergenceNamesARemovedToolThatAModelAskedFor(t *testing.T) {
	store := memstore.New()
	run := func(tool string, steps ...actorstest.Step) error {
		st, err := state.Open(t.Context(), store, "run-1")
		require.NoError(t, err)
		book := decorators.Tool(tool, "Books.", func(ctx context.Context, _ struct{}) (string, error) {
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return "", ctx.Err()
		})
		agent := actors.NewAgent("agent", actorstest.NewScript(t, steps...).LLM("model"), actors.WithTools(book))
		_, err = agent.Call(st.Context(t.Context()), actors.Ask("Book it."))
		require.NoError(t, st.Close())
		return err
	}
	require.ErrorIs(t, run("book", actorstest.Calls(actorstest.Call("book", struct{}{}))), core.ErrInterrupted)
	err := run("reserve")
	var d *core.DivergenceError
	require.ErrorAs(t, err, &d)
	require.Equal(t, "agent/book (tool)", d.Recorded)
	require.Contains(t, d.Hint, "if a model called book: it was renamed")

	require.ErrorContains(t, err, "reprise --dir DIR fork run-1 'agent/model' NEW", "the fork begins at the model call that asked for the tool")
	require.NoError(t, state.Fork(t.Context(), store, "run-1", d.Fork, "run-2", state.ForkOptions{Effects: state.RepeatEffects}))
	st, err := state.Open(t.Context(), store, "run-2")
	require.NoError(t, err)
	defer st.Close()
	reserve := decorators.Tool("reserve", "Books.", func(context.Context, struct{}) (string, error) { return "done", nil })
	model := actorstest.NewScript(t, actorstest.Calls(actorstest.Call("reserve", struct{}{})), actorstest.Say("Reserved."))
	answer, err := actors.NewAgent("agent", model.LLM("model"), actors.WithTools(reserve)).Call(st.Context(t.Context()), actors.Ask("Book it."))
	require.NoError(t, err)
	require.Equal(t, "Reserved.", answer.Text)
}
