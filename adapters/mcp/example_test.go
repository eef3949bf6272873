package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A runner's program becomes a tool of an agent in another process.
func Example() {
	type person struct {
		Name string `json:"name"`
	}
	r, err := runner.New(memstore.New(), runner.Options{Grace: -1})
	if err != nil {
		panic(err)
	}
	runner.Register(r, decorators.Tool("greet", "Greets somebody.", func(_ context.Context, p person) (string, error) {
		return "Hello, " + p.Name, nil
	}))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = r.Serve(ctx) }() // until the example ends
	server := httptest.NewServer(mcp.NewHandler(r, mcp.ServerOptions{}))
	defer server.Close()

	far := mcp.HTTP("far", server.URL, mcp.Options{})
	defer func() { _ = far.Close() }() // nothing depends on it
	llm := decorators.LLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == actors.RoleTool {
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "It says: " + last.Text}, FinishReason: "stop"}, nil
		}
		call := actors.ToolCall{ID: "1", Name: "far_greet", Arguments: `{"name":"Ada"}`}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call}}, FinishReason: "tool_calls"}, nil
	})
	agent := actors.NewAgent("assistant", llm, mcp.WithServers(far))

	st := state.New()
	answer, err := agent.Call(st.Context(ctx), actors.Prompt{Text: "Greet Ada."})
	fmt.Println(answer.Text, err)
	// Output: It says: Hello, Ada <nil>
}

// A destructive tool waits for a person's approval.
func ExampleOptions() {
	o := mcp.Options{ToolOptions: func(t mcp.ListedTool) []actors.Option {
		if !t.Destructive {
			return nil
		}
		return []actors.Option{actors.WithApproval(actors.ApprovalQuestion(func(arguments json.RawMessage) string {
			return fmt.Sprintf("%s %s?", t.ServerName, arguments)
		}))}
	}}
	fmt.Println(len(o.ToolOptions(mcp.ListedTool{Destructive: true})), sdk.MetaKeyClientInfo != "")
	// Output: 1 true
}
