package otel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type in struct {
	Text string `json:"text"`
}

// A kit is a runner with telemetry.
type kit struct {
	runner *runner.Runner
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	stop   func() error
}

func newKit(t *testing.T, o runner.Options) *kit {
	k := &kit{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	telemetry, err := otel.New(otel.Options{
		Meter:  metric.NewMeterProvider(metric.WithReader(k.reader)),
		Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(k.spans)),
	})
	require.NoError(t, err)
	o.Observe, o.Run = telemetry.Observe, []state.Option{state.WithPublisher(telemetry)}
	k.runner, err = runner.New(memstore.New(), o)
	require.NoError(t, err)
	k.stop, err = telemetry.Watch(k.runner)
	require.NoError(t, err)
	return k
}

// metrics returns the values by name and attributes. The value of a histogram is its
// sum.
func (k *kit) metrics(t *testing.T) map[string]float64 {
	var all metricdata.ResourceMetrics
	require.NoError(t, k.reader.Collect(t.Context(), &all))
	found := make(map[string]float64)
	key := func(name string, of attribute.Set) string {
		var values []string
		for _, kv := range of.ToSlice() {
			values = append(values, kv.Value.Emit())
		}
		return name + "{" + strings.Join(values, ",") + "}"
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = p.Sum
				}
			}
		}
	}
	return found
}

func serve(t *testing.T, r *runner.Runner) {
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, r.Serve(ctx)) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
}

func TestRunsCallsAndRetriesAreCountedAndTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, runner.Options{})
		flaky := decorators.Tool("flaky", "", func(ctx context.Context, in in) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				return "", core.Retryable(errors.New("busy"))
			}
			return in.Text, nil
		}, actors.WithRetry(core.RetryConfig{InitialDelay: 3 * time.Second, Jitter: core.NoJitter}))
		down := decorators.Tool("down", "", func(context.Context, in) (string, error) { return "", core.Retryable(errors.New("down")) },
			actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}))
		broken := decorators.Tool("broken", "", func(context.Context, in) (string, error) { return "", errors.New("out of ink") })
		runner.Register(k.runner, decorators.Agent("agent", "", func(ctx context.Context, in in) (string, error) {
			if _, err := flaky.Call(ctx, in); err != nil {
				return "", err
			}
			_, _ = down.Call(ctx, in)
			return broken.Call(ctx, in)
		}))
		serve(t, k.runner)
		begin := time.Now()
		_, err := k.runner.Start(t.Context(), "agent", "a", in{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = k.runner.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()

		got := k.metrics(t)
		for name, want := range map[string]float64{
			"reprise.run.started{agent,1}": 1, "reprise.run.ended{agent,failed,1}": 1, "reprise.run.open.duration{agent,failed,1}": 3,
			"reprise.call.attempts{tool_call,flaky}": 2, "reprise.call.attempts{agent_call,agent}": 1,
			"reprise.call.retries{unknown,tool_call,flaky}":    1,
			"reprise.call.attempts{tool_call,down}":            3,
			"reprise.call.retries{unknown,tool_call,down}":     2,
			"reprise.call.exhausted{tool_call,down,exhausted}": 1,
			"reprise.call.duration{tool_call,flaky,completed}": 3, "reprise.call.duration{agent_call,agent,failed}": 3,
			"reprise.runs{open}": 0, "reprise.runs{queued}": 0, "reprise.runs{parked}": 0, "reprise.runs.limit{}": 100,
		} {
			number, ok := got[name]
			assert.True(t, ok, "%s is not in %v", name, got)
			assert.InDelta(t, want, number, 0, name)
		}

		for name := range got {
			assert.False(t, strings.HasPrefix(name, "reprise.call.exhausted{") && !strings.Contains(name, ",down,"), "%s: it had no retry", name)
		}

		spans := make(map[string]trace.ReadOnlySpan)
		for _, s := range k.spans.Ended() {
			spans[s.Name()] = s
		}
		require.Len(t, spans, 5)
		for child, parent := range map[string]string{"agent": "run", "flaky": "agent", "broken": "agent"} {
			assert.Equal(t, spans[parent].SpanContext().SpanID(), spans[child].Parent().SpanID(), child)
			assert.Equal(t, spans["run"].SpanContext().TraceID(), spans[child].SpanContext().TraceID())
		}
		assert.True(t, begin.Equal(spans["flaky"].StartTime()))
		assert.True(t, begin.Add(3*time.Second).Equal(spans["flaky"].EndTime()))
		require.Len(t, spans["flaky"].Events(), 1)
		assert.Equal(t, "retrying", spans["flaky"].Events()[0].Name)
		assert.Equal(t, codes.Unset, spans["flaky"].Status().Code)
		assert.Equal(t, codes.Error, spans["broken"].Status().Code)
		assert.Contains(t, spans["run"].Status().Description, "out of ink")
		assert.Len(t, k.spans.Ended(), len(k.spans.Started()), "nothing is left open")
		require.NoError(t, k.stop())
		assert.NotContains(t, k.metrics(t), "reprise.runs{open}")
	})
}

