package actors

import (
	"context"

	"github.com/reprise-go/reprise/core"
)

// An LLM is a language model: it continues a conversation. It is immutable and
// for many goroutines. Make one with openai.New, decorators.LLM or [NewLLM];
// calling the zero LLM is an error.
type LLM struct {
	definition *core.Definition[Request, Response]
}

// NewLLM makes an LLM of a handler. The usage of each response is counted for
// the call. It panics if the name or an option is invalid or the handler nil.
func NewLLM(name, description string, handler core.Handler[Request, Response], opts ...Option) LLM {
	counted := handler
	if handler != nil {
		counted = func(ctx context.Context, req Request) (Response, error) {
			resp, err := handler(ctx, req)
			if !resp.Usage.IsZero() {
				core.AddUsage(ctx, resp.Usage)
			}
			return resp, err
		}
	}
	return LLM{define(core.Spec{Kind: core.KindLLM, Name: name, Description: description}, counted, opts)}
}

// Call asks the model, see [core.ExecutionEvent.Execute].
func (l LLM) Call(ctx context.Context, req Request) (Response, error) {
	return l.definition.Event().Execute(ctx, req)
}

// Event returns a call that can be given a tag and a retry configuration of
// its own.
func (l LLM) Event() core.ExecutionEvent[Request, Response] { return l.definition.Event() }

// Require returns a copy with one more precondition.
func (l LLM) Require(condition func(context.Context, Request) error) LLM {
	return LLM{l.definition.Require(condition)}
}

// Ensure returns a copy with one more postcondition, such as that the answer
// is of a certain form: the model is asked again if it is not.
func (l LLM) Ensure(condition func(context.Context, Request, Response) error) LLM {
	return LLM{l.definition.Ensure(condition)}
}

// Name is that of the model; empty for the zero LLM.
func (l LLM) Name() string { return l.definition.Spec().Name }
