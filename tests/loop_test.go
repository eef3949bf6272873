package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The code between these two marks is the loop in docs/features.md.

// loop begins

// research asks a model with tools. In its last turn, the model must answer.
func research(llm actors.LLM, tools actors.ToolSet) actors.Agent[actors.Prompt, string] {
	return decorators.Agent("research", "", func(ctx context.Context, in actors.Prompt) (string, error) {
		const turns = 5
		messages := []actors.Message{actors.System("Answer with sources."), actors.User(in.Text)}
		for turn := range turns {
			request := actors.Request{Messages: messages, Tools: tools.Describe()}
			if turn == turns-1 {
				request.Options.ToolChoice = "none"
			}
			response, err := llm.Call(ctx, request)
			if err != nil {
				return "", err
			}
			if len(response.Message.ToolCalls) == 0 {
				return response.Message.Text, nil
			}
			results, err := actors.CallTools(ctx, actors.Group{Name: "tools"}, tools, response.Message.ToolCalls)
			if err != nil {
				return "", err
			}
			messages = append(messages, response.Message)
			for _, r := range results {
				if r.Err != nil {
					r.Output.Text = "error: " + r.Err.Error()
				}
				messages = append(messages, actors.ToolResult(r.Call.ID, r.Output.Text))
			}
		}
		return "", errors.New("the model asks for tools although it may not")
	})
}

// loop ends

func TestFeaturesShowTheLoopThatIsTested(t *testing.T) {
	source, err := os.ReadFile("loop_test.go")
	require.NoError(t, err)
	_, loop, _ := strings.Cut(string(source), "\n// loop begins\n")
	loop, _, found := strings.Cut(loop, "\n// loop ends\n")
	require.True(t, found)
	features, err := os.ReadFile("../docs/features.md")
	require.NoError(t, err)
	assert.Contains(t, string(features), "```go\n"+strings.TrimSpace(loop)+"\n```", "docs/features.md shows another loop")
}

func TestLoopOfOnesOwnContinuesWhereverTheProcessEnds(t *testing.T) {
	looked := 0
	look := decorators.Tool("look", "Looks a word up.", func(_ context.Context, in City) (string, error) {
		looked++
		return in.Name + ": a city", nil
	})
	tools, err := actors.NewToolSet(look)
	require.NoError(t, err)
	// The model asks for a tool whenever it is allowed to.
	llm := decorators.LLM("model", func(_ context.Context, in actors.Request) (actors.Response, error) {
		if in.Options.ToolChoice == "none" {
			return actors.Response{Message: actors.Assistant(fmt.Sprintf("after %d messages", len(in.Messages)))}, nil
		}
		call := actorstest.Call("look", City{Name: fmt.Sprint("city ", len(in.Messages))})
		call.ID = fmt.Sprint(len(in.Messages))
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call}}}, nil
	})
	ask := func(store snapshot.Store) {
		st, err := state.Open(t.Context(), store, "research")
		require.NoError(t, err)
		answer, err := research(llm, tools).Call(st.Context(t.Context()), actors.Ask("Which cities are there?"))
		require.NoError(t, errors.Join(err, st.Close()))
		assert.Equal(t, "after 10 messages", answer)
	}
	store := memstore.New()
	ask(store)
	assert.Equal(t, 4, looked)
	for records, left := range actorstest.AfterEachRecord(t, store, "research") {
		made := 0
		for _, line := range actorstest.Endings(records) {
			if strings.HasSuffix(line, "/look completed") {
				made++
			}
		}
		looked = 0
		ask(left)
		assert.Equal(t, 4-made, looked, "after record %d", len(records))
	}
}

// docs/features.md: an agent that has used up its turns continues when it is retried with a higher
// limit.
func TestRetriedAgentWithMoreTurnsContinues(t *testing.T) {
	look := decorators.Tool("look", "Looks a word up.", func(_ context.Context, in City) (string, error) { return in.Name, nil })
	script := actorstest.NewScript(t,
		actorstest.Calls(actorstest.Call("look", City{Name: "Oslo"})),
		actorstest.Calls(actorstest.Call("look", City{Name: "Bergen"})),
		actorstest.Say("Two cities."),
	)
	store := memstore.New()
	ask := func(turns int) (actors.Answer, error) {
		st, err := state.Open(t.Context(), store, "cities")
		require.NoError(t, err)
		agent := actors.NewAgent("agent", script.LLM("model"), actors.WithTools(look), actors.WithMaxTurns(turns))
		answer, err := agent.Call(st.Context(t.Context()), actors.Ask("Which cities are there?"))
		return answer, errors.Join(err, st.Close())
	}
	answer, err := ask(2)
	require.ErrorIs(t, err, actors.ErrTurnLimit)
	assert.Zero(t, answer)
	_, err = state.Retry(t.Context(), store, "cities")
	require.NoError(t, err)
	answer, err = ask(3)
	require.NoError(t, err)
	assert.Equal(t, "Two cities.", answer.Text)
}
