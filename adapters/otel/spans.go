package otel

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/record"
)

// spans holds the open spans of an open run.
type spans struct {
	run   context.Context //nolint:containedctx // OpenTelemetry keeps a span in a context
	calls map[record.Address]*call
	paths map[string]*call // by the scope path of each attempt
}

// A call is a call that has not ended.
type call struct {
	ctx    context.Context      //nolint:containedctx // as above
	paths  []string             // scope paths of its attempts
	failed []attribute.KeyValue // attributes of the failed attempt that will be retried
}

// span starts or ends the span that the record belongs to.
func (t *Telemetry) span(rec *record.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.runs[rec.RunID]
	switch {
	case rec.Kind == record.KindRun && rec.Status == record.StatusStarted:
		t.begin(rec)
	case s == nil:
	case rec.Kind == record.KindRun:
		s.end(rec)
		delete(t.runs, rec.RunID)
	case !rec.Kind.IsCall():
	case rec.Status == record.StatusStarted:
		t.beginCall(s, rec)
	case rec.Status == record.StatusFailed && rec.WillRetry:
		if c := s.calls[rec.Address]; c != nil {
			c.failed = attributesOf(rec)
		}
	case rec.Status == record.StatusRetrying:
		s.retry(rec)
	case rec.IsOutcome() || rec.IsSuspension():
		s.endCall(rec)
	}
}

// begin starts the span of a run. It replaces the spans of the run if an earlier
// process did not close them.
func (t *Telemetry) begin(rec *record.Record) {
	ctx, _ := t.tracer.Start(context.Background(), "run", trace.WithTimestamp(rec.Time), trace.WithNewRoot(),
		trace.WithAttributes(attribute.String("reprise.run_id", rec.RunID), attribute.Int64("reprise.generation", int64(rec.Generation)))) //nolint:gosec // small
	t.runs[rec.RunID] = &spans{run: ctx, calls: make(map[record.Address]*call), paths: make(map[string]*call)}
}

func (s *spans) end(rec *record.Record) {
	span := trace.SpanFromContext(s.run)
	span.SetAttributes(attribute.String("reprise.status", rec.Status.String()))
	if rec.Status == record.StatusFailed {
		span.SetStatus(codes.Error, message(rec))
	}
	for _, c := range s.calls { // calls whose handlers have not returned
		trace.SpanFromContext(c.ctx).End(trace.WithTimestamp(rec.Time))
	}
	span.End(trace.WithTimestamp(rec.Time))
}

// beginCall starts the span of a call with its first attempt in this process.
func (t *Telemetry) beginCall(s *spans, rec *record.Record) {
	c := s.calls[rec.Address]
	if c == nil {
		around := s.run
		if parent := s.paths[rec.Address.Scope()]; parent != nil {
			around = parent.ctx
		}
		c = &call{}
		c.ctx, _ = t.tracer.Start(around, rec.Name, trace.WithTimestamp(rec.Time),
			trace.WithAttributes(callAttributes(rec)...),
			trace.WithAttributes(attribute.String("reprise.address", rec.Address.String())))
		s.calls[rec.Address] = c
	}
	path := rec.Address.Path(rec.Attempt)
	c.paths = append(c.paths, path)
	s.paths[path] = c
}

func (s *spans) retry(rec *record.Record) {
	if c := s.calls[rec.Address]; c != nil {
		trace.SpanFromContext(c.ctx).AddEvent("retrying", trace.WithTimestamp(rec.Time), trace.WithAttributes(
			attribute.Int("reprise.attempt", rec.Attempt), attribute.Float64("reprise.delay", rec.Delay.Seconds()),
			attribute.String("error.type", rec.Class.String())), trace.WithAttributes(c.failed...))
		c.failed = nil
	}
}

// conventional converts an attribute of an attempt. It uses the names of
// OpenTelemetry's semantic conventions for generative AI where they exist.
func conventional(key string, value any) attribute.KeyValue {
	text := fmt.Sprint(value)
	switch key {
	case "provider":
		return attribute.String("gen_ai.provider.name", text)
	case "model":
		return attribute.String("gen_ai.response.model", text)
	case "response_id":
		return attribute.String("gen_ai.response.id", text)
	case "finish":
		return attribute.StringSlice("gen_ai.response.finish_reasons", []string{text})
	}
	key = "reprise.attribute." + key
	switch v := value.(type) {
	case bool:
		return attribute.Bool(key, v)
	case int64:
		return attribute.Int64(key, v)
	case float64:
		return attribute.Float64(key, v)
	}
	return attribute.String(key, text)
}

// attributesOf returns the attributes of the attempt that the record ends, sorted by
// key.
func attributesOf(rec *record.Record) []attribute.KeyValue {
	if rec.Detail == nil {
		return nil
	}
	attributes := make([]attribute.KeyValue, 0, len(rec.Detail.Metadata))
	for _, key := range slices.Sorted(maps.Keys(rec.Detail.Metadata)) {
		attributes = append(attributes, conventional(key, rec.Detail.Metadata[key]))
	}
	return attributes
}

func (s *spans) endCall(rec *record.Record) {
	c := s.calls[rec.Address]
	if c == nil {
		return
	}
	span := trace.SpanFromContext(c.ctx)
	span.SetAttributes(attribute.String("reprise.status", rec.Status.String()), attribute.Int("reprise.attempts", rec.Attempt+1))
	span.SetAttributes(attributesOf(rec)...)
	if rec.Status == record.StatusFailed {
		span.SetAttributes(attribute.String("error.type", rec.Class.String()), attribute.String("reprise.reason", rec.Reason.String()))
		span.SetStatus(codes.Error, message(rec))
	}
	span.End(trace.WithTimestamp(rec.Time))
	delete(s.calls, rec.Address)
	for _, path := range c.paths {
		delete(s.paths, path)
	}
}

func message(rec *record.Record) string {
	if rec.Err == nil {
		return ""
	}
	return rec.Err.Error()
}
