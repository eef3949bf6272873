package otel_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A run is traced. The exporter in this example keeps its spans in memory.
func Example() {
	exporter := tracetest.NewInMemoryExporter()
	telemetry, err := otel.New(otel.Options{Tracer: trace.NewTracerProvider(trace.WithSyncer(exporter))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	lookUp := decorators.Tool("look_up", "Looks up a word.", func(_ context.Context, _ in) (string, error) {
		return "a narrow inlet", nil
	})
	st := state.New(telemetry.Run()...)
	if _, err := lookUp.Call(st.Context(context.Background()), in{"fjord"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := st.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	var names []string
	for _, span := range exporter.GetSpans() {
		names = append(names, span.Name)
	}
	fmt.Println(strings.Join(names, ", "))
	// Output: attempt, execute_tool look_up, run
}

// The runner exports its metrics and the spans of its runs through the global providers.
func ExampleTelemetry_RunnerOptions() {
	telemetry, err := otel.New(otel.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := runner.New(memstore.New(), telemetry.RunnerOptions(runner.Options{Limit: 10}))
	if err != nil {
		fmt.Println(err)
		return
	}
	stop, err := telemetry.Watch(r)
	fmt.Println(err, stop())
	// Output: <nil> <nil>
}
