package browser

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

// City is the input of the tools in these tests.
type City struct {
	Name string `json:"name"`
}

// begin opens a run with the publisher, and closes it at the end of the test.
func begin(t *testing.T, publisher state.Publisher, id string, options ...state.Option) *state.ExecutionState {
	t.Helper()
	st := state.New(append([]state.Option{state.WithRunID(id), state.WithPublisher(publisher), state.WithPayloads()}, options...)...)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// background runs f in a goroutine. f must return when the test ends, if not earlier.
func background(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t.Cleanup(func() { <-done })
}

// succeed calls a tool that returns immediately.
func succeed(t *testing.T, st *state.ExecutionState, name string) {
	t.Helper()
	tool := decorators.Tool(name, "returns", func(_ context.Context, in City) (string, error) { return "fine in " + in.Name, nil })
	_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
}

var errBusy = errors.New("the service is busy")

// waiting makes a call that fails once and then waits for its retry until the run
// ends.
func waiting(t *testing.T, st *state.ExecutionState, name string, delay time.Duration, err error) {
	t.Helper()
	failed := make(chan struct{})
	tool := decorators.Tool(name, "fails", func(context.Context, City) (string, error) {
		select {
		case <-failed:
		default:
			close(failed)
		}
		return "", err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: delay, MaxDelay: time.Hour, Jitter: core.NoJitter, MaxRetryAfter: time.Hour}))
	background(t, func() { _, _ = tool.Call(st.Context(t.Context()), City{"Oslo"}) })
	t.Cleanup(func() { _ = st.Close() })
	<-failed
}

// busy makes a call that runs until the run is interrupted or the test ends.
func busy(t *testing.T, st *state.ExecutionState, name string) {
	t.Helper()
	begun := make(chan struct{})
	tool := decorators.Tool(name, "runs", func(ctx context.Context, _ City) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", ctx.Err()
	})
	background(t, func() { _, _ = tool.Call(st.Context(t.Context()), City{"Oslo"}) })
	t.Cleanup(func() { _ = st.Close() })
	<-begun
}

// asking runs an agent that asks a question, which pauses the run.
func asking(t *testing.T, st *state.ExecutionState, question string) {
	t.Helper()
	askingFor[bool](t, st, question)
}

// askingFor is like asking, for an answer of type T.
func askingFor[T any](t *testing.T, st *state.ExecutionState, question string) {
	t.Helper()
	agent := decorators.Agent("clerk", "asks", func(ctx context.Context, _ City) (string, error) {
		_, err := core.Await[T](ctx, question)
		return "", err
	})
	_, err := agent.Call(st.Context(t.Context()), City{"Oslo"})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
}
