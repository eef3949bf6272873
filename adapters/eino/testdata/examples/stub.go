// Package stub replaces packages that the examples of eino import and that need an
// account or a network, and makes their models and tools durable. The examples import it
// in place of packages of eino-ext, see examples_test.go.
package stub

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

var run *state.ExecutionState

// Begin returns the context of the run of the process, in the directory RUN_DIR.
func Begin() context.Context {
	store, err := filestore.New(os.Getenv("RUN_DIR"))
	if err == nil {
		run, err = state.Open(context.Background(), store, "example")
	}
	check(err)
	return run.Context(context.Background())
}

// End ends the run.
func End() { check(run.Close()) }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// note writes a line to the ledger of calls that were really made.
func note(line string) {
	f, err := os.OpenFile(os.Getenv("RUN_LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	_, err = fmt.Fprintln(f, line)
	check(err)
	check(f.Close())
}

// ChatModelConfig replaces the types of that name in eino-ext.
type ChatModelConfig struct {
	APIKey, BaseURL, Model string
	Temperature            *float32
}

// ChatModel is a durable model that answers with the messages in SCRIPT.
type ChatModel struct{ model.ToolCallingChatModel }

// NewChatModel replaces the functions of that name in eino-ext.
func NewChatModel(context.Context, *ChatModelConfig) (*ChatModel, error) {
	m, err := eino.Model("model", scripted{})
	return &ChatModel{m}, err
}

// BindTools is called by older examples.
func (m *ChatModel) BindTools(tools []*schema.ToolInfo) (err error) {
	m.ToolCallingChatModel, err = m.WithTools(tools)
	return err
}

// scripted answers the n-th request with the n-th message in SCRIPT.
type scripted struct{}

func (s scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func (scripted) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	var script []*schema.Message
	check(json.Unmarshal([]byte(os.Getenv("SCRIPT")), &script))
	n := 0
	for _, m := range input {
		if m.Role == schema.Assistant {
			n++
		}
	}
	note(fmt.Sprint("model ", n+1))
	return script[n], nil
}

func (s scripted) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, input, opts...)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

// Tools makes tools durable.
func Tools(all []tool.BaseTool) []tool.BaseTool {
	for i, t := range all {
		all[i] = noting{t.(tool.InvokableTool)}
	}
	made, err := eino.Tools(context.Background(), all)
	check(err)
	return made
}

type noting struct{ tool.InvokableTool }

func (n noting) InvokableRun(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
	info, err := n.Info(ctx)
	check(err)
	note("tool " + info.Name)
	return n.InvokableTool.InvokableRun(ctx, arguments, opts...)
}

// Config and NewTextSearchTool replace the search of DuckDuckGo.
type Config struct{}

func NewTextSearchTool(context.Context, *Config) (tool.InvokableTool, error) {
	type query struct {
		Query string `json:"query"`
	}
	return utils.InferTool("duckduckgo_text_search", "", func(_ context.Context, q query) (string, error) { return "found " + q.Query, nil })
}

// The rest replaces traces, which are off, and a picture of the graph.
type client struct{}

func (client) Close(context.Context)          {}
func NewClient(...any) (client, error)        { return client{}, nil }
func WithAPIToken(string) any                 { return nil }
func WithWorkspaceID(string) any              { return nil }
func NewLoopHandler(client) callbacks.Handler { return nil }

type picture struct{}

func (picture) OnFinish(context.Context, *compose.GraphInfo)  {}
func NewMermaidGenerator(string) compose.GraphCompileCallback { return picture{} }
