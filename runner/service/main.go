package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// Main is the main function of a service for the programs that register adds. It returns when the
// service has stopped. If an error occurs, for example in register, it exits with status 1. Runs
// that did not stop when they were interrupted are logged, but do not count as an error, because
// the service continues them when it is started again.
func Main(register func(*runner.Runner) error) { MainWith(Options{}, register) }

// MainWith is like Main but takes options. Flags and environment variables that are set override
// the options. If [Options.OpenStore] is set, there is also a -store flag.
func MainWith(o Options, register func(*runner.Runner) error) {
	if status := run(os.Args, o, register); status != 0 {
		os.Exit(status)
	}
}

// An OpenStore opens the store specified by a URL, and the store's queue. The service calls done
// when it ends.
type OpenStore func(ctx context.Context, url string) (store snapshot.Store, queue runner.Queue, done func() error, err error)

// run runs the service and returns the exit status.
func run(args []string, o Options, register func(*runner.Runner) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(args, o, os.LookupEnv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if err := serveOn(ctx, &s.Options, s.store, register); isOnly(err, runner.ErrNotStopped) {
		(&logger{to: s.Log}).left(err)
	} else if err != nil {
		var network *net.OpError
		if errors.As(err, &network) && network.Op == "listen" {
			err = fmt.Errorf("%w; -addr selects another address", err)
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// isOnly reports whether all errors joined in err match target. It is false for nil.
func isOnly(err, target error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isOnly(err, target) })
	}
	return errors.Is(err, target)
}

// serveOn serves the runs in the store specified by url, or in o.Dir if url is empty.
func serveOn(ctx context.Context, o *Options, url string, register func(*runner.Runner) error) error {
	where, done := o.Dir, func() error { return nil }
	if url != "" {
		store, queue, end, err := o.OpenStore(ctx, url)
		if err != nil {
			return err
		}
		where, done = "the store", end
		o.Store, o.Runner.Queue, o.Shared = store, queue, true
	}
	if o.Ready == nil {
		o.Ready = func(url string) {
			fmt.Fprintf(os.Stderr, "runs of %s are at %s (Ctrl-C ends it)\n", where, url)
		}
	}
	return errors.Join(Serve(ctx, *o, register), done())
}
