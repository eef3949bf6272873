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

	// Content adds the inputs and outputs of models and tools to spans: messages,
	// arguments and results. state.WithRedaction does not redact them.
	Content bool

	// Redact changes the text of each attribute that Content adds. The text is a JSON document. If
	// Redact is nil, the text is not changed.
	Redact func(text string) string
}

// Telemetry exports runs to OpenTelemetry. It is safe for concurrent use. Create a Telemetry with
// [New].
type Telemetry struct {
	options Options
	tracer  trace.Tracer
	metrics *metrics
	actors  actorCache

	attemptOptions attemptOptions

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
			return nil, fmt.Errorf("otel: Options.%s is a nil %T; set a provider, or leave the field unset for the global one", name, provider)
		}
	}
	m, err := newMetrics(o.Meter.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL)))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		options: o, metrics: m, runs: make(map[string]*run),
		actors: actorCache{seen: make(map[actorKey]*actor)}, attemptOptions: newAttemptOptions(),
		tracer: o.Tracer.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL)),
	}, nil
}

// RunnerOptions returns o with the telemetry added. The telemetry observes the runner, traces its
// runs, and links each run to the request that started it.
func (t *Telemetry) RunnerOptions(o runner.Options) runner.Options {
	o.Run = append(t.Run(), o.Run...)
	observe, describe := o.Observe, o.Metadata
	o.Observe = func(e runner.Notice) {
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

// Run returns the options for a run that is opened without a runner, by state.New or state.Open.
// Pass them before other interceptors, so that the spans include the time that other interceptors
// wait.
func (t *Telemetry) Run() []state.Option {
	return []state.Option{
		state.WithOpening(t.open),
		state.WithInterceptors(core.Interceptor{Attempt: t.attempt}),
		state.WithPublisher(publisher{t}),
	}
}

// Inject adds the span in ctx to the metadata of a run that is about to be started, in the form
// that W3C Trace Context defines. The run's spans are then linked to that span. If ctx contains no
// span, Inject changes nothing. With RunnerOptions, the runner does this for all runs that it
// starts.
func Inject(ctx context.Context, m *snapshot.Metadata) {
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

// extract returns the span context in a carrier. If there is none, the result is not valid.
func extract(carrier map[string]string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(carrier))
	return trace.SpanContextFromContext(ctx)
}

// recoverPanic recovers from a panic in a provider, a processor or an exporter, because telemetry
// must not affect a run. It must be deferred.
func recoverPanic() {
	if p := recover(); p != nil {
		global.Handle(fmt.Errorf("otel: telemetry panicked: %v", p))
	}
}

func (t *Telemetry) run(runID string) *run {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.runs[runID]
}
