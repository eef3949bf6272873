package runner_test

import (
	"context"
	"expvar"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
)

// A service registers its agents, and then serves until it is stopped. Runs that have not ended by
// then continue when the service is started again.
func Example() {
	type ticket struct {
		Subject string `json:"subject"`
	}
	support := decorators.Agent("support", "Answers tickets.", func(_ context.Context, in ticket) (string, error) {
		return "Thank you for writing about " + in.Subject + ".", nil
	})

	r, err := runner.New(memstore.New(), runner.Options{Limit: 50})
	if err != nil {
		fmt.Println(err)
		return
	}
	program := runner.Register(r, support)
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = r.Serve(ctx) })

	if _, err := program.Start(ctx, "ticket-42", ticket{"the printer"}, runner.StartOptions{}); err != nil {
		fmt.Println(err)
	}
	info, err := r.Wait(ctx, "ticket-42")
	fmt.Println(info.Status, err)
	fmt.Println(program.Result(ctx, "ticket-42"))
	stop()
	serving.Wait()
	// Output:
	// completed <nil>
	// Thank you for writing about the printer. <nil>
}

// A program may publish a runner's statistics with its own variables, in /debug/vars.
func ExampleRunner_Stats() {
	r, err := runner.New(memstore.New(), runner.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	expvar.Publish("runner", expvar.Func(func() any { return r.Stats() }))
}
