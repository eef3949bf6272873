package eino_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/prompt"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// An echo is a model that repeats the last message and counts its calls.
type echo struct {
	asked int
	extra any
	empty bool
}

func (e *echo) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return e, nil }

func (e *echo) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	e.asked++
	if e.empty {
		return nil, nil
	}
	m := schema.AssistantMessage("echo: "+input[len(input)-1].Content, nil)
	if e.extra != nil {
		m.Extra = map[string]any{"extra": e.extra}
	}
	return m, nil
}

func (e *echo) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := e.Generate(ctx, input, opts...)
	if m == nil {
		return schema.StreamReaderFromArray([]*schema.Message{}), err
	}
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

func durable(t *testing.T, name string, m model.ToolCallingChatModel) model.ToolCallingChatModel {
	made, err := eino.Model(name, m, quick)
	require.NoError(t, err)
	return made
}

// chain returns the chain of eino's own tests: a template, a model and a function.
func chain(t *testing.T, m model.ToolCallingChatModel) *compose.Chain[map[string]any, string] {
	return compose.NewChain[map[string]any, string]().
		AppendChatTemplate(prompt.FromMessages(schema.FString, schema.SystemMessage("You are a {role}."), schema.UserMessage("{input}"))).
		AppendChatModel(m).
		AppendLambda(compose.InvokableLambda(func(_ context.Context, m *schema.Message) (string, error) { return m.Content + "!", nil }))
}

func TestChainIsResumedWithItsModel(t *testing.T) {
	e := new(echo)
	r, err := chain(t, durable(t, "echo", e)).Compile(t.Context())
	require.NoError(t, err)
	store := memstore.New()
	for range 2 {
		out, st, err := opened(t, store, func(ctx context.Context) (string, error) {
			return r.Invoke(ctx, map[string]any{"role": "cat", "input": "miau"})
		})
		require.NoError(t, err)
		assert.Equal(t, "echo: miau!", out)
		assert.Equal(t, 1, e.asked)
		assert.Equal(t, snapshot.StatusCompleted, st.Status())
	}
	_, _, err = opened(t, store, func(ctx context.Context) (string, error) {
		return r.Invoke(ctx, map[string]any{"role": "cat", "input": "wau"})
	})
	require.ErrorIs(t, err, core.ErrDivergence, "the recorded answer belongs to another question")
	assert.Equal(t, 1, e.asked)
}

// The graph has a branch and a loop, which ends after the model has been asked three times.
func TestGraphWithALoopIsResumedAtAnyRecord(t *testing.T) {
	build := func(e *echo) compose.Runnable[[]*schema.Message, *schema.Message] {
		g := compose.NewGraph[[]*schema.Message, *schema.Message]()
		require.NoError(t, g.AddChatModelNode("model", durable(t, "echo", e)))
		require.NoError(t, g.AddLambdaNode("again", compose.InvokableLambda(func(_ context.Context, m *schema.Message) ([]*schema.Message, error) {
			return []*schema.Message{schema.UserMessage(m.Content)}, nil
		})))
		require.NoError(t, g.AddEdge(compose.START, "model"))
		require.NoError(t, g.AddEdge("again", "model"))
		require.NoError(t, g.AddBranch("model", compose.NewGraphBranch(func(_ context.Context, m *schema.Message) (string, error) {
			if len(m.Content) > len("echo: echo: echo: ") {
				return compose.END, nil
			}
			return "again", nil
		}, map[string]bool{"again": true, compose.END: true})))
		r, err := g.Compile(t.Context(), compose.WithMaxRunSteps(20))
		require.NoError(t, err)
		return r
	}
	store, e := memstore.New(), new(echo)
	call := func(e *echo) func(context.Context) (*schema.Message, error) {
		r := build(e)
		return func(ctx context.Context) (*schema.Message, error) {
			return r.Invoke(ctx, []*schema.Message{schema.UserMessage("?")})
		}
	}
	_, _, err := opened(t, store, call(e))
	require.NoError(t, err)
	require.Equal(t, 3, e.asked)
	cuts(t, store, func(cut *memstore.Store, outcomes map[string]bool) {
		again := new(echo)
		out, _, err := opened(t, cut, call(again))
		require.NoError(t, err)
		assert.Equal(t, "echo: echo: echo: ?", out.Content)
		assert.Equal(t, 3-len(outcomes), again.asked)
	})
}

