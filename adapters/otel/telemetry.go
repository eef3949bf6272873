package otel

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// scopeName is the name of the instrumentation scope.
const scopeName = "github.com/reprise-go/reprise/adapters/otel"

// Options configure [Telemetry]. The zero value uses the global providers.
type Options struct {
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider

	// Content adds to spans what models and tools were given and what they returned:
	// messages, arguments and results. It is not redacted by state.WithRedaction.
	Content bool

	// Redact changes the text of each such attribute, a JSON document. Nil changes
	// nothing.
	Redact func(text string) string
}

// Telemetry exports runs to OpenTelemetry. It is safe for concurrent use. Create one
// with [New].
type Telemetry struct {
	options Options
	tracer  trace.Tracer
	metrics *metrics
	actors  actorCache

	attempted attempted

	mu   sync.RWMutex // guards the field below
	runs map[string]*run
}

// New returns telemetry that can be shared by any number of runners and runs.
func New(o Options) (*Telemetry, error) {
	if o.Meter == nil {
		o.Meter = global.GetMeterProvider()
	}
	if o.Tracer == nil {
		o.Tracer = global.GetTracerProvider()
	}
	for name, provider := range map[string]any{"Meter": o.Meter, "Tracer": o.Tracer} {
		if v := reflect.ValueOf(provider); v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("otel: Options.%s is a %T that is nil; want a provider, or no value for the global one", name, provider)
		}
	}
	m, err := newMetrics(o.Meter.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL)))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		options: o, metrics: m, runs: make(map[string]*run),
		actors: actorCache{seen: make(map[actorKey]*actor)}, attempted: newAttempted(),
		tracer: o.Tracer.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL)),
	}, nil
}

// RunnerOptions returns o with the telemetry added: it observes the runner, traces its
// runs, and links each run to the request that starts it.
func (t *Telemetry) RunnerOptions(o runner.Options) runner.Options {
	o.Run = append(t.Run(), o.Run...)
	observe, describe := o.Observe, o.Metadata
	o.Observe = func(e runner.Event) {
		t.observe(e)
		if observe != nil {
			observe(e)
		}
	}
	o.Metadata = func(ctx context.Context, m *snapshot.Metadata) {
		Inject(ctx, m)
		if describe != nil {
			describe(ctx, m)
		}
	}
	return o
}

// Run returns the options of a run that is opened without a runner, by state.New or
// state.Open. They belong before other interceptors, whose waits are then inside the
// spans.
func (t *Telemetry) Run() []state.Option {
	return []state.Option{
		state.WithOpening(t.open),
		state.WithInterceptors(core.Interceptor{Attempt: t.attempt}),
		state.WithPublisher(publisher{t}),
	}
}

// Inject adds the span of ctx to the metadata of a run that is about to be started, in the
// form of W3C Trace Context: the spans of the run are linked to it. Without a span it
// changes nothing. RunnerOptions does it for runs that a runner starts.
func Inject(ctx context.Context, m *state.Metadata) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	custom := propagation.MapCarrier{}
	for key, value := range m.Custom {
		custom[key] = value
	}
	propagation.TraceContext{}.Inject(ctx, custom)
	m.Custom = custom
}

// extract returns the span that a carrier has, not valid if it has none.
func extract(carrier map[string]string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(carrier))
	return trace.SpanContextFromContext(ctx)
}

// guard recovers a panic of a provider, a processor or an exporter: telemetry must not
// change what a run does. It is deferred.
func guard() {
	if p := recover(); p != nil {
		global.Handle(fmt.Errorf("otel: telemetry panicked: %v", p))
	}
}

func (t *Telemetry) run(runID string) *run {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.runs[runID]
}
