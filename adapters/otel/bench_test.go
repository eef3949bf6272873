package otel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

// discard is an exporter that does nothing.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

// BenchmarkAttempt measures one attempt of a tool in an agent. The difference from "none" is the
// cost of telemetry.
func BenchmarkAttempt(b *testing.B) {
	for _, c := range []struct {
		name    string
		options *otel.Options
	}{
		{"none", nil},
		{"noop", &otel.Options{Tracer: notrace.NewTracerProvider(), Meter: nometric.NewMeterProvider()}},
		{"spans", &otel.Options{Tracer: sdk.NewTracerProvider(sdk.WithSyncer(discard{})), Meter: nometric.NewMeterProvider()}},
		{"batches", &otel.Options{Tracer: sdk.NewTracerProvider(sdk.WithBatcher(discard{})), Meter: nometric.NewMeterProvider()}},
		{"spans+metrics", &otel.Options{
			Tracer: sdk.NewTracerProvider(sdk.WithSyncer(discard{})), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var options []state.Option
			if c.options != nil {
				telemetry, err := otel.New(*c.options)
				if err != nil {
					b.Fatal(err)
				}
				options = telemetry.Run()
			}
			tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
			st := state.New(options...)
			defer st.Close()
			agent := decorators.Agent("agent", "", func(ctx context.Context, in in) (string, error) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := tool.Call(ctx, in); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			if _, err := agent.Call(st.Context(b.Context()), in{"x"}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkTwoSpans measures what the SDK spends on the spans of an attempt and its call.
func BenchmarkTwoSpans(b *testing.B) {
	tracer := sdk.NewTracerProvider(sdk.WithSyncer(discard{})).Tracer("test")
	ctx, run := tracer.Start(b.Context(), "run")
	defer run.End()
	start := []trace.SpanStartOption{trace.WithAttributes(attribute.String("a", "execute_tool"), attribute.String("b", "tool"), attribute.String("c", "function"))}
	number := []trace.SpanStartOption{trace.WithAttributes(attribute.Int("n", 1))}
	b.ReportAllocs()
	for b.Loop() {
		ctx, call := tracer.Start(ctx, "execute_tool tool", start...)
		_, attempt := tracer.Start(ctx, "attempt", number...)
		attempt.End()
		call.SetAttributes(attribute.String("d", "agent/tool"), attribute.String("e", "completed"), attribute.Int("f", 1))
		call.End()
	}
}
