package eino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// Tool returns a tool whose calls are recorded in the run that their context contains. The options
// are those for tools in package actors, such as actors.WithApproval. Like t, the result is an
// invokable tool, a streamable tool (whose stream yields the whole result as one piece), or an
// enhanced invokable tool. Tool returns an error if t cannot be used. It panics if an option is
// invalid.
//
// If a ToolsNode changes the arguments that a model gave, t gets the changed arguments, while
// records and questions contain the model's arguments. In an approval, too, the arguments are a
// string that contains JSON, such as actors.ApproveWith(`{"name":"max"}`).
func Tool(ctx context.Context, t tool.BaseTool, opts ...actors.Option) (tool.BaseTool, error) {
	if t == nil {
		return nil, errors.New("eino: Tool got nil; want a tool")
	}
	info, err := t.Info(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("eino: get the description of a tool: %w", err)
	case info == nil:
		return nil, fmt.Errorf("eino: a %T has no description", t)
	}
	if err := actors.CheckFunctionName(info.Name); err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	d := &durableTool{inner: t, info: info, prepared: make(map[callKey][]preparedCall)}
	d.tool = actors.NewTool(info.Name, info.Desc, argumentsSchema{}, execute, opts...)
	switch t := t.(type) {
	case tool.InvokableTool:
		return invokable{d, t}, nil
	case tool.EnhancedInvokableTool:
		return enhancedTool{d, t}, nil
	case tool.StreamableTool:
		return streamable{d, t}, nil
	}
	return nil, fmt.Errorf("eino: tool %q is a %T; want a tool.InvokableTool, StreamableTool or EnhancedInvokableTool", info.Name, t)
}

