package agui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// If one answer in a resume does not fit, no answer is stored, and the corrected resume is accepted.
func TestRefusedResumeHasNoEffect(t *testing.T) {
	tool := func(name string) actors.Tool[struct{}, string] {
		return decorators.Tool(name, "", func(ctx context.Context, _ struct{}) (string, error) {
			n, err := core.Await[int](ctx, name)
			return fmt.Sprint(name, " ", n), err
		})
	}
	model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		if n := len(req.Messages); n > 2 {
			return actors.Response{Message: actors.Assistant(req.Messages[n-2].Text + ", " + req.Messages[n-1].Text)}, nil
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{
			{ID: "c1", Name: "one", Arguments: "{}"}, {ID: "c2", Name: "two", Arguments: "{}"},
		}}}, nil
	})
	url, _ := serve(t, memstore.New(), actors.NewAgent("assistant", model, actors.WithTools(tool("one"), tool("two"))))
	url += "agui/assistant"
	asked := post(t, url, say("a", "go"))
	open := asked[len(asked)-1].Outcome.Interrupts
	require.Len(t, open, 2)
	one, two := open[0].ID, open[1].ID
	if strings.Contains(two, "/one") { // the tools run concurrently, so their order may differ
		one, two = two, one
	}
	resume := func(first, second string) []event {
		return post(t, url, input("a", fmt.Sprintf(
			`"resume":[{"interruptId":%q,"status":"resolved","payload":%s},{"interruptId":%q,"status":"resolved","payload":%s}],`,
			one, first, two, second), user("go")))
	}
	refused := resume("1", `"two"`)
	require.Equal(t, []string{"RUN_ERROR"}, types(refused))
	assert.Equal(t, "bad_request", refused[0].Code)
	assert.Contains(t, refused[0].Message, two)
	assert.Equal(t, "one 7, two 2", shown(resume("7", "2")))
}
