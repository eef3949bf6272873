package eino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
)

// Model returns a model whose calls are recorded in the run that their context contains, as calls
// to an LLM with the given name and options. Use the model's name, or the node's name if several
// nodes use the same model.
//
// A stream yields the whole answer as one message, so that nothing has to be withdrawn when an
// attempt is retried. To get the pieces as they arrive, watch the run (live.Watch).
//
// Messages are recorded as JSON, and the graph always gets messages decoded from JSON, even before
// the run is resumed. A value in Message.Extra therefore has the type that json.Unmarshal produces.
// A value that JSON cannot represent makes the call fail. Options that are specific to the model's
// implementation are applied, but are ignored when a call is compared with its record. Instructions
// and tools are also ignored, as they are for every LLM.
//
// Some services give several tool calls in a message the same ID, or none. The graph gets a message
// in which each call has its own ID. The model gets the service's IDs back.
//
// Model returns an error if the name is invalid or m is nil. It panics if an option is invalid.
func Model(name string, m model.ToolCallingChatModel, opts ...actors.Option) (model.ToolCallingChatModel, error) {
	if m == nil {
		return nil, errors.New("eino: Model got nil; want a model")
	}
	if err := core.CheckName(name); err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	return &chatModel{inner: m, llm: actors.NewLLM(name, ask, opts...)}, nil
}

type chatModel struct {
	inner model.ToolCallingChatModel
	llm   actors.LLM
	infos []*schema.ToolInfo
	tools map[string]*durableTool // the durable tools among infos
}

// requestKey is the context key for the function that makes an attempt's request and returns the
// answer.
type requestKey struct{}

// ask is the handler for all models.
func ask(ctx context.Context, _ actors.Request) (actors.Response, error) {
	answer, ok := ctx.Value(requestKey{}).(func(context.Context) (*schema.Message, error))
	if !ok {
		return actors.Response{}, core.Permanent(errors.New("eino: the model was called outside a graph"))
	}
	msg, err := answer(ctx)
	if err != nil {
		return actors.Response{}, err
	}
	return responseOf(msg)
}

// Generate implements [model.BaseChatModel].
func (m *chatModel) Generate(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	input = withOriginalIDs(input)
	return m.call(ctx, input, opts, func(ctx context.Context) (*schema.Message, error) { return m.inner.Generate(ctx, input, opts...) })
}

// Stream implements [model.BaseChatModel].
func (m *chatModel) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	input = withOriginalIDs(input)
	msg, err := m.call(ctx, input, opts, func(ctx context.Context) (*schema.Message, error) {
		stream, err := m.inner.Stream(ctx, input, opts...)
		if err != nil {
			return nil, err
		}
		return collect(ctx, stream)
	})
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{msg}), nil
}

// call makes the call and prepares the tool calls in the answer.
func (m *chatModel) call(ctx context.Context, input []*schema.Message, opts []model.Option, answer func(context.Context) (*schema.Message, error)) (*schema.Message, error) {
	req, err := requestOf(input, m.infos, opts)
	if err != nil {
		return nil, err
	}
	resp, err := m.llm.Call(context.WithValue(ctx, requestKey{}, answer), req)
	if err != nil {
		return nil, err
	}
	var msg schema.Message
	if err := json.Unmarshal(resp.Raw, &msg); err != nil {
		return nil, fmt.Errorf("eino: the recorded answer of %s is not a message: %w", m.llm.Name(), err)
	}
	makeIDsUnique(msg.ToolCalls)
	for _, c := range msg.ToolCalls {
		if t := m.tools[c.Function.Name]; t != nil {
			t.prepare(ctx, c.ID, c.Function.Arguments)
		}
	}
	return &msg, nil
}

// WithTools implements [model.ToolCallingChatModel].
func (m *chatModel) WithTools(infos []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	with := &chatModel{llm: m.llm, infos: make([]*schema.ToolInfo, len(infos)), tools: make(map[string]*durableTool)}
	for i, info := range infos {
		with.infos[i] = info
		if info == nil {
			continue
		}
		if t, ok := info.Extra[extraKey].(*durableTool); ok {
			with.infos[i], with.tools[info.Name] = t.info, t
		}
	}
	var err error
	with.inner, err = m.inner.WithTools(with.infos)
	return with, err
}

// GetType implements [components.Typer].
func (m *chatModel) GetType() string {
	name, _ := components.GetType(m.inner)
	return name
}

// IsCallbacksEnabled implements [components.Checker]. If the model runs its callbacks
// itself, it does so in each attempt; otherwise the graph runs them around the call.
func (m *chatModel) IsCallbacksEnabled() bool { return components.IsCallbacksEnabled(m.inner) }

// collect returns the message whose pieces a stream contains. It emits the pieces as deltas for
// those who watch the run.
func collect(ctx context.Context, stream *schema.StreamReader[*schema.Message]) (*schema.Message, error) {
	defer stream.Close()
	emit := live.Emitter(ctx)
	var pieces []*schema.Message
	for {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && len(pieces) == 0:
			return nil, core.Retryable(errors.New("eino: the model's stream ended without a message"))
		case errors.Is(err, io.EOF):
			return schema.ConcatMessages(pieces)
		case err != nil:
			return nil, err
		case piece == nil:
			continue
		}
		pieces = append(pieces, piece)
		if emit != nil {
			show(emit, piece)
		}
	}
}

func show(emit func(live.Delta), piece *schema.Message) {
	if piece.ReasoningContent != "" {
		emit(live.Delta{Part: live.PartReasoning, Text: piece.ReasoningContent})
	}
	if piece.Content != "" {
		emit(live.Delta{Part: live.PartText, Text: piece.Content})
	}
	for i, c := range piece.ToolCalls {
		if c.Index != nil {
			i = *c.Index
		}
		emit(live.Delta{Part: live.PartToolCall, Index: i, Name: c.Function.Name, Text: c.Function.Arguments})
	}
}
