package eino_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A caller is a model that calls greet for a person. Its service gives the call the ID id.
type caller struct{ person, id string }

func (c caller) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return c, nil }

func (c caller) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	call := schema.FunctionCall{Name: "greet", Arguments: fmt.Sprintf(`{"name":%q}`, c.person)}
	return schema.AssistantMessage("", []schema.ToolCall{{ID: c.id, Type: "function", Function: call}}), nil
}

func (c caller) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := c.Generate(ctx, in)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

// Some services give calls no IDs, and others use the name of the tool. Each branch gets the call
// that its own model requested.
func TestModelsInParallelBranchesUseTheSameIDs(t *testing.T) {
	for _, id := range []string{"", "greet"} {
		t.Run(id, func(t *testing.T) {
			durable, err := eino.Tool(t.Context(), new(greet).tool(t), quick)
			require.NoError(t, err)
			branches := compose.NewGraph[[]*schema.Message, map[string]any]()
			for _, person := range []string{"ada", "bob"} {
				m, err := eino.Model("model of "+person, caller{person, id}, quick)
				require.NoError(t, err)
				info, err := durable.Info(t.Context())
				require.NoError(t, err)
				m, err = m.WithTools([]*schema.ToolInfo{info})
				require.NoError(t, err)
				tools, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: []tool.BaseTool{durable}})
				require.NoError(t, err)
				require.NoError(t, branches.AddChatModelNode("model of "+person, m))
				require.NoError(t, branches.AddToolsNode("tools of "+person, tools, compose.WithOutputKey(person)))
				require.NoError(t, branches.AddEdge(compose.START, "model of "+person))
				require.NoError(t, branches.AddEdge("model of "+person, "tools of "+person))
				require.NoError(t, branches.AddEdge("tools of "+person, compose.END))
			}
			graph, err := branches.Compile(t.Context())
			require.NoError(t, err)
			for range 20 { // each time, the branches may take turns in another order
				_, st, err := opened(t, memstore.New(), inAgent(func(ctx context.Context) (string, error) {
					out, err := graph.Invoke(ctx, ask)
					return fmt.Sprint(out), err
				}))
				require.NoError(t, err)
				records, err := st.Records(t.Context())
				require.NoError(t, err)
				inputs, outputs := make(map[record.Address]string), make(map[string]string)
				for _, r := range records {
					switch {
					case r.Kind != record.KindTool:
					case r.Detail != nil && len(r.Detail.Input) > 0:
						var input string
						require.NoError(t, record.Decode(r.Detail.Input, &input))
						inputs[r.Address] = input
					case r.Status == record.StatusCompleted:
						var output string
						require.NoError(t, record.Decode(r.Encoded(), &output))
						outputs[inputs[r.Address]] = output
					}
				}
				require.Equal(t, map[string]string{`{"name":"ada"}`: "hello ada", `{"name":"bob"}`: "hello bob"}, outputs)
			}
		})
	}
}
