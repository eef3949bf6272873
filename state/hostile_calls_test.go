package state_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Faults in users' code and in remote services fail a call, never the process.

// typedNil returns an error that is not nil but contains a nil pointer, whose
// methods panic: a common mistake.
func typedNil() error {
	var e *url.Error
	return e
}

func returnTypedNil(context.Context) (string, error) { return "", typedNil() }

func TestTypedNilErrorIsAFailure(t *testing.T) {
	st := state.New()
	defer st.Close()
	ctx := st.Context(t.Context())
	t.Run("of a tool", func(t *testing.T) {
		_, err := newTool("fetch", returnTypedNil).Call(ctx, item{})
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
	})
	t.Run("of a precondition", func(t *testing.T) {
		tool := newTool("fetch", succeed).Require(func(context.Context, item) error { return typedNil() })
		_, err := tool.Call(ctx, item{})
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
	})
	t.Run("of a branch", func(t *testing.T) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, returnTypedNil)
		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
	})
}

func TestTypedNilErrorOfTheCheckerChangesNothing(t *testing.T) {
	st := state.New(state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) { return nil, typedNil() }))
	defer st.Close()
	out, err := newTool("works", succeed).Call(st.Context(t.Context()), item{})
	require.NoError(t, err)
	assert.Equal(t, "done", out)
}

// For a run that was not interrupted, Handle.Interrupted returns a nil *InterruptedError, which is not
// nil as an error.
func TestTypedNilInterruptAsACauseInterruptsTheRun(t *testing.T) {
	st := state.New()
	ctx, cancel := context.WithCancelCause(t.Context())
	tool := newTool("wait", func(ctx context.Context) (string, error) {
		cancel(state.From(ctx).Interrupted())
		<-ctx.Done()
		return "", ctx.Err()
	})
	agent := decorators.Agent("agent", "", tool.Call)
	_, err := agent.Call(st.Context(ctx), item{})
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
}

type cyclicNode struct {
	Next *cyclicNode `json:"next"`
}

func newCycle() *cyclicNode {
	n := &cyclicNode{}
	n.Next = n
	return n
}

type valueBox struct {
	Content any `json:"content"`
}

func TestCyclicValueIsAnError(t *testing.T) {
	const points = "points to itself"
	st := state.New(state.WithPayloads())
	defer st.Close()
	ctx := st.Context(t.Context())
	selfish := map[string]any{}
	selfish["self"] = selfish

	t.Run("output", func(t *testing.T) {
		tool := decorators.Tool("make", "", func(context.Context, item) (*cyclicNode, error) { return newCycle(), nil })
		_, err := tool.Call(ctx, item{})
		require.ErrorContains(t, err, points)
	})
	t.Run("input", func(t *testing.T) {
		tool := decorators.Tool("take", "", func(context.Context, valueBox) (string, error) { return "", nil })
		_, err := tool.Call(ctx, valueBox{selfish})
		require.ErrorContains(t, err, points)
	})
	t.Run("value", func(t *testing.T) {
		require.ErrorContains(t, state.Put(ctx, "k", newCycle()), points)
	})
	t.Run("hash", func(t *testing.T) {
		_, err := record.HashOf(newCycle())
		require.ErrorContains(t, err, points)
	})
	t.Run("idempotency key", func(t *testing.T) {
		bare := state.New() // a run in memory does not encode inputs
		defer bare.Close()
		tool := decorators.Tool("pay", "", func(ctx context.Context, _ valueBox) (string, error) { return core.IdempotencyKey(ctx) })
		_, err := tool.Call(bare.Context(t.Context()), valueBox{selfish})
		require.ErrorContains(t, err, points)
	})
}

type panickingJSON struct{}

func (panickingJSON) MarshalJSON() ([]byte, error) { panic("hostile") }

func TestPanickingMetadataLosesNoRecord(t *testing.T) {
	st := state.New()
	defer st.Close()
	st.Log(slog.LevelInfo, "look", map[string]any{"k": panickingJSON{}})
	data, err := json.Marshal(lastRecord(t, st))
	require.NoError(t, err)
	assert.Contains(t, string(data), "look")
	assert.Contains(t, string(data), "hostile")
}

func TestCostThatIsNotANumberLosesNoRecord(t *testing.T) {
	for _, cost := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		st := state.New()
		tool := newTool("work", func(ctx context.Context) (string, error) {
			core.AddUsage(ctx, core.Usage{InputTokens: 7, Cost: cost})
			return "", nil
		})
		_, err := tool.Call(st.Context(t.Context()), item{})
		require.NoError(t, err)
		data, err := json.Marshal(lastRecord(t, st))
		require.NoError(t, err)
		assert.Contains(t, string(data), `"input_tokens":7`)
		require.NoError(t, st.Close())
	}
}

func TestRunIsClosedAlthoughAPublisherLeftItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		var told []record.Status
		st := state.New(state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Kind.IsCall() {
				once.Do(runtime.Goexit) // like t.FailNow
			}
			told = append(told, r.Status)
		})))
		ctx, gone := st.Context(t.Context()), make(chan struct{})
		go func() {
			defer close(gone)
			newTool("work", succeed).Call(ctx, item{})
		}()
		<-gone
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status(), "the call has no outcome")
		assert.EqualValues(t, 1, st.Report().PublisherPanics)
		assert.Equal(t, lastRecord(t, st).Status, told[len(told)-1], "later records are published")
	})
}

func TestLargestMaxAttemptsIsKeptAsItIsPublished(t *testing.T) {
	var published record.Record
	st := state.New(state.WithPublisher(testkit.Publisher(func(r record.Record) { published = r })))
	defer st.Close()
	tool := newTool("work", succeed, actors.WithRetry(core.RetryConfig{MaxAttempts: math.MaxInt}))
	_, err := tool.Call(st.Context(t.Context()), item{})
	require.NoError(t, err)
	assert.Equal(t, published.MaxAttempts, lastRecord(t, st).MaxAttempts)
	assert.Positive(t, published.MaxAttempts)
}

func TestGeneratedToolCallIDIsFree(t *testing.T) {
	server := openaitest.New(t, openaitest.Raw(http.StatusOK, `{"choices":[{"message":{"role":"assistant","tool_calls":[
		{"id":"call_2","type":"function","function":{"name":"a","arguments":"{}"}},
		{"id":"","type":"function","function":{"name":"b","arguments":"{}"}},
		{"id":"","type":"function","function":{"name":"c","arguments":"{}"}}]}}]}`))
	earlier := actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "call_3", Name: "a", Arguments: "{}"}}}
	result := actors.Message{Role: actors.RoleTool, ToolCallID: "call_3", Text: "ok"}
	resp, err := openai.New("m", openai.WithBaseURL(server.URL())).
		Call(t.Context(), actors.Request{Messages: []actors.Message{actors.User("x"), earlier, result}})
	require.NoError(t, err)
	taken := map[string]bool{"call_3": true}
	for _, call := range resp.Message.ToolCalls {
		assert.False(t, taken[call.ID], "%s calls have the ID %q", call.Name, call.ID)
		taken[call.ID] = true
	}
	assert.Len(t, taken, 4)
}
