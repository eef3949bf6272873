package service_test

import (
	"context"
	"fmt"
	"os"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
)

// A program calls Main, or Serve if it needs more control.
func Example() {
	support := decorators.Agent("support", "Answers tickets.", func(context.Context, struct{}) (string, error) {
		return "Thank you.", nil
	})
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	err = service.Serve(ctx, service.Options{Dir: dir, Addr: "127.0.0.1:0", Ready: func(string) {
		fmt.Println("ready")
		stop() // here, clients would start runs
	}}, func(r *runner.Runner) error {
		runner.Register(r, support)
		return nil
	})
	fmt.Println(err)
	// Output:
	// ready
	// <nil>
}
