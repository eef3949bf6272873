package campaign_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/reprise-go/reprise/internal/testkit/campaign"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// Each step of a run adds a line to the ledger and returns it.
func Example() {
	dir, err := os.MkdirTemp("", "campaign")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	work := campaign.Work{Store: memstore.New(), Dir: dir}
	r, err := runner.New(work.Store, runner.Options{})
	if err != nil {
		panic(err)
	}
	work.Register(r)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- r.Serve(ctx) }()
	if _, err := r.Start(ctx, campaign.Program, "r1", campaign.Task{Run: "r1", Steps: 2}, runner.StartOptions{}); err != nil {
		panic(err)
	}
	info, err := r.Wait(ctx, "r1")
	if err != nil {
		panic(err)
	}
	fmt.Println(info.RunID, info.Status)
	ledger, err := os.ReadFile(dir + "/ledger")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(ledger)) {
		step, _, _ := strings.Cut(line, " by ")
		fmt.Println(step)
	}
	stop()
	fmt.Println(<-served)
	// Output:
	// r1 completed
	// r1 0
	// r1 1
	// <nil>
}
