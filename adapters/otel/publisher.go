package otel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/record"
)

// A publisher counts records and ends the spans to which they belong.
type publisher struct{ telemetry *Telemetry }

// Publish implements [state.Publisher]. It ignores replayed records. Groups and branches only
// contain calls, so their durations are measured, but they have no spans.
func (p publisher) Publish(rec record.Record) {
	switch {
	case rec.Replayed:
	case !rec.Kind.IsParallel():
		p.telemetry.count(&rec)
		p.telemetry.follow(&rec)
	case rec.IsOutcome():
		p.telemetry.count(&rec)
	}
}

// follow ends the spans that the record completes.
func (t *Telemetry) follow(rec *record.Record) {
	defer recoverPanic()
	r := t.run(rec.RunID)
	switch {
	case r == nil || r.generation != rec.Generation:
	case rec.Kind.IsCall():
		t.followCall(r, rec)
	case rec.Kind == record.KindRun && rec.Status != record.StatusStarted:
		t.mu.Lock()
		if t.runs[rec.RunID] == r {
			delete(t.runs, rec.RunID)
		}
		t.mu.Unlock()
		r.end(rec)
	}
}

func (t *Telemetry) followCall(r *run, rec *record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[rec.Address]
	switch {
	case rec.Status == record.StatusStarted, rec.Status == record.StatusRecovered:
	case rec.Status == record.StatusRetrying:
		if c != nil {
			c.span.AddEvent("reprise.retrying", trace.WithTimestamp(rec.Time), trace.WithAttributes(
				attemptKey.Int(rec.Attempt+1), delayKey.Float64(rec.Delay.Seconds()), errorType(rec.Class)))
		}
	case c == nil && rec.Status == record.StatusFailed: // the call was refused before its first attempt
		t.endCall(&call{span: t.startRefused(r, rec)}, rec, []trace.SpanEndOption{trace.WithTimestamp(rec.Time)})
	case c == nil:
	default:
		at := []trace.SpanEndOption{trace.WithTimestamp(rec.Time)}
		c.endAttempt(rec, at)
		if rec.IsOutcome() || rec.IsSuspension() {
			delete(r.calls, rec.Address)
			t.endCall(c, rec, at)
		}
	}
}

// startRefused starts the span for a call that had no attempt. r.mu must be held.
func (t *Telemetry) startRefused(r *run, rec *record.Record) trace.Span {
	around := r.span
	for a, c := range r.calls {
		for _, attempt := range c.attempts {
			if a.Path(attempt.number-1) == rec.Address.Scope() {
				around = attempt.span
			}
		}
	}
	a := t.actors.of(rec.Kind, rec.Name)
	_, span := t.tracer.Start(trace.ContextWithSpan(context.Background(), around), a.span, append(slices.Clip(a.start), trace.WithTimestamp(rec.Time))...)
	return span
}

// endAttempt ends the span of the attempt to which the record belongs, and the spans of earlier
// attempts. A later attempt may already have begun, because records are published some time after
// they are made.
func (c *call) endAttempt(rec *record.Record, at []trace.SpanEndOption) {
	c.usage = c.usage.Plus(rec.Used())
	var later []attempt
	for _, a := range c.attempts {
		if a.number > rec.Attempt+1 && !rec.IsOutcome() && !rec.IsSuspension() {
			later = append(later, a)
			continue
		}
		if a.number == rec.Attempt+1 && a.span.IsRecording() {
			a.span.SetAttributes(attributesOf(rec)...)
			a.span.SetAttributes(usageOfAttempt(rec.Used())...)
			if rec.Status == record.StatusFailed {
				a.span.SetAttributes(failure(rec)...)
				a.span.SetStatus(codes.Error, message(rec))
			}
		}
		a.span.End(at...)
	}
	c.attempts = later
}

// endCall ends a call's span.
func (t *Telemetry) endCall(c *call, rec *record.Record, at []trace.SpanEndOption) {
	if rec.Kind == record.KindLLM {
		t.metrics.countModel(rec, c.usage)
	}
	if !c.span.IsRecording() {
		c.span.End()
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, 3),
		addressKey.String(rec.Address.String()), statusKey.String(rec.Status.String()), attemptsKey.Int(rec.TotalAttempts()))
	if rec.Detail != nil && rec.Detail.Cached {
		attributes = append(attributes, cachedKey.Bool(true))
	}
	if rec.Kind == record.KindLLM {
		attributes = append(attributes, modelAttributes(rec)...)
		attributes = append(attributes, usageOfModel(c.usage)...)
		if model := requestModel(rec); model != rec.Name {
			c.span.SetName(spanName(rec.Kind, model))
		}
	} else {
		attributes = append(attributes, attributesOf(rec)...)
	}
	if rec.Status == record.StatusFailed {
		attributes = append(attributes, failure(rec)...)
		c.span.SetStatus(codes.Error, message(rec))
	}
	c.span.SetAttributes(attributes...)
	c.span.End(at...)
}

// failure returns the attributes of a failed attempt or call.
func failure(rec *record.Record) []attribute.KeyValue {
	attributes := []attribute.KeyValue{errorType(rec.Class)}
	if status, ok := record.HTTPStatus(rec.Err); ok {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(status))
	}
	for _, kv := range []attribute.KeyValue{reasonKey.String(rec.Reason.String()), stageKey.String(rec.Stage.String())} {
		if kv.Value.AsString() != "" {
			attributes = append(attributes, kv)
		}
	}
	return attributes
}

// errorType returns an error's class as a low-cardinality attribute.
func errorType(c record.Class) attribute.KeyValue {
	if c == record.ClassUnknown {
		return semconv.ErrorTypeOther
	}
	return semconv.ErrorTypeKey.String(c.String())
}

func message(rec *record.Record) string {
	if rec.Err == nil {
		return ""
	}
	return record.Truncate(utf8Of(rec.Err.Error()), record.MessageLimit)
}
