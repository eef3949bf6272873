package otel_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestProviderThatIsNilIsRefused(t *testing.T) {
	_, err := otel.New(otel.Options{Tracer: (*sdk.TracerProvider)(nil)})
	assert.EqualError(t, err, "otel: Options.Tracer is a nil *trace.TracerProvider; set a provider, or leave the field unset for the global one")
	_, err = otel.New(otel.Options{Meter: (*metricProvider)(nil)})
	assert.EqualError(t, err, "otel: Options.Meter is a nil *otel_test.metricProvider; set a provider, or leave the field unset for the global one")
}

type metricProvider struct{ metric.MeterProvider }

// A processor panics when a span starts, when a span ends, or both.
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
	global.SetErrorHandler(global.ErrorHandlerFunc(func(err error) { // for the whole process: the previous handler cannot be restored
		if strings.HasPrefix(err.Error(), "otel: telemetry panicked: no ") {
			reported.Add(1)
		}
	}))
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
		assert.Zero(t, st.Report().PublisherPanics, name)
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

func TestRunWithoutATraceIsNotGivenOne(t *testing.T) {
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

// The metadata and the attributes of an opening may have been written by others, and may be
// invalid.
func TestDamagedTraceContextIsIgnored(t *testing.T) {
	k := newKit(t, otel.Options{})
	store := memstore.New()
	metadata := state.WithMetadata(snapshot.Metadata{Custom: map[string]string{"traceparent": "00-zz-1-01", "tracestate": "="}})
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
		Observe: func(runner.Notice) { events.Add(1) },
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

// If an error text that is not UTF-8 were exported unchanged, the exporter could not send any of
// the spans in the batch.
func TestTextThatIsNotUTF8IsExported(t *testing.T) {
	collector := newReceiver(t)
	_, options, shut := collector.process(t)
	st := state.New(options...)
	broken := decorators.Tool("broken", "", func(ctx context.Context, _ in) (string, error) {
		core.Annotate(ctx, "note", "\xff")
		return "", errors.New("\xff is not UTF-8" + strings.Repeat(".", 1<<20))
	})
	_, err := broken.Call(st.Context(t.Context()), in{"x"})
	require.Error(t, err)
	require.NoError(t, st.Close())
	shut()
	got := collector.tree(func(key string) bool { return key == "error.type" })
	assert.Equal(t, `
run error.type=_OTHER ERROR
  execute_tool broken error.type=_OTHER ERROR
    attempt error.type=_OTHER ERROR`, got)
	for _, s := range collector.spans {
		assert.Less(t, len(s.Status.GetMessage()), 64<<10)
	}
}

// The spans of an opening end, no matter how the opening ends.
func TestSpansOfOpeningsThatDoNothingEnd(t *testing.T) {
	asks := decorators.Tool("asks", "", func(ctx context.Context, _ in) (string, error) { return core.Await[string](ctx, "Well?") })
	store := memstore.New()
	ended := func(k *kit) {
		t.Helper()
		assert.NotEmpty(t, k.spans.Started())
		assert.Len(t, k.spans.Ended(), len(k.spans.Started()))
	}
	for range 3 { // the second and third openings record nothing
		k := newKit(t, otel.Options{})
		st, err := state.Open(t.Context(), store, "a", k.telemetry.Run()...)
		require.NoError(t, err)
		_, err = asks.Call(st.Context(t.Context()), in{"x"})
		require.True(t, core.IsSuspension(err), err)
		require.NoError(t, st.Close())
		ended(k)
	}
	require.NoError(t, state.Cancel(t.Context(), store, "a", snapshot.Stop{By: "test"}))
	k := newKit(t, otel.Options{})
	_, err := state.Open(t.Context(), store, "a", k.telemetry.Run()...)
	require.ErrorIs(t, err, state.ErrCancelled)
	assert.Len(t, k.spans.Ended(), len(k.spans.Started()))
}

// If another run with the same ID, such as one in another store, is opened before a run was closed,
// no span stays open.
func TestRunThatIsOpenedTwiceLeavesNoSpan(t *testing.T) {
	k := newKit(t, otel.Options{})
	tool := decorators.Tool("tool", "", func(ctx context.Context, in in) (string, error) {
		if in.Text == "outer" {
			st, err := state.Open(ctx, memstore.New(), "a", k.telemetry.Run()...)
			require.NoError(t, err)
			require.NoError(t, st.Close())
		}
		return in.Text, nil
	})
	st, err := state.Open(t.Context(), memstore.New(), "a", k.telemetry.Run()...)
	require.NoError(t, err)
	out, err := tool.Call(st.Context(t.Context()), in{"outer"})
	require.NoError(t, err)
	assert.Equal(t, "outer", out)
	require.NoError(t, st.Close())
	assert.Len(t, k.spans.Ended(), len(k.spans.Started()))
}

// Many runs and calls share the telemetry at the same time.
func TestManyRunsAtTheSameTime(t *testing.T) {
	k := newKit(t, otel.Options{Content: true})
	tool := decorators.Tool("tool", "", func(ctx context.Context, in in) (string, error) {
		if core.ScopeOf(ctx).Attempt() == 0 {
			return "", core.Retryable(errors.New("busy"))
		}
		return in.Text, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() {
			st := state.New(k.telemetry.Run()...)
			_, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "all"}, tool, []in{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}})
			assert.NoError(t, err)
			assert.NoError(t, st.Close())
		})
	}
	runs.Wait()
	assert.Len(t, k.spans.Ended(), 20*(1+5+2*5))
	assert.Len(t, k.spans.Started(), 20*(1+5+2*5))
	for _, s := range k.spans.Ended() {
		if s.Name() == "execute_tool tool" {
			assert.Contains(t, texts(s.Attributes()), "reprise.attempts=2")
		}
	}
}
