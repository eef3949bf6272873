// Tasker runs a Tasker step, with its retry configuration, against a service that is
// unavailable at first, and prints the numbers that Tasker counts.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/examples/seeds/flaky"
	"github.com/reprise-go/reprise/state"
)

//go:embed step.yaml
var step []byte

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		log.Fatalf("tasker: unexpected argument %q; want none", os.Args[1])
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	retry, warnings, err := config.ReadTasker(step)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Println("warning:", w)
	}
	st := state.New()
	defer st.Close()
	for _, failures := range []int{2, 9} {
		service := flaky.Start(failures)
		create := decorators.Tool("create-record", "Create a record.", func(ctx context.Context, in flaky.Request) (string, error) {
			return service.Call(ctx, in.Path, "")
		}, actors.WithRetry(retry.Config()))
		out, err := create.Call(st.Context(ctx), flaky.Request{Path: "/records"})
		service.Close()
		fmt.Printf("unavailable %d times: %q, %v\n", failures, out, err)
	}
	report := st.Report()
	fmt.Printf("%d claims, %d retries, %d exhausted\n", report.Attempts, report.Retries, report.Exhausted)
	return nil
}