func TestParkedRunHasATraceForEachTimeThatItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, runner.Options{})
		nap := decorators.Tool("before", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
		runner.Register(k.runner, decorators.Agent("nap", "", func(ctx context.Context, in in) (string, error) {
			if _, err := nap.Call(ctx, in); err != nil {
				return "", err
			}
			return in.Text, core.Sleep(ctx, time.Hour)
		}))
		serve(t, k.runner)
		_, err := k.runner.Start(t.Context(), "nap", "a", in{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.InDelta(t, 1, k.metrics(t)["reprise.runs{parked}"], 0)
		_, err = k.runner.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		var names []string
		traces := make(map[string]bool)
		for _, s := range k.spans.Ended() {
			names = append(names, s.Name())
			traces[s.SpanContext().TraceID().String()] = true
		}
		slices.Sort(names)
		assert.Equal(t, []string{"before", "nap", "nap", "run", "run"}, names, "what is recalled has no span")
		assert.Len(t, traces, 2)
		assert.Len(t, k.spans.Started(), 5)
	})
}

func TestAttributesOfAttemptsAreThoseOfSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, runner.Options{})
		model := decorators.Tool("model", "", func(ctx context.Context, _ in) (string, error) {
			attempt := core.ScopeOf(ctx).Attempt()
			core.Annotate(ctx, "response_id", []string{"r1", "r2"}[attempt])
			core.Annotate(ctx, "model", "m")
			core.Annotate(ctx, "provider", "p")
			core.Annotate(ctx, "finish", "stop")
			core.Annotate(ctx, "first_token", 1500*time.Millisecond)
			core.Annotate(ctx, "n", 3)
			core.Annotate(ctx, "yes", true)
			core.Annotate(ctx, "note", "text")
			if attempt == 0 {
				return "", core.Retryable(errors.New("busy"))
			}
			return "out", nil
		})
		runner.Register(k.runner, decorators.Agent("agent", "", model.Call))
		serve(t, k.runner)
		_, err := k.runner.Start(t.Context(), "agent", "a", in{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = k.runner.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		spans := k.spans.Ended()
		at := slices.IndexFunc(spans, func(s trace.ReadOnlySpan) bool { return s.Name() == "model" })
		require.GreaterOrEqual(t, at, 0)
		attributes := spans[at].Attributes()
		for _, want := range []attribute.KeyValue{
			attribute.String("gen_ai.response.id", "r2"), attribute.String("gen_ai.response.model", "m"),
			attribute.String("gen_ai.provider.name", "p"), attribute.StringSlice("gen_ai.response.finish_reasons", []string{"stop"}),
			attribute.Float64("reprise.attribute.first_token", 1.5), attribute.Int64("reprise.attribute.n", 3),
			attribute.Bool("reprise.attribute.yes", true), attribute.String("reprise.attribute.note", "text"),
		} {
			assert.Contains(t, attributes, want)
		}
		require.Len(t, spans[at].Events(), 1)
		assert.Contains(t, spans[at].Events()[0].Attributes, attribute.String("gen_ai.response.id", "r1"), "of the attempt that failed")
		require.NoError(t, k.stop())
	})
}
