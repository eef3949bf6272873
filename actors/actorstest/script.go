package actorstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// T is the part of *testing.T and *testing.B that this package needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// A Step answers one request of a [Script].
type Step func(context.Context, actors.Request) (actors.Response, error)

// Say returns a step that answers with text and emits it word by word.
func Say(text string) Step {
	return func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		for _, word := range strings.SplitAfter(text, " ") {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		return actors.Response{Message: actors.Assistant(text)}, nil
	}
}

// Calls returns a step that answers with tool calls. Calls without an ID get the IDs call_1, call_2
// and so on, numbered across the whole conversation.
func Calls(calls ...actors.ToolCall) Step {
	return func(_ context.Context, req actors.Request) (actors.Response, error) {
		before := 0
		for _, msg := range req.Messages {
			before += len(msg.ToolCalls)
		}
		asked := slices.Clone(calls)
		for i := range asked {
			if asked[i].ID == "" {
				asked[i].ID = fmt.Sprintf("call_%d", before+i+1)
			}
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: asked}}, nil
	}
}

// Call returns a call to the named tool. If arguments is a string, it is sent
// unchanged, even if it is not well-formed; any other value is sent as JSON. Call
// panics if the value cannot be encoded.
func Call(name string, arguments any) actors.ToolCall {
	if text, ok := arguments.(string); ok {
		return actors.ToolCall{Name: name, Arguments: text}
	}
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("actorstest: Call(%q): %v", name, err))
	}
	return actors.ToolCall{Name: name, Arguments: string(data)}
}

// Fail returns a step that fails the attempt with err.
func Fail(err error) Step {
	return func(context.Context, actors.Request) (actors.Response, error) { return actors.Response{}, err }
}

// Using returns a step that gives the same response as s, but with usage u.
func (s Step) Using(u core.Usage) Step {
	return func(ctx context.Context, req actors.Request) (actors.Response, error) {
		resp, err := s(ctx, req)
		resp.Usage = u
		return resp, err
	}
}

// ErrScriptEnded is the error for a request that arrives after the last step.
var ErrScriptEnded = errors.New("actorstest: the script has ended")

// A Script is a language model that answers each request with its next step. It is
// safe for concurrent use; all goroutines share the steps.
type Script struct {
	t T

	mu       sync.Mutex
	steps    []Step
	played   int
	requests []actors.Request
}

// NewScript returns a script. A request after the last step fails permanently and is reported to t.
// Steps that remain when the test ends are also reported.
//
// Steps are used in the order in which requests arrive, whatever the requests contain. A resumed
// run does not repeat requests that have a recorded outcome, so a script for it must contain only
// the remaining steps. If the script started again from the first step, the agent would call its
// tools again.
func NewScript(t T, steps ...Step) *Script {
	t.Helper()
	s := &Script{t: t, steps: slices.Clone(steps)}
	t.Cleanup(func() {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.played < len(s.steps) {
			t.Errorf("actorstest: the script stopped before step %d of %d", s.played+1, len(s.steps))
		}
	})
	return s
}

// LLM returns an LLM whose requests the script answers.
func (s *Script) LLM(name string, opts ...actors.Option) actors.LLM {
	return actors.NewLLM(name, s.respond, opts...)
}

func (s *Script) respond(ctx context.Context, req actors.Request) (actors.Response, error) {
	step := s.take(req)
	if step == nil {
		s.t.Errorf("%v, but there is another request", ErrScriptEnded)
		return actors.Response{}, core.Permanent(ErrScriptEnded)
	}
	return step(ctx, req)
}

func (s *Script) take(req actors.Request) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	if s.played == len(s.steps) {
		return nil
	}
	s.played++
	return s.steps[s.played-1]
}

// Requests returns all requests to the model, in order.
func (s *Script) Requests() []actors.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Registered so that errors.Is also matches ErrScriptEnded in errors read from records.
func init() {
	record.RegisterError("actorstest.ErrScriptEnded", ErrScriptEnded)
}
