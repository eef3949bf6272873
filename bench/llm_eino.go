package main

import (
	"context"
	"net/http"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
)

// agentEino returns a function that calls eino's ReAct agent as in eino's
// documentation.
func agentEino(url string, client *http.Client) func() error {
	ctx := context.Background()
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "key", BaseURL: url, Model: "m", HTTPClient: client})
	if err != nil {
		return func() error { return err }
	}
	add, err := utils.InferTool("add", "Adds a number.", func(_ context.Context, in addend) (int, error) { return in.N + 1, nil })
	if err != nil {
		return func() error { return err }
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: []tool.BaseTool{add}},
		MaxStep:          4 * agentTurns,
	})
	if err != nil {
		return func() error { return err }
	}
	return func() error {
		got, err := agent.Generate(ctx, []*schema.Message{schema.SystemMessage("Be brief."), schema.UserMessage("What is the answer?")})
		if err != nil {
			return err
		}
		return checkText(got.Content)
	}
}