// parallel returns a graph that asks three models at the same time. Gates determine the order in
// which they are asked.
func parallel(t *testing.T, order []int, models [3]*echo) func(context.Context) (map[string]any, error) {
	p, gates := compose.NewParallel(), [4]chan struct{}{}
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	for i := range models {
		place := 0
		for n, which := range order {
			if which == i {
				place = n
			}
		}
		wait := compose.InvokableLambda(func(_ context.Context, in string) ([]*schema.Message, error) {
			<-gates[place]
			return []*schema.Message{schema.UserMessage(in)}, nil
		})
		release := compose.InvokableLambda(func(_ context.Context, m *schema.Message) (string, error) {
			close(gates[place+1])
			return m.Content, nil
		})
		p.AddGraph(fmt.Sprint("out", i), compose.NewChain[string, string]().AppendLambda(wait).AppendChatModel(durable(t, fmt.Sprint("echo", i), models[i])).AppendLambda(release))
	}
	r, err := compose.NewChain[string, map[string]any]().AppendParallel(p).Compile(t.Context())
	require.NoError(t, err)
	close(gates[0])
	return func(ctx context.Context) (map[string]any, error) { return r.Invoke(ctx, "miau") }
}

func TestParallelNodesInAnotherOrderStopTheRunUnlessItTrustsItsRecords(t *testing.T) {
	store, want := memstore.New(), map[string]any{"out0": "echo: miau", "out1": "echo: miau", "out2": "echo: miau"}
	models := [3]*echo{new(echo), new(echo), new(echo)}
	out, _, err := opened(t, store, parallel(t, []int{0, 1, 2}, models))
	require.NoError(t, err)
	require.Equal(t, want, out)

	st, err := state.Open(t.Context(), store, "a", state.WithDivergence(state.DivergenceTrust))
	require.NoError(t, err)
	out, err = parallel(t, []int{2, 0, 1}, models)(st.Context(t.Context()))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, want, out)
	for _, m := range models {
		assert.Equal(t, 1, m.asked)
	}
}

func TestAnswerIsRestoredWithAllItsFields(t *testing.T) {
	store, e := memstore.New(), &echo{extra: map[string]any{"signature": "abc", "n": 1}}
	m := durable(t, "echo", e)
	input := []*schema.Message{
		{Role: schema.User, Name: "max", UserInputMultiContent: []schema.MessageInputPart{{Type: schema.ChatMessagePartTypeText, Text: "look"}}},
	}
	var first *schema.Message
	for range 2 {
		out, _, err := opened(t, store, func(ctx context.Context) (*schema.Message, error) {
			return m.Generate(ctx, input, model.WithTemperature(0.5))
		})
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"extra": map[string]any{"signature": "abc", "n": 1.0}}, out.Extra)
		if first != nil {
			assert.Equal(t, first, out, "as in the first run")
		}
		first = out
	}
	assert.Equal(t, 1, e.asked)
	other := []*schema.Message{
		{Role: schema.User, Name: "max", UserInputMultiContent: []schema.MessageInputPart{{Type: schema.ChatMessagePartTypeText, Text: "look away"}}},
	}
	_, _, err := opened(t, store, func(ctx context.Context) (*schema.Message, error) { return m.Generate(ctx, other) })
	require.ErrorIs(t, err, core.ErrDivergence)
}

func TestOptionsOfTheRequestAreOnRecord(t *testing.T) {
	m := durable(t, "echo", new(echo))
	_, st, err := opened(t, memstore.New(), func(ctx context.Context) (*schema.Message, error) {
		return m.Generate(ctx, ask, model.WithTemperature(0.5), model.WithMaxTokens(10), model.WithModel("other"))
	})
	require.NoError(t, err)
	records, err := st.Records(t.Context())
	require.NoError(t, err)
	for _, r := range records {
		if r.Kind == record.KindLLM && r.IsOutcome() {
			assert.Equal(t, map[string]any{"temperature": 0.5, "max_tokens": int64(10), "request_model": "other"}, r.Detail.Metadata)
		}
	}
}

