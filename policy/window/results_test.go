package window_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/window"
)

type word struct {
	Word string `json:"word"`
}

// long returns a tool whose results have 20 KB. Each result contains the given word 4000 times.
func long() actors.Tool[word, string] {
	return decorators.Tool("long", "", func(_ context.Context, w word) (string, error) { return strings.Repeat(w.Word+" ", 4000), nil })
}

// toolResults returns the texts of the tool results in a request.
func toolResults(req actors.Request) (texts []string) {
	for _, m := range req.Messages {
		if m.Role == actors.RoleTool {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// reads returns the arguments for reading more of a truncated result.
func reads(text string) string {
	return fmt.Sprintf(`{"id":%q,"offset":4000,"length":10}`, noted(text))
}

// Some services number the tool calls of each answer anew, so that all results have the same call
// ID.
func TestEachResultIsReadIfTheServiceRepeatsItsCallIDs(t *testing.T) {
	var requests [][]string
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		results := toolResults(req)
		requests = append(requests, results)
		call := actors.ToolCall{ID: "call_0"}
		switch n := len(results); n {
		case 0, 1, 2:
			call.Name, call.Arguments = "long", fmt.Sprintf(`{"word":%q}`, []string{"red", "tan", "red"}[n])
		case 3, 4:
			call.Name, call.Arguments = "read_result", reads(results[n-3])
		default:
			return actors.Response{Message: actors.Assistant("done")}, nil
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call}}}, nil
	})
	agent := actors.NewAgent("assistant", window.New("any", window.Options{Tokens: 8_000}, llm), actors.WithTools(long(), window.ReadTool()))
	_, ctx := testkit.Run(t)
	_, err := agent.Call(ctx, actors.Ask("Read."))
	require.NoError(t, err)
	require.Len(t, requests, 6)
	last := requests[5]
	require.Len(t, last, 5)
	assert.Contains(t, last[3], "red red re\n")
	assert.Contains(t, last[4], "tan tan ta\n")
	assert.NotEqual(t, noted(last[0]), noted(last[1]))
	assert.Equal(t, last[0], last[2], "the same text has the same ID")
	for _, results := range requests[1:] {
		assert.Equal(t, results, last[:len(results)], "results look the same in every request, so that the service can cache them")
	}
}

// The next run continues the conversation, but its history may lack the beginning.
func TestResultLooksTheSameInTheNextRun(t *testing.T) {
	result := strings.Repeat("word ", 4000)
	conversation := []actors.Message{
		actors.User("one"), asks(1, "long", `{"word":"other"}`), actors.ToolResult("c1", strings.Repeat("other ", 4000)), actors.Assistant("yes"),
		actors.User("two"), asks(2, "long", `{"word":"word"}`), actors.ToolResult("c2", result), actors.Assistant("yes"),
	}
	var seen []string
	for _, history := range [][]actors.Message{conversation, conversation[4:]} {
		llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
			results := toolResults(req)
			seen = append(seen, results[len(results)-1])
			return actors.Response{Message: actors.Assistant("done")}, nil
		})
		agent := actors.NewAgent("assistant", window.New("any", window.Options{Tokens: 8_000}, llm), actors.WithTools(long(), window.ReadTool()))
		_, ctx := testkit.Run(t)
		_, err := agent.Call(ctx, actors.Prompt{Text: "And now?", History: history})
		require.NoError(t, err)
	}
	require.Len(t, seen, 2)
	assert.NotEmpty(t, noted(seen[0]))
	assert.Equal(t, seen[0], seen[1])
}

func TestResultInPartsIsTruncated(t *testing.T) {
	var last actors.Message
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		if last = req.Messages[len(req.Messages)-1]; last.Role == actors.RoleTool {
			return actors.Response{Message: actors.Assistant("done")}, nil
		}
		return actors.Response{Message: asks(1, "long", `{"word":"red"}`)}, nil
	})
	parts := decorators.Tool("long", "", func(_ context.Context, w word) (actors.ToolOutput, error) {
		return actors.ToolOutput{Parts: []actors.Part{
			{Text: strings.Repeat(w.Word+" ", 4000)}, actors.Image("image/png", make([]byte, 100)),
		}}, nil
	})
	agent := actors.NewAgent("assistant", window.New("any", window.Options{Tokens: 8_000}, llm), actors.WithTools(parts, window.ReadTool()))
	_, ctx := testkit.Run(t)
	_, err := agent.Call(ctx, actors.Prompt{Text: "Go."})
	require.NoError(t, err)
	assert.Less(t, len(last.Text), 5_000)
	assert.NotEmpty(t, noted(last.Text))
	require.Len(t, last.Parts, 1)
	assert.Equal(t, "image/png", last.Parts[0].MIME)
}
