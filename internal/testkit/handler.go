package testkit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Handler is the handler of a [Definition].
type Handler = core.Handler[string, string]

// Definition is the actor that most tests call, with the input "in" and the
// output "out".
type Definition = core.Definition[string, string]

// Define returns the definition that core.NewDefinition makes. The spec must be
// valid.
func Define[In, Out any](t testing.TB, spec core.Spec, h core.Handler[In, Out]) *core.Definition[In, Out] {
	t.Helper()
	d, err := core.NewDefinition(spec, h)
	require.NoError(t, err)
	return d
}

// Tool returns a tool with the given retry configuration.
func Tool(t testing.TB, name string, retry core.RetryConfig, h Handler) *Definition {
	t.Helper()
	return Define(t, core.Spec{Kind: record.KindTool, Name: name, Retry: &retry}, h)
}

// Agent returns an agent with the given retry configuration.
func Agent(t testing.TB, name string, retry core.RetryConfig, h Handler) *Definition {
	t.Helper()
	return Define(t, core.Spec{Kind: record.KindAgent, Name: name, Retry: &retry}, h)
}

// Call executes d with the input "in".
func Call(ctx context.Context, d *Definition) (string, error) { return d.Event().Execute(ctx, "in") }

// Succeed is a handler that returns "out".
func Succeed(context.Context, string) (string, error) { return "out", nil }

// Fail returns a handler that always fails.
func Fail(err error) Handler {
	return func(context.Context, string) (string, error) { return "", err }
}

// Failing returns a handler that fails the given number of times and then
// succeeds.
func Failing(times int, err error) Handler {
	var n atomic.Int64
	return func(context.Context, string) (string, error) {
		if n.Add(1) <= int64(times) {
			return "", err
		}
		return "out", nil
	}
}

// Attempts returns a handler that uses the next of the given handlers for each attempt, and the
// last one for all further attempts.
func Attempts(handlers ...Handler) Handler {
	var n atomic.Int64
	return func(ctx context.Context, in string) (string, error) {
		return handlers[min(int(n.Add(1)), len(handlers))-1](ctx, in)
	}
}

// Counted returns a handler that calls h and counts its calls in n.
func Counted(n *int, h Handler) Handler {
	return func(ctx context.Context, in string) (string, error) {
		*n++
		return h(ctx, in)
	}
}

// Listening returns a handler that succeeds after d, or fails if its context
// ends earlier.
func Listening(d time.Duration) Handler {
	return func(ctx context.Context, _ string) (string, error) {
		if err := Pause(ctx, d); err != nil {
			return "", err
		}
		return "out", nil
	}
}

// Deaf returns a handler that succeeds after d and ignores its context.
func Deaf(d time.Duration) Handler {
	return func(context.Context, string) (string, error) {
		<-time.After(d)
		return "out", nil
	}
}
