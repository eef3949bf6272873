package otel_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestProviderThatIsNilIsRefused(t *testing.T) {
	_, err := otel.New(otel.Options{Tracer: (*sdk.TracerProvider)(nil)})
	assert.EqualError(t, err, "otel: Options.Tracer is a *trace.TracerProvider that is nil; want a provider, or no value for the global one")
	_, err = otel.New(otel.Options{Meter: (*metricProvider)(nil)})
	assert.EqualError(t, err, "otel: Options.Meter is a *otel_test.metricProvider that is nil; want a provider, or no value for the global one")
}

type metricProvider struct{ metric.MeterProvider }

// A processor panics when spans start, when they end, or both.
type processor struct {
	start, end bool
	sdk.SpanProcessor
}

func (p processor) OnStart(context.Context, sdk.ReadWriteSpan) {
	if p.start {
		panic("no span today")
	}
}

func (p processor) OnEnd(sdk.ReadOnlySpan) {
	if p.end {
		panic("no export today")
	}
}

func TestTelemetryThatPanicsChangesNothing(t *testing.T) {
	var reported atomic.Int64
	before := global.GetErrorHandler()
	global.SetErrorHandler(global.ErrorHandlerFunc(func(err error) {
		reported.Add(1)
		assert.Contains(t, err.Error(), "otel: telemetry panicked: no ")
	}))
	defer global.SetErrorHandler(before)
	tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	agent := decorators.Agent("agent", "", tool.Call)
	for name, p := range map[string]processor{"start": {start: true}, "end": {end: true}, "both": {start: true, end: true}} {
		telemetry, err := otel.New(otel.Options{Meter: nometric.NewMeterProvider(), Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(p)), Content: true})
		require.NoError(t, err)
		st := state.New(telemetry.Run()...)
		out, err := agent.Call(st.Context(t.Context()), in{"x"})
		require.NoError(t, err, name)
		assert.Equal(t, "x", out)
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusCompleted, st.Status(), name)
		assert.Positive(t, reported.Swap(0), name)
		assert.Zero(t, st.Stats().PublisherPanics, name)
	}
}

func TestProviderThatIsShutDownDuringARunChangesNothing(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	telemetry, err := otel.New(otel.Options{Tracer: provider})
	require.NoError(t, err)
	tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	agent := decorators.Agent("agent", "", func(ctx context.Context, in in) (string, error) {
		if _, err := tool.Call(ctx, in); err != nil {
			return "", err
		}
		assert.NoError(t, provider.Shutdown(context.WithoutCancel(ctx)))
		return tool.Call(ctx, in)
	})
	st := state.New(telemetry.Run()...)
	out, err := agent.Call(st.Context(t.Context()), in{"x"})
	require.NoError(t, err)
	assert.Equal(t, "x", out)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusCompleted, st.Status())
}

func TestRunWithoutTracesIsNotGivenOne(t *testing.T) {
	telemetry, err := otel.New(otel.Options{Tracer: notrace.NewTracerProvider(), Meter: nometric.NewMeterProvider()})
	require.NoError(t, err)
	st := state.New(telemetry.Run()...)
	require.NoError(t, st.Close())
	records, err := st.Records(t.Context())
	require.NoError(t, err)
	for _, r := range records {
		assert.Nil(t, r.Detail)
	}
}

// What others have stored in the metadata, or in the attributes of an opening, is no trace.
func TestDamagedTraceContextIsIgnored(t *testing.T) {
	k := newKit(t, otel.Options{})
	store := memstore.New()
	metadata := state.WithMetadata(state.Metadata{Custom: map[string]string{"traceparent": "00-zz-1-01", "tracestate": "="}})
	damaged := state.WithOpening(func(context.Context, state.Opening) map[string]any {
		return map[string]any{"traceparent": 7, "span_id": "no hex", "tracestate": "\x00"}
	})
	st, err := state.Open(t.Context(), store, "a", metadata, damaged)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	st, err = state.Open(t.Context(), store, "a", k.telemetry.Run()...)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	span := k.span(t, "run")
	assert.False(t, span.Parent().IsValid())
	assert.Empty(t, span.Links())
	assert.True(t, span.SpanContext().IsValid())
}

func TestOptionsOfTheRunnerAreKept(t *testing.T) {
	k := newKit(t, otel.Options{})
	var events, described atomic.Int64
	r, err := runner.New(memstore.New(), k.telemetry.RunnerOptions(runner.Options{
		Observe: func(runner.Event) { events.Add(1) },
		Metadata: func(_ context.Context, m *snapshot.Metadata) {
			described.Add(1)
			assert.NotEmpty(t, m.Custom["traceparent"])
		},
	}))
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("agent", "", func(_ context.Context, in in) (string, error) { return in.Text, nil }))
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1}}))
	_, err = r.Start(ctx, "agent", "a", in{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, events.Load())
	assert.EqualValues(t, 1, described.Load())
}
