package actors_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A run under way goes on with other instructions and another tool, and is
// refused for another question.
func TestRewordedInstructionsDoNotStopARunUnderWay(t *testing.T) {
	asked := 0
	assistant := func(instructions string, stop bool, tools ...actors.Function) actors.Actor[actors.Prompt, actors.Answer] {
		llm := decorators.LLM("model", "", func(ctx context.Context, req actors.Request) (actors.Response, error) {
			asked++
			last := req.Messages[len(req.Messages)-1]
			if last.Role == actors.RoleTool {
				if stop {
					state.From(ctx).Interrupt(core.InterruptUser, "ops", "deploy")
					return actors.Response{}, ctx.Err()
				}
				return says("it is " + last.Text), nil
			}
			return asks(call("echo", `{"n":7}`)), nil
		})
		return actors.NewAgent("assistant", llm, actors.WithInstructions(instructions), actors.WithTools(append(tools, echo())...))
	}
	s := snapshot.NewMemoryStore()
	run := func(a actors.Actor[actors.Prompt, actors.Answer], question string) (actors.Answer, error) {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		return a.Event().Execute(st.Context(t.Context()), actors.Ask(question))
	}
	_, err := run(assistant("Call echo.", true), "how many?")
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, err = run(assistant("Call echo.", false), "how much?")
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, `text: recorded "how many?", now "how much?"`)

	other := decorators.Tool("other", "", func(context.Context, number) (int, error) { return 0, nil })
	answer, err := run(assistant("Please call echo, and be brief.", false, other), "how many?")
	require.NoError(t, err)
	assert.Equal(t, "it is 7", answer.Text)
	assert.Equal(t, 3, asked, "the first turn is recalled, the second was interrupted")
}
