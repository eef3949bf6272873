package otel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/core"
)

// attempt is the interceptor for all attempts. The spans of an attempt and its call end when their
// records are published, since the records contain the results.
func (t *Telemetry) attempt(ctx context.Context, info *core.CallInfo, next func(context.Context) error) error {
	ctx, span := t.begin(ctx, info)
	err := next(ctx)
	if err == nil && span != nil && t.options.Content {
		t.showOutput(span, info)
	}
	return err
}

// begin starts an attempt's span, and also the span of the attempt's call if that span has not
// started yet. It returns the context for the handler, and the call's span, which is nil outside
// a run.
func (t *Telemetry) begin(outside context.Context, info *core.CallInfo) (ctx context.Context, span trace.Span) {
	ctx = outside
	defer recoverPanic()
	r := t.run(info.RunID)
	if r == nil {
		return ctx, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[info.Address]
	var around context.Context
	if c == nil {
		c = new(call)
		c.attempts = c.room[:0]
		around, c.span = t.startCall(outside, r, info)
		r.calls[info.Address] = c
	} else {
		around = trace.ContextWithSpan(outside, c.span)
	}
	inside, s := t.tracer.Start(around, "attempt", t.attemptOptions.of(info.Number)...)
	c.attempts = append(c.attempts, attempt{info.Number, s})
	return inside, c.span
}

// startCall starts a call's span as a child of the attempt that makes the call. If the context
// contains a span from another trace, such as the span of a request in this process, the new span
// is linked to that span.
func (t *Telemetry) startCall(ctx context.Context, r *run, info *core.CallInfo) (context.Context, trace.Span) {
	a := t.actors.of(info.Kind, info.Name)
	options := a.start
	if around := trace.SpanContextFromContext(ctx); around.TraceID() != r.span.SpanContext().TraceID() {
		ctx = trace.ContextWithSpan(ctx, r.span)
		if around.IsValid() {
			options = append(slices.Clip(options), trace.WithLinks(trace.Link{SpanContext: around, Attributes: []attribute.KeyValue{linkKey.String("caller")}}))
		}
	}
	ctx, span := t.tracer.Start(ctx, a.span, options...)
	if t.options.Content && span.IsRecording() {
		t.showInput(span, info)
	}
	return ctx, span
}