func TestWrongModelsToolsAndAnswersAreRefused(t *testing.T) {
	_, err := eino.Model("m", nil)
	require.EqualError(t, err, "eino: Model got nil; want a model")
	_, err = eino.Model("", new(echo))
	require.ErrorContains(t, err, "eino: core: ")
	_, err = eino.Tool(t.Context(), nil)
	require.EqualError(t, err, "eino: Tool got nil; want a tool")
	_, err = eino.Tool(t.Context(), described{&schema.ToolInfo{Name: "a tool"}})
	require.ErrorContains(t, err, `"a tool"`)
	_, err = eino.Tool(t.Context(), described{nil})
	require.EqualError(t, err, "eino: a eino_test.described has no description")
	_, err = eino.Tools(t.Context(), []tool.BaseTool{described{&schema.ToolInfo{Name: "only_described"}}})
	require.EqualError(t, err, `eino: tool "only_described" is a eino_test.described; want a tool.InvokableTool, StreamableTool or EnhancedInvokableTool`)

	for name, c := range map[string]struct {
		m     *echo
		input []*schema.Message
		want  string
	}{
		"a message that is nil":             {new(echo), []*schema.Message{nil}, "eino: message 1 is nil"},
		"an answer that JSON does not have": {&echo{extra: func() {}}, ask, "eino: the model's answer cannot be recorded"},
		"no answer":                         {&echo{empty: true}, ask, "eino: the model returned no message"},
	} {
		_, st, err := opened(t, memstore.New(), func(ctx context.Context) (*schema.Message, error) {
			return durable(t, "echo", c.m).Generate(ctx, c.input)
		})
		require.ErrorContains(t, err, c.want, name)
		assert.NotEqual(t, snapshot.StatusCompleted, st.Status(), name)
	}
	_, _, err = opened(t, memstore.New(), func(ctx context.Context) (*schema.StreamReader[*schema.Message], error) {
		return durable(t, "echo", &echo{empty: true}).Stream(ctx, ask)
	})
	require.ErrorContains(t, err, "eino: the model's stream ended without a message")
}

type described struct{ info *schema.ToolInfo }

func (d described) Info(context.Context) (*schema.ToolInfo, error) { return d.info, nil }

type speaking struct{ described }

func (speaking) StreamableRun(_ context.Context, arguments string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	return schema.StreamReaderFromArray([]string{"a ", arguments}), nil
}

type picturing struct{ described }

func (picturing) InvokableRun(_ context.Context, argument *schema.ToolArgument, _ ...tool.Option) (*schema.ToolResult, error) {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: "a " + argument.Text}}}, nil
}

func TestToolsOfEveryKindAreDurable(t *testing.T) {
	store := memstore.New()
	for range 2 {
		speaks, err := eino.Tool(t.Context(), speaking{described{&schema.ToolInfo{Name: "speak"}}})
		require.NoError(t, err)
		pictures, err := eino.Tool(t.Context(), picturing{described{&schema.ToolInfo{Name: "picture"}}})
		require.NoError(t, err)
		_, st, err := opened(t, store, func(ctx context.Context) (any, error) {
			stream, err := speaks.(tool.StreamableTool).StreamableRun(ctx, "word")
			require.NoError(t, err)
			piece, err := stream.Recv()
			require.NoError(t, err)
			assert.Equal(t, "a word", piece)
			result, err := pictures.(tool.EnhancedInvokableTool).InvokableRun(ctx, &schema.ToolArgument{Text: "house"})
			require.NoError(t, err)
			assert.Equal(t, "a house", result.Parts[0].Text)
			return nil, nil
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"picture completed 1", "speak completed 1"}, endings(t, st))
	}
}
