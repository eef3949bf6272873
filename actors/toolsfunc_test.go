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
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// listed returns a function for WithToolsFunc. It calls list in a step, so that the names are
// recorded, and returns tools with those names. Each tool waits for an answer.
func listed(list func() ([]string, error)) func(context.Context) ([]actors.Function, error) {
	return func(ctx context.Context) ([]actors.Function, error) {
		names, err := core.Step(ctx, "tools", func(context.Context) ([]string, error) { return list() })
		var tools []actors.Function
		for _, name := range names {
			tools = append(tools, decorators.Tool(name, "", func(ctx context.Context, _ struct{}) (string, error) {
				return core.Await[string](ctx, "What does "+name+" find?")
			}))
		}
		return tools, err
	}
}

func own(name string) actors.Function {
	return decorators.Tool(name, "", func(context.Context, struct{}) (string, error) { return "", nil })
}

func TestToolsThatAnAgentTakesInsideItsCallAreOnRecord(t *testing.T) {
	store := memstore.New()
	run := func(script *actorstest.Script, list func() ([]string, error)) (actors.Answer, error) {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		agent := actors.NewAgent("a", script.LLM("m"), actors.WithTools(own("own")), actors.WithToolsFunc(listed(list)))
		out, err := agent.Call(st.Context(t.Context()), actors.Prompt{Text: "go"})
		require.NoError(t, st.Close())
		return out, err
	}
	names := func(r actors.Request) (names []string) {
		for _, spec := range r.Tools {
			names = append(names, spec.Name)
		}
		return names
	}
	first := actorstest.NewScript(t, actorstest.Calls(actorstest.Call("find", map[string]any{})))
	_, err := run(first, func() ([]string, error) { return []string{"find", "book"}, nil })
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.Equal(t, []string{"own", "find", "book"}, names(first.Requests()[0]))

	open, err := state.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.NoError(t, state.Answer(t.Context(), store, "r", open[0].ID, "", "a hotel"))
	second := actorstest.NewScript(t, actorstest.Say("done"))
	out, err := run(second, func() ([]string, error) { return nil, errors.New("the server is away") })
	require.NoError(t, err)
	assert.Equal(t, "done", out.Text)
	assert.Equal(t, []string{"own", "find", "book"}, names(second.Requests()[0]), "the recorded list")
}

func TestToolsThatAnAgentCannotTakeFailItsCall(t *testing.T) {
	for want, list := range map[string]func() ([]string, error){
		`two functions are named "find"`: func() ([]string, error) { return []string{"find"}, nil },
		"the server is away":             func() ([]string, error) { return nil, errors.New("the server is away") },
	} {
		script := actorstest.NewScript(t)
		agent := actors.NewAgent("a", script.LLM("m"), actors.WithTools(own("find")), actors.WithToolsFunc(listed(list)))
		_, err := agent.Call(state.New().Context(t.Context()), actors.Prompt{Text: "go"})
		require.ErrorContains(t, err, want)
	}
	assert.PanicsWithValue(t, `actors: "a": WithToolsFunc got nil`, func() {
		actors.NewAgent("a", actorstest.NewScript(t).LLM("m"), actors.WithToolsFunc(nil))
	})
}

func TestTypedAgentDoesNotTakeAToolWithTheNameOfItsAnswer(t *testing.T) {
	script := actorstest.NewScript(t)
	agent := actors.NewTypedAgent[string, report]("writer", script.LLM("m"), actors.WithToolsFunc(listed(func() ([]string, error) { return []string{"answer"}, nil })),
		actors.WithRetry(core.RetryConfig{MaxAttempts: 3}))
	_, err := agent.Call(state.New().Context(t.Context()), "?")
	require.ErrorContains(t, err, `actors: the agent "writer" has a tool named "answer"; that name is reserved for the agent's answer`)
	var failed *core.CallError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 1, failed.Attempts)
	assert.Empty(t, script.Requests(), "the model is not asked")
}

// A tool that the model must call may be one that becomes known only inside the agent's call.
func TestToolChoiceOfAToolThatIsTakenInsideTheCall(t *testing.T) {
	take := actors.WithToolsFunc(listed(func() ([]string, error) { return []string{"find"}, nil }))
	script := actorstest.NewScript(t, actorstest.Say("done"))
	agent := actors.NewAgent("a", script.LLM("m"), actors.WithTools(own("own")), actors.WithModelOptions(actors.ModelOptions{ToolChoice: "find"}), take)
	_, err := agent.Call(t.Context(), actors.Prompt{Text: "go"})
	require.NoError(t, err)
	agent = actors.NewAgent("a", script.LLM("m"), actors.WithTools(own("own")), actors.WithModelOptions(actors.ModelOptions{ToolChoice: "lose"}), take)
	_, err = agent.Call(t.Context(), actors.Prompt{Text: "go"})
	require.ErrorContains(t, err, `ModelOptions.ToolChoice is "lose"`)
}
