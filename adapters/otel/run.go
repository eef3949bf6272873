package otel

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// A run holds the spans of one opening of a run that have not ended.
type run struct {
	generation uint64
	span       trace.Span

	mu    sync.Mutex // guards the field below and the values in it
	calls map[record.Address]*call
}

// A call is a call in progress, beginning with its first attempt in this process.
type call struct {
	span     trace.Span
	attempts []attempt // attempts that have not ended
	room     [1]attempt
	usage    record.Usage
}

type attempt struct {
	number int // the number of the attempt, counted from 1
	span   trace.Span
}

// spanID is the key under which an opening stores the ID of its own span. The keys of W3C Trace
// Context hold the first span of the trace.
const spanID = "span_id"

// open starts an opening's span. The first opening begins a trace. The spans of later openings are
// children of the first opening's span.
func (t *Telemetry) open(ctx context.Context, o state.Opening) (attributes map[string]any) {
	defer recoverPanic()
	first := extract(texts(o.Before))
	options := []trace.SpanStartOption{trace.WithAttributes(runAttributes(&o)...), trace.WithLinks(links(ctx, &o, first)...)}
	if first.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, first)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	name := "run"
	if o.Program != "" {
		name = "run " + o.Program
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	r := &run{generation: o.Generation, span: span, calls: make(map[record.Address]*call)}
	t.mu.Lock()
	before := t.runs[o.RunID]
	t.runs[o.RunID] = r
	t.mu.Unlock()
	if before != nil { // the previous opening was not closed
		before.endAll()
		before.span.End()
	}
	own := span.SpanContext()
	if !own.IsValid() {
		return nil
	}
	if first.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, first)
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	attributes = map[string]any{spanID: own.SpanID().String()}
	for key, value := range carrier {
		attributes[key] = value
	}
	return attributes
}

// texts returns the string values of the attributes.
func texts(attributes map[string]any) map[string]string {
	found := make(map[string]string, len(attributes))
	for key, value := range attributes {
		if text, ok := value.(string); ok {
			found[key] = text
		}
	}
	return found
}

func runAttributes(o *state.Opening) []attribute.KeyValue {
	attributes := []attribute.KeyValue{runIDKey.String(o.RunID), generationKey.Int64(int64(o.Generation))} //nolint:gosec // small
	for _, kv := range []attribute.KeyValue{programKey.String(o.Program), versionKey.String(o.Version), pipelineKey.String(utf8Of(o.Metadata.Pipeline))} {
		if kv.Value.AsString() != "" {
			attributes = append(attributes, kv)
		}
	}
	return attributes
}

// links returns an opening's links: to the request that started the run, to the request that opened
// it, and to the previous opening.
func links(ctx context.Context, o *state.Opening, first trace.SpanContext) (links []trace.Link) {
	add := func(to trace.SpanContext, what string) {
		if to.IsValid() && !slices.ContainsFunc(links, func(l trace.Link) bool { return l.SpanContext.SpanID() == to.SpanID() }) {
			links = append(links, trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{linkKey.String(what)}})
		}
	}
	add(extract(o.Metadata.Custom), "request")
	add(trace.SpanContextFromContext(ctx), "request")
	text, _ := o.Before[spanID].(string)
	if id, err := trace.SpanIDFromHex(text); err == nil && first.IsValid() {
		add(first.WithSpanID(id), "previous generation")
	}
	return links
}

// end ends the run's span and the spans of calls whose handlers have not returned.
func (r *run) end(rec *record.Record) {
	at := trace.WithTimestamp(rec.Time)
	r.endAll(at)
	r.span.SetAttributes(statusKey.String(rec.Status.String()))
	if rec.Status == record.StatusFailed {
		r.span.SetAttributes(errorType(rec.Class))
		r.span.SetStatus(codes.Error, message(rec))
	}
	r.span.End(at)
}

// endAll ends the spans of calls that have not ended.
func (r *run) endAll(options ...trace.SpanEndOption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		for _, a := range c.attempts {
			a.span.End(options...)
		}
		c.span.End(options...)
	}
	clear(r.calls)
}
