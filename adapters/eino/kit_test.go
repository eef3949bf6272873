package eino_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A guide is a model that asks twice for two calls to the greet tool at a time, and then says
// goodbye. It records its requests.
type guide struct {
	mu    *sync.Mutex
	asked *[]string
	fail  func(asked int) error // nil for never
	infos []*schema.ToolInfo
}

func newGuide() *guide { return &guide{mu: new(sync.Mutex), asked: new([]string)} }

func (g *guide) WithTools(infos []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	with := *g
	with.infos = infos
	return &with, nil
}

func (g *guide) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	turn := 0
	for _, m := range input {
		if m.Role == schema.Assistant {
			turn++
		}
	}
	*g.asked = append(*g.asked, fmt.Sprint("turn ", turn+1))
	if g.fail != nil {
		if err := g.fail(len(*g.asked)); err != nil {
			return nil, err
		}
	}
	for _, info := range g.infos {
		if len(info.Extra) > 0 {
			return nil, errors.New("the tool does not have the user's description")
		}
	}
	if turn == 2 {
		return usage(schema.AssistantMessage("bye", nil), "stop"), nil
	}
	var calls []schema.ToolCall
	for i := range 2 {
		calls = append(calls, schema.ToolCall{ID: fmt.Sprint("call-", turn, "-", i), Type: "function", Function: schema.FunctionCall{
			Name: "greet", Arguments: fmt.Sprintf(`{"name":"max %d %d"}`, turn, i),
		}})
	}
	m := usage(schema.AssistantMessage("hello", calls), "tool_calls")
	m.Extra = map[string]any{"signature": "abc"}
	return m, nil
}

func usage(m *schema.Message, finish string) *schema.Message {
	m.ResponseMeta = &schema.ResponseMeta{FinishReason: finish, Usage: &schema.TokenUsage{PromptTokens: 10, CompletionTokens: 2}}
	return m
}

// Stream returns the answer in pieces.
func (g *guide) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	whole, err := g.Generate(ctx, input, opts...)
	if err != nil {
		return nil, err
	}
	pieces := []*schema.Message{schema.AssistantMessage("", nil)}
	for _, letter := range whole.Content {
		pieces = append(pieces, schema.AssistantMessage(string(letter), nil))
	}
	for i, c := range whole.ToolCalls {
		c.Index = &i
		pieces = append(pieces, schema.AssistantMessage("", []schema.ToolCall{c}))
	}
	last := schema.AssistantMessage("", nil)
	last.ResponseMeta, last.Extra = whole.ResponseMeta, whole.Extra
	return schema.StreamReaderFromArray(append(pieces, last)), nil
}

// greet is a tool that notes the names that it greets. Of two calls, the second returns
// first.
type greet struct {
	mu      sync.Mutex
	greeted []string
}

type person struct {
	Name string `json:"name"`
}

func (g *greet) tool(t testing.TB) tool.BaseTool {
	made, err := utils.InferTool("greet", "Greets somebody.", func(_ context.Context, p person) (string, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.greeted = append(g.greeted, p.Name)
		return "hello " + p.Name, nil
	})
	require.NoError(t, err)
	return made
}

// reactAgent returns eino's ReAct agent with a durable model and a durable tool.
func reactAgent(t testing.TB, m model.ToolCallingChatModel, tools ...tool.BaseTool) *react.Agent {
	durable, err := eino.Model("guide", m, quick)
	require.NoError(t, err)
	all, err := eino.Tools(context.Background(), tools, quick) //nolint:usetesting // a child process uses it, too
	require.NoError(t, err)
	agent, err := react.NewAgent(context.Background(), &react.AgentConfig{ //nolint:usetesting // as above
		ToolCallingModel: durable, ToolsConfig: compose.ToolsNodeConfig{Tools: all}, MaxStep: 40,
	})
	require.NoError(t, err)
	return agent
}

var quick = actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})

// ask is the input of the agents.
var ask = []*schema.Message{schema.SystemMessage("Be polite."), schema.UserMessage("Greet everybody.")}

// opened opens the run in the store, makes the call in it and closes it.
func opened[Out any](t testing.TB, store snapshot.Store, call func(context.Context) (Out, error), options ...state.Option) (Out, *state.ExecutionState, error) {
	st, err := state.Open(context.Background(), store, "a", options...) //nolint:usetesting // a child process uses it, too
	require.NoError(t, err)
	out, err := call(st.Context(context.Background())) //nolint:usetesting // as above
	require.NoError(t, st.Close())
	return out, st, err
}

// cuts calls each once for every record of the run. It passes a copy of the run as a crash right
// after that record would leave it, and the calls that already had an outcome.
func cuts(t *testing.T, store snapshot.Store, each func(cut *memstore.Store, outcomes map[string]bool)) {
	whole, err := store.Load(t.Context(), "a")
	require.NoError(t, err)
	for n := range whole.Len() {
		outcomes := make(map[string]bool)
		run, err := snapshot.NewRun(snapshot.Info{RunID: "a", Status: snapshot.StatusRunning, Generation: 1}, func(yield func(record.Record, error) bool) {
			for rec, err := range whole.Records() {
				if rec.Seq > uint64(n) || !yield(rec, err) { //nolint:gosec // small
					return
				}
				if rec.IsOutcome() {
					outcomes[rec.Address.String()] = true
				}
			}
		})
		require.NoError(t, err)
		cut := memstore.New()
		_, err = cut.Create(t.Context(), run)
		require.NoError(t, err)
		each(cut, outcomes)
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// endings returns the recorded outcomes, each as the address, the status and the number
// of attempts.
func endings(t *testing.T, st *state.ExecutionState) (all []string) {
	records, err := st.Records(t.Context())
	require.NoError(t, err)
	for _, r := range records {
		if r.IsOutcome() {
			all = append(all, fmt.Sprintf("%s %v %d", r.Address, r.Status, r.TotalAttempts()))
		}
	}
	return sorted(all)
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func lines(t *testing.T, file string) []string {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
