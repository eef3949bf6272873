package eino_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A ReAct agent from eino runs inside a run. When the run is opened again, as after a crash, its
// model and its tool are not called again.
func Example() {
	ctx := context.Background()
	chat := newGuide() // in a real program, a model from eino-ext
	model, err := eino.Model("guide", chat)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	greet, err := utils.InferTool("greet", "Greets somebody.", func(_ context.Context, p person) (string, error) { return "hello " + p.Name, nil })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	tools, err := eino.Tools(ctx, []tool.BaseTool{greet})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: model, ToolsConfig: compose.ToolsNodeConfig{Tools: tools}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	assistant := decorators.Agent("assistant", "", func(ctx context.Context, in person) (string, error) {
		answer, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage("Greet " + in.Name)})
		if err != nil {
			return "", err
		}
		return answer.Content, nil
	})
	store := memstore.New() // in a real program, a file store
	for range 2 {
		st, err := state.Open(ctx, store, "run-1")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		answer, err := assistant.Call(st.Context(ctx), person{"everybody"})
		fmt.Println(answer, err, "- the model was asked", len(*chat.asked), "times")
		if err := st.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	// Output:
	// bye <nil> - the model was asked 3 times
	// bye <nil> - the model was asked 3 times
}
