package otel_test

import (
	"fmt"

	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The runner exports its metrics and traces to the global providers.
func Example() {
	telemetry, err := otel.New(otel.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := runner.New(memstore.New(), runner.Options{
		Observe: telemetry.Observe,
		Run:     []state.Option{state.WithPublisher(telemetry)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stop, err := telemetry.Watch(r)
	fmt.Println(err, stop())
	// Output: <nil> <nil>
}
