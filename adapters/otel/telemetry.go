package otel

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/state"
)

// scopeName is the name of the instrumentation scope.
const scopeName = "github.com/reprise-go/reprise/adapters/otel"

// Options configure [Telemetry]. The zero value uses the global providers.
type Options struct {
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

// Telemetry exports runs to OpenTelemetry. It is safe for concurrent use. Create one
// with [New].
type Telemetry struct {
	meter  metric.Meter
	tracer trace.Tracer

	started, ended, crashed, troubles, attempts, retries, exhausted metric.Int64Counter
	openFor, callFor                                                metric.Float64Histogram

	mu   sync.Mutex // guards the fields below
	runs map[string]*spans
}

var _ state.Publisher = (*Telemetry)(nil)

// New returns telemetry that can be shared by any number of runners.
func New(o Options) (*Telemetry, error) {
	if o.Meter == nil {
		o.Meter = global.GetMeterProvider()
	}
	if o.Tracer == nil {
		o.Tracer = global.GetTracerProvider()
	}
	t := &Telemetry{meter: o.Meter.Meter(scopeName), tracer: o.Tracer.Tracer(scopeName), runs: make(map[string]*spans)}
	var err error
	for _, c := range []struct {
		counter            *metric.Int64Counter
		name, unit, unitOf string
	}{
		{&t.started, "reprise.run.started", "{run}", "Runs that were started"},
		{&t.ended, "reprise.run.ended", "{run}", "Runs that were closed, by how they stand"},
		{&t.crashed, "reprise.run.crashed", "{run}", "Ends of the processes of runs"},
		{&t.troubles, "reprise.runner.troubles", "{trouble}", "What went wrong in a runner"},
		{&t.attempts, "reprise.call.attempts", "{attempt}", "Attempts of calls"},
		{&t.retries, "reprise.call.retries", "{retry}", "Waits before another attempt"},
		{&t.exhausted, "reprise.call.exhausted", "{call}", "Calls that failed because no attempt, no time or no retry budget was left"},
	} {
		if *c.counter, err = t.meter.Int64Counter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.unitOf)); err != nil {
			return nil, fmt.Errorf("otel: %s: %w", c.name, err)
		}
	}
	t.openFor, err = t.meter.Float64Histogram("reprise.run.open.duration", metric.WithUnit("s"), metric.WithDescription("How long runs were open"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.run.open.duration: %w", err)
	}
	t.callFor, err = t.meter.Float64Histogram("reprise.call.duration", metric.WithUnit("s"), metric.WithDescription("Time of calls, with all attempts and waits"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.call.duration: %w", err)
	}
	return t, nil
}

// Watch exports the state of the runner's queue with each collection of metrics, until
// stop is called.
func (t *Telemetry) Watch(r *runner.Runner) (stop func() error, err error) {
	runs, err := t.meter.Int64ObservableGauge("reprise.runs", metric.WithUnit("{run}"), metric.WithDescription("Runs that wait or are open"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.runs: %w", err)
	}
	limit, err := t.meter.Int64ObservableGauge("reprise.runs.limit", metric.WithUnit("{run}"), metric.WithDescription("How many runs may be open"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.runs.limit: %w", err)
	}
	registration, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := r.Stats()
		for name, n := range map[string]int{"queued": s.Queued, "parked": s.Parked, "open": s.Open} {
			o.ObserveInt64(runs, int64(n), metric.WithAttributes(attribute.String("state", name)))
		}
		o.ObserveInt64(limit, int64(s.Limit))
		return nil
	}, runs, limit)
	if err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	return registration.Unregister, nil
}

// Observe counts an event of a runner. Use it as runner.Options.Observe.
func (t *Telemetry) Observe(e runner.Event) {
	ctx := context.Background()
	program := []attribute.KeyValue{attribute.String("program", e.Program), attribute.String("version", e.Version)}
	switch e.Type {
	case runner.EventStarted:
		t.started.Add(ctx, 1, metric.WithAttributes(program...))
	case runner.EventEnded:
		attributes := metric.WithAttributes(append(program, attribute.String("status", string(e.Status)))...)
		t.ended.Add(ctx, 1, attributes)
		t.openFor.Record(ctx, e.Took.Seconds(), attributes)
	case runner.EventCrashed:
		t.crashed.Add(ctx, 1, metric.WithAttributes(program...))
	case runner.EventTrouble:
		t.troubles.Add(ctx, 1, metric.WithAttributes(program...))
	}
}

// Publish implements [state.Publisher]. It ignores replayed records.
func (t *Telemetry) Publish(rec record.Record) {
	if rec.Replayed {
		return
	}
	if rec.Kind.IsCall() {
		t.count(&rec)
	}
	t.span(&rec)
}

// count updates the metrics of calls from the record.
func (t *Telemetry) count(rec *record.Record) {
	ctx := context.Background()
	of := callAttributes(rec)
	switch {
	case rec.Kind.IsParallel() && !rec.IsOutcome(): // groups and branches only contain calls
	case rec.Status == record.StatusStarted:
		t.attempts.Add(ctx, 1, metric.WithAttributes(of...))
	case rec.Status == record.StatusRetrying:
		t.retries.Add(ctx, 1, metric.WithAttributes(append(of, attribute.String("error.type", rec.Class.String()))...))
	case rec.IsOutcome():
		t.callFor.Record(ctx, rec.Elapsed.Seconds(), metric.WithAttributes(append(of, attribute.String("status", rec.Status.String()))...))
		if rec.Reason.IsExhaustion() {
			t.exhausted.Add(ctx, 1, metric.WithAttributes(append(of, attribute.String("reason", rec.Reason.String()))...))
		}
	}
}

func callAttributes(rec *record.Record) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("kind", rec.Kind.String()), attribute.String("name", cmp.Or(rec.Name, "?"))}
}
