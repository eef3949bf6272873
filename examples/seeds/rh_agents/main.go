// Rh_agents runs an agent, with the retry levels of the rh_agents specification,
// against a service that is unavailable at first. The output looks like that in the
// specification.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/examples/seeds/flaky"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/state"
)

//go:embed retry.yaml
var retry []byte

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		log.Fatalf("rh_agents: unexpected argument %q; want none", os.Args[1])
	}
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	document, err := config.Parse(retry)
	if err != nil {
		return err
	}
	service := flaky.Start(3)
	defer service.Close()
	ask := func(ctx context.Context, in flaky.Request) (string, error) { return service.Call(ctx, in.Path, "") }
	fiveAttempts := decorators.Tool("flaky_tool", "A tool with five attempts.", ask)
	threeAttempts := decorators.Tool("fetch_data", "A tool with three attempts.", ask)
	agent := decorators.Agent("collect", "Collects.", func(ctx context.Context, _ struct{}) (string, error) {
		first, err := fiveAttempts.Call(ctx, flaky.Request{Path: "/first"})
		if err != nil {
			return "", err
		}
		_, failed := threeAttempts.Call(ctx, flaky.Request{Path: "/second"})
		return fmt.Sprintf("%s; the second failed: %v", first, failed != nil), nil
	})
	p := printer.New(out)
	st := state.New(append(document.Options(), state.WithPublisher(p))...)
	answer, err := agent.Call(st.Context(ctx), struct{}{})
	if err := errors.Join(err, st.Close(), p.Close()); err != nil {
		return err
	}
	fmt.Fprintln(out, answer)
	return nil
}