// Tools makes each of the tools durable, with the same options.
func Tools(ctx context.Context, tools []tool.BaseTool, opts ...actors.Option) ([]tool.BaseTool, error) {
	all := make([]tool.BaseTool, len(tools))
	for i, t := range tools {
		var err error
		if all[i], err = Tool(ctx, t, opts...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A durableTool is the part that all durable tools have in common.
type durableTool struct {
	inner tool.BaseTool
	info  *schema.ToolInfo
	tool  actors.Tool[string, string]

	mu        sync.Mutex // guards the fields below
	prepared  map[callKey][]preparedCall
	cleanupAt int // when prepared has more keys than this, obsolete ones are removed
}

// A callKey identifies a tool call that a model has requested. The scope is needed because models
// in parallel branches of a graph may use the same ID.
type callKey struct {
	scope *core.Scope
	id    string
}

// A preparedCall is a tool call that already has its place in the run, together with the arguments
// that the model gave.
type preparedCall struct {
	call      *core.PreparedCall[string, string] // nil if there is no prepared call
	arguments string
}

// An argumentsSchema is the schema of a durable tool, whose input is a string. Models get the
// schema of the inner tool instead.
type argumentsSchema struct{}

// JSON implements [actors.Schema].
func (argumentsSchema) JSON() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// Validate implements [actors.Schema] for the arguments in an approval. The inner tool checks them.
func (argumentsSchema) Validate(arguments json.RawMessage) error {
	var text string
	if err := json.Unmarshal(arguments, &text); err != nil || !json.Valid([]byte(text)) {
		return errors.New("want a string that contains JSON")
	}
	return nil
}

// extraKey is the key under which a tool's description holds the durable tool, so that models can
// find it.
const extraKey = "reprise.tool"

// Info implements [tool.BaseTool].
func (d *durableTool) Info(context.Context) (*schema.ToolInfo, error) {
	info := *d.info
	if info.Extra = maps.Clone(info.Extra); info.Extra == nil {
		info.Extra = make(map[string]any, 1)
	}
	info.Extra[extraKey] = d
	return &info, nil
}

// GetType implements [components.Typer].
func (d *durableTool) GetType() string {
	name, _ := components.GetType(d.inner)
	return name
}

// IsCallbacksEnabled implements [components.Checker]. It works like the same method of a durable
// model.
func (d *durableTool) IsCallbacksEnabled() bool { return components.IsCallbacksEnabled(d.inner) }

// prepare assigns a place in the run to a tool call that a model has requested. This happens
// before any tool call in the same message is made.
func (d *durableTool) prepare(ctx context.Context, id, arguments string) {
	scope := core.ScopeOf(ctx)
	if scope == nil || scope.RunID() == "" {
		return
	}
	p := d.tool.Event().Prepare(ctx, arguments)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.prepared) > d.cleanupAt { // some calls belong to ended attempts whose graphs never made them
		maps.DeleteFunc(d.prepared, func(at callKey, _ []preparedCall) bool { return at.scope.Closed() })
		d.cleanupAt = 2*len(d.prepared) + 16
	}
	at := callKey{scope, id}
	d.prepared[at] = append(d.prepared[at], preparedCall{p, arguments})
}

// take removes and returns the prepared call for the tool call in ctx, if there is one. If there
// are several, it takes the latest one with the given arguments or, if the graph has changed the
// arguments, the latest of all.
func (d *durableTool) take(ctx context.Context, arguments string) preparedCall {
	at := callKey{core.ScopeOf(ctx), compose.GetToolCallID(ctx)}
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.prepared[at]
	if len(calls) == 0 {
		return preparedCall{}
	}
	i := len(calls) - 1
	for j, p := range calls {
		if p.arguments == arguments {
			i = j
		}
	}
	p := calls[i]
	if d.prepared[at] = slices.Delete(calls, i, i+1); len(calls) == 1 {
		delete(d.prepared, at)
	}
	return p
}

// runKey is the context key for the function that each attempt of a tool call executes.
type runKey struct{}

// execute is the handler for all tools.
func execute(ctx context.Context, arguments string) (string, error) {
	f, ok := ctx.Value(runKey{}).(func(context.Context, string) (string, error))
	if !ok {
		return "", core.Permanent(errors.New("eino: the tool was called outside a graph"))
	}
	return f(ctx, arguments)
}

func (d *durableTool) call(ctx context.Context, arguments string, f func(context.Context, string) (string, error)) (string, error) {
	p := d.take(ctx, arguments)
	if p.call == nil {
		return d.tool.Call(context.WithValue(ctx, runKey{}, f), arguments)
	}
	return p.call.Execute(context.WithValue(ctx, runKey{}, func(ctx context.Context, input string) (string, error) {
		if input == p.arguments { // otherwise, the person who approved the call changed them
			input = arguments
		}
		return f(ctx, input)
	}))
}

type invokable struct {
	*durableTool
	t tool.InvokableTool
}

// InvokableRun implements [tool.InvokableTool].
func (i invokable) InvokableRun(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
	return i.call(ctx, arguments, func(ctx context.Context, arguments string) (string, error) {
		return i.t.InvokableRun(ctx, arguments, opts...)
	})
}

type streamable struct {
	*durableTool
	t tool.StreamableTool
}

// StreamableRun implements [tool.StreamableTool].
func (s streamable) StreamableRun(ctx context.Context, arguments string, opts ...tool.Option) (*schema.StreamReader[string], error) {
	out, err := s.call(ctx, arguments, func(ctx context.Context, arguments string) (string, error) {
		stream, err := s.t.StreamableRun(ctx, arguments, opts...)
		if err != nil {
			return "", err
		}
		return join(stream)
	})
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]string{out}), nil
}

type enhancedTool struct {
	*durableTool
	t tool.EnhancedInvokableTool
}

// InvokableRun implements [tool.EnhancedInvokableTool].
func (e enhancedTool) InvokableRun(ctx context.Context, argument *schema.ToolArgument, opts ...tool.Option) (*schema.ToolResult, error) {
	if argument == nil {
		argument = new(schema.ToolArgument)
	}
	out, err := e.call(ctx, argument.Text, func(ctx context.Context, arguments string) (string, error) {
		result, err := e.t.InvokableRun(ctx, &schema.ToolArgument{Text: arguments}, opts...)
		if err != nil {
			return "", err
		}
		document, err := json.Marshal(result)
		if err != nil {
			return "", core.Permanent(fmt.Errorf("eino: the result of %s cannot be recorded: %w", e.info.Name, err))
		}
		return string(document), nil
	})
	if err != nil {
		return nil, err
	}
	result := new(schema.ToolResult)
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		return nil, fmt.Errorf("eino: the recorded result of %s is not a tool result: %w", e.info.Name, err)
	}
	return result, nil
}

// join concatenates the pieces of a stream.
func join(stream *schema.StreamReader[string]) (string, error) {
	defer stream.Close()
	var all strings.Builder
	for {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return all.String(), nil
		case err != nil:
			return "", err
		}
		all.WriteString(piece)
	}
}
