package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// An LLM is a language model: it continues a conversation. It is immutable and safe
// for concurrent use. Make one with openai.New, decorators.LLM or [NewLLM]; calling
// the zero LLM is an error.
type LLM struct {
	definition *core.Definition[Request, Response]
}

// NewLLM returns an LLM with the given handler. The usage of each response is added to the call,
// unless the handler calls another LLM, which has already counted it. Each attempt is annotated
// (see [core.Annotate]). The attributes are those that [ModelOptions.Annotate] takes from the
// request; model, response_id and finish from the response; and, if the answer is streamed,
// first_token, the time until the first delta. NewLLM panics if the name or an option is invalid,
// or if the handler is nil.
func NewLLM(name string, handler core.Handler[Request, Response], opts ...Option) LLM {
	observed := handler
	if handler != nil {
		observed = func(ctx context.Context, req Request) (Response, error) {
			growStack(0)
			req.digests = nil // these hashes are not for calls that the handler makes with req
			req, err := withData(ctx, req)
			if err != nil {
				return Response{}, err
			}
			req.Options.Annotate(ctx)
			resp, err := callWithDeltas(ctx, req, handler)
			if !resp.Usage.IsZero() && core.UsageOfCalls(ctx).IsZero() {
				core.AddUsage(ctx, resp.Usage)
			}
			annotate(ctx, &resp)
			return resp, err
		}
	}
	return LLM{define(applyTyped(core.Spec{Kind: record.KindLLM, Name: name}, opts), observed)}
}

// callWithDeltas calls an LLM's handler and emits deltas for the beginning and the end of the
// attempt. If the handler itself emits no deltas, the answer is also emitted.
func callWithDeltas(ctx context.Context, req Request, handler core.Handler[Request, Response]) (Response, error) {
	emit := live.Emitter(ctx)
	if emit == nil {
		return handler(ctx, req)
	}
	emit(live.Delta{Part: live.PartBegin})
	defer emit(live.Delta{Part: live.PartEnd})
	var pieces atomic.Int64
	began := time.Now()
	resp, err := handler(live.Watch(ctx, func(d live.Delta) {
		if d.Part != live.PartBegin && d.Part != live.PartEnd && pieces.Add(1) == 1 {
			core.Annotate(ctx, "first_token", time.Since(began))
		}
	}), req)
	if err != nil || pieces.Load() > 0 {
		return resp, err
	}
	if resp.Message.Reasoning != "" {
		emit(live.Delta{Part: live.PartReasoning, Text: resp.Message.Reasoning})
	}
	if resp.Message.Text != "" {
		emit(live.Delta{Part: live.PartText, Text: resp.Message.Text})
	}
	for i, call := range resp.Message.ToolCalls {
		emit(live.Delta{Part: live.PartToolCall, Index: i, Name: call.Name, ID: call.ID, Text: call.Arguments})
	}
	return resp, nil
}

// Call asks the model; see [core.ExecutionEvent.Execute].
func (l LLM) Call(ctx context.Context, req Request) (Response, error) {
	return l.definition.Event().Execute(ctx, req)
}

// Event returns a call that can be given its own tag and retry configuration.
func (l LLM) Event() core.ExecutionEvent[Request, Response] { return l.definition.Event() }

// Require returns a copy of the LLM with one more precondition.
func (l LLM) Require(condition func(context.Context, Request) error) LLM {
	return LLM{l.definition.Require(condition)}
}

// Ensure returns a copy of the LLM with one more postcondition, for example about the form of the
// answer. If condition returns an error, the model is asked again. The condition is not checked for
// a response that asks for tools, since that is not yet an answer.
func (l LLM) Ensure(condition func(context.Context, Request, Response) error) LLM {
	if condition == nil {
		return LLM{l.definition.Ensure(nil)} // panics with a message
	}
	return LLM{l.definition.Ensure(func(ctx context.Context, req Request, resp Response) error {
		if len(resp.Message.ToolCalls) > 0 || resp.Finish == FinishMalformedCall {
			return nil
		}
		return condition(ctx, req, resp)
	})}
}

// Compensate returns a copy of the LLM whose completed calls are undone by f; see
// [Tool.Compensate].
func (l LLM) Compensate(f func(context.Context, Request, Response) error) LLM {
	return LLM{l.definition.Compensate(f)}
}

// CompensateInDoubt returns a copy of the LLM whose calls in doubt are undone by f; see
// [Tool.CompensateInDoubt].
func (l LLM) CompensateInDoubt(f func(context.Context, Request) error) LLM {
	return LLM{l.definition.CompensateInDoubt(f)}
}

// Compensations returns the model's compensation, if any.
func (l LLM) Compensations() []*core.Compensation { return l.definition.Compensations() }

// Name returns the model's name, or "" for the zero LLM.
func (l LLM) Name() string { return l.definition.Spec().Name }
