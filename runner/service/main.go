package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/reprise-go/reprise/runner"
)

// Main is the main function of a program that serves the programs which register
// registers. It does not return before the program is to end, and ends it with
// status 1 after an error, such as that of register.
func Main(register func(*runner.Runner) error) { MainWith(Options{}, register) }

// MainWith is Main for a service with options of the program's own. What the flags and
// variables set takes their place.
func MainWith(o Options, register func(*runner.Runner) error) {
	if status := run(os.Args, o, register); status != 0 {
		os.Exit(status)
	}
}

// run returns the status to end with.
func run(args []string, o Options, register func(*runner.Runner) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(args, o, os.LookupEnv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if o.Ready == nil {
		o.Ready = func(url string) {
			fmt.Fprintf(os.Stderr, "runs of %s are at %s (Ctrl-C ends it)\n", o.Dir, url)
		}
	}
	if err := Serve(ctx, o, register); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
