// Argyll runs an Argyll step, with its work_config, against a service that is
// unavailable at first. It processes four work items in two slots, retries each item
// separately, and counts Argyll's events.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/examples/seeds/flaky"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

//go:embed step.json
var step []byte

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		log.Fatalf("argyll: unexpected argument %q; want none", os.Args[1])
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	defaults, err := config.ArgyllEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	retry, warnings, err := config.ReadArgyll(step, config.ArgyllV2, defaults)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Println("warning:", w)
	}
	service := flaky.Start(2)
	defer service.Close()
	charge := decorators.Tool("charge-card", "Charge a card.", func(ctx context.Context, in flaky.Request) (string, error) {
		token, err := core.IdempotencyKey(ctx)
		if err != nil {
			return "", err
		}
		return service.Call(ctx, in.Path, token)
	}, actors.WithRetry(retry.Config()))

	counts := make(map[string]int)
	b := bus.New()
	b.Subscribe(vocabulary.Vocabulary(vocabulary.Argyll).Subscriber(func(e vocabulary.Event) { counts[e.Name]++ }))
	st := state.New(state.WithPublisher(b))
	items := actors.Group{Name: "payments", Workers: 2, YieldWaits: true, CollectAll: true}
	done, err := actors.Map(st.Context(ctx), items, charge, []flaky.Request{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}, {Path: "/declined"}})
	var failed *actors.GroupError
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	b.Close()
	fmt.Printf("%q, %d charged, %d failed\n", done, service.Effects(), len(failed.Failed))
	fmt.Println(counts)
	return nil
}
