package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// WithServers gives an agent the tools of the clients' servers. In every call to the agent, listing
// a server's tools is a step, named "tools of" and the client's name. A resumed run therefore sees
// the same tools as before, and a replay needs no server. A run's tools do not change when a server
// announces new tools. If a server cannot list its tools, the agent's call fails.
//
// WithServers panics if a client is nil or if two clients have the same name.
func WithServers(clients ...*Client) actors.Option {
	names := make(map[string]bool)
	for i, c := range clients {
		if c == nil {
			panic(fmt.Sprintf("mcp: WithServers: client %d is nil", i+1))
		}
		if names[c.name] {
			panic(fmt.Sprintf("mcp: WithServers: two clients are named %q; a model could not tell their tools apart", c.name))
		}
		names[c.name] = true
	}
	return actors.WithToolsFunc(func(ctx context.Context) ([]actors.Function, error) {
		var all []actors.Function
		for _, c := range clients {
			tools, err := c.Tools(ctx)
			if err != nil {
				return nil, err
			}
			all = append(all, tools...)
		}
		return all, nil
	})
}

// Tools returns the server's tools. Inside a run, listing them is a step: the list is recorded, and
// a resumed run does not request it again. Options.OnSchema specifies how to handle a tool whose
// schema cannot be used. If two tools have the same name, Tools returns an error.
//
// What happens to a lost call depends on the tool, and on whether its hints are trusted:
//
//	                                lost after it was sent,  our process
//	                                or timed out             ended
//	readOnlyHint, idempotentHint    made again               made again
//	any other                       in doubt: the run asks   the run asks
//	any, if it was not sent         made again
//
// A server made with this package runs a call only once for each idempotency key, and announces
// this. If such a server is trusted, all its tools count as idempotent. A tool that may be
// destructive is also irreversible; see [actors.WithIrreversible]. Errors from a tool or the server
// are permanent, and the model sees them.
func (c *Client) Tools(ctx context.Context) ([]actors.Function, error) {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindStep, Name: "tools of " + c.name, Retry: &core.RetryConfig{}},
		func(ctx context.Context, _ struct{}) (listing, error) { return c.list(ctx) })
	if err != nil {
		return nil, err
	}
	l, err := d.Event().Execute(ctx, struct{}{})
	if err != nil {
		return nil, err
	}
	var tools []actors.Function
	for i := range l.Tools {
		if l.Tools[i].LeftOut == "" {
			tools = append(tools, c.tool(&l.Tools[i], l.Tasks))
		}
	}
	return tools, nil
}

// List returns the tools that the server currently lists, including those that are hidden from
// models.
func (c *Client) List(ctx context.Context) ([]ListedTool, error) {
	l, err := c.list(ctx)
	return l.Tools, err
}

// tool returns a listed tool in the form that agents use.
func (c *Client) tool(l *ListedTool, tasks bool) actors.Function {
	schema := schemaOf(l)
	var more []actors.Option
	if c.options.ToolOptions != nil {
		more = c.options.ToolOptions(*l)
	}
	if tasks {
		return actors.NewTool(l.Name, l.Description, schema, c.taskHandler(l), append([]actors.Option{actors.WithRetry(core.RetryConfig{MaxAttempts: 1})}, more...)...)
	}
	own := []actors.Option{actors.WithAttemptTimeout(core.NoTimeout)} // the handler applies its own timeout, after which the call is in doubt
	if !l.isSafe() {
		own = append(own, actors.WithInDoubt(c.options.InDoubt))
	}
	if l.isIrreversible() {
		own = append(own, actors.WithIrreversible())
	}
	return actors.NewTool(l.Name, l.Description, schema, func(ctx context.Context, arguments json.RawMessage) (actors.ToolOutput, error) {
		r, err := c.call(ctx, l, arguments)
		if err != nil {
			return actors.ToolOutput{}, err
		}
		var out actors.ToolOutput
		if r.ResultType == "task" {
			out, err = c.pollUnrecorded(ctx, r)
		} else {
			out, err = r.output(c.options.ForUsers)
		}
		return out, l.inDoubt(err)
	}, append(own, more...)...)
}

// isSafe reports whether a lost call may be made again without asking.
func (l *ListedTool) isSafe() bool { return l.ReadOnly || l.Idempotent }

// isIrreversible reports whether a call's effect must not be repeated by
// another call.
func (l *ListedTool) isIrreversible() bool { return l.Destructive && !l.isSafe() }

// call calls a tool on the server.
func (c *Client) call(ctx context.Context, l *ListedTool, arguments json.RawMessage) (*rawResult, error) {
	core.Annotate(ctx, "mcp.server", c.name)
	core.Annotate(ctx, "mcp.tool", l.ServerName)
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	if err := c.learnHeaders(ctx, l); err != nil {
		return nil, err
	}
	raw, err := c.request(ctx, "", func(ctx context.Context, s *session, token string) error {
		meta := sdk.Meta{"progressToken": token}
		maps.Copy(meta, keyOf(ctx))
		_, err := s.client.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: l.ServerName, Arguments: arguments})
		return err
	})
	if err != nil {
		return nil, l.inDoubt(err)
	}
	r, err := readResult(raw)
	return r, l.inDoubt(err)
}

// learnHeaders lists the tools in a session that has not listed them yet, if some of the tool's
// arguments must also be sent as headers. The SDK learns from the list which headers to send. A
// resumed run uses the recorded list, so without learnHeaders, the tool would be called without the
// headers, and the server would refuse the call.
func (c *Client) learnHeaders(ctx context.Context, l *ListedTool) error {
	if !strings.Contains(l.Schema, `"x-mcp-header"`) {
		return nil
	}
	s, err := c.acquire(ctx)
	if err != nil {
		return notSentError(err)
	}
	_, isListed := s.pages.Load("")
	isHTTP := s.process == nil
	c.release(s, false)
	if isListed || !isHTTP {
		return nil
	}
	_, err = c.list(ctx)
	if errors.Is(err, ErrLost) {
		return core.Retryable(err) // a list changes nothing
	}
	return err
}

// keyMeta is the key under which a request's metadata contains the call's idempotency key. It is
// also the name of the extension that servers announce if they run a call only once for each key.
// Servers made with this package announce it.
const keyMeta = "io.github.reprise-go/idempotencyKey"

// keyOf returns metadata with the call's idempotency key, or nil outside a run.
func keyOf(ctx context.Context) map[string]any {
	key, err := core.IdempotencyKey(ctx)
	if err != nil {
		return nil
	}
	return map[string]any{keyMeta: key}
}

// schemaOf returns a tool's schema for models. A schema that cannot be used is passed on unchecked.
func schemaOf(l *ListedTool) actors.Schema {
	schema, err := actors.ParseSchema([]byte(l.Schema))
	if err != nil {
		return uncheckedSchema(l.Schema)
	}
	return schema
}

// uncheckedSchema is a schema whose validation is left to the server.
type uncheckedSchema string

// JSON implements actors.Schema.
func (u uncheckedSchema) JSON() json.RawMessage { return json.RawMessage(u) }

// Validate implements actors.Schema. It accepts any object.
func (u uncheckedSchema) Validate(arguments json.RawMessage) error {
	var object map[string]json.RawMessage
	return json.Unmarshal(arguments, &object)
}

// withTimeout limits a request's duration.
func (c *Client) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.options.CallTimeout == core.NoTimeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.options.CallTimeout, fmt.Errorf("no response within %v", c.options.CallTimeout))
}
