package actors_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// errBoom is an error that tests return and then look for in the failure of a call.
var errBoom = errors.New("boom")

// script is a fake LLM that answers with its responses, one after another, and records its
// requests.
type script struct {
	mu        sync.Mutex
	responses []actors.Response
	requests  []actors.Request
}

func newScript(responses ...actors.Response) *script { return &script{responses: responses} }

// llm returns the actor, named "model".
func (s *script) llm(opts ...actors.Option) actors.LLM {
	return actors.NewLLM("model", s.respond, opts...)
}

func (s *script) respond(_ context.Context, req actors.Request) (actors.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	if len(s.responses) == 0 {
		return actors.Response{}, core.Permanent(errors.New("the script is over"))
	}
	next := s.responses[0]
	s.responses = s.responses[1:]
	return next, nil
}

func (s *script) asked() []actors.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// results returns the messages sent to the model since its own latest message.
func (s *script) results() []actors.Message {
	requests := s.asked()
	messages := requests[len(requests)-1].Messages
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == actors.RoleAssistant {
			return messages[i+1:]
		}
	}
	return messages
}

func says(text string) actors.Response {
	return actors.Response{Message: actors.Assistant(text)}
}

// asks returns a response that asks for the calls, which get the IDs 1, 2, …
func asks(calls ...actors.ToolCall) actors.Response {
	for i := range calls {
		calls[i].ID = strconv.Itoa(i + 1)
	}
	return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: calls}}
}

func call(name, arguments string) actors.ToolCall {
	return actors.ToolCall{Name: name, Arguments: arguments}
}

func using(u core.Usage, r actors.Response) actors.Response {
	r.Usage = u
	return r
}

// errorResult returns the message that tells the model about a failure.
func errorResult(id, text string) actors.Message {
	return actors.Message{Role: actors.RoleTool, ToolCallID: id, Text: "error: " + text, IsError: true}
}

// number is the input of most tools in these tests.
type number struct {
	N int `json:"n"`
}

// upTo returns the inputs 1 … n.
func upTo(n int) []number {
	inputs := make([]number, n)
	for i := range inputs {
		inputs[i].N = i + 1
	}
	return inputs
}

// echo returns a tool that returns its number.
func echo() actors.Tool[number, int] {
	return decorators.Tool("echo", "", func(_ context.Context, in number) (int, error) { return in.N, nil })
}

// block returns a tool that waits until its context ends, but for at most an hour.
func block() actors.Tool[number, int] {
	return decorators.Tool("block", "", func(ctx context.Context, in number) (int, error) {
		return in.N, testkit.Pause(ctx, time.Hour)
	})
}

// gauge counts the goroutines between enter and leave: the current number, the maximum and the
// total.
type gauge struct{ now, most, total atomic.Int64 }

func (g *gauge) enter() (leave func()) {
	g.total.Add(1)
	now := g.now.Add(1)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); {
		most = g.most.Load()
	}
	return func() { g.now.Add(-1) }
}

// settled lists the calls as "address status", in the order in which they ended.
func settled(t testing.TB, st *state.ExecutionState) []string {
	var lines []string
	for _, r := range testkit.Records(t, st) {
		if r.IsOutcome() || r.IsSuspension() {
			lines = append(lines, r.Address.String()+" "+r.Status.String())
		}
	}
	return lines
}

// addresses lists the calls in the order in which they began.
func addresses(t testing.TB, st *state.ExecutionState) []string {
	var all []string
	for _, r := range testkit.Records(t, st) {
		if r.Kind.IsCall() && r.Status == record.StatusStarted && r.Attempt == 0 {
			all = append(all, r.Address.String())
		}
	}
	return all
}

// recordOf returns the record that ended or suspended a call.
func recordOf(t *testing.T, st *state.ExecutionState, address string) record.Record {
	t.Helper()
	for _, r := range testkit.Records(t, st) {
		if (r.IsOutcome() || r.IsSuspension()) && r.Address.String() == address {
			return r
		}
	}
	t.Fatalf("call %s has not ended; the calls that have ended are %q", address, settled(t, st))
	return record.Record{}
}

// both runs a test once outside a run and once in a run, each time in a synctest bubble.
func both(t *testing.T, claim func(t *testing.T, ctx context.Context)) {
	t.Helper()
	t.Run("outside a run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { claim(t, t.Context()) })
	})
	t.Run("in a run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			claim(t, ctx)
		})
	})
}
