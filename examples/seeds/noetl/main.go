// Noetl runs a step of a NoETL playbook, with its retry policy and conditions, against
// a service that is unavailable at first, and prints NoETL's events.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/examples/seeds/flaky"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

//go:embed step.yaml
var step []byte

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		log.Fatalf("noetl: unexpected argument %q; want none", os.Args[1])
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	retry, warnings, err := config.ReadNoETL(step)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Println("warning:", w)
	}
	service := flaky.Start(2)
	defer service.Close()
	fetch := decorators.Tool("fetch_data", "Fetch data.", func(ctx context.Context, in flaky.Request) (string, error) {
		return service.Call(ctx, in.Path, "")
	}, actors.WithRetry(retry.Config()))
	for _, path := range []string{"/data", "/declined"} {
		b := bus.New()
		b.Subscribe(vocabulary.Vocabulary(vocabulary.NoETL).Subscriber(func(e vocabulary.Event) { fmt.Println(" ", e.Name) }))
		st := state.New(state.WithPublisher(b))
		fmt.Println(path)
		out, failed := fetch.Call(st.Context(ctx), flaky.Request{Path: path})
		if err := st.Close(); err != nil {
			return err
		}
		b.Close()
		fmt.Printf("%q, failed: %v\n", out, failed != nil)
	}
	return nil
}
