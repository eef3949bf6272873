package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/reprise-go/reprise/runner"
)

// Main is the main function of a program that serves the programs which register
// registers. It does not return before the program is to end, and ends it with
// status 1 after an error, such as that of register.
func Main(register func(*runner.Runner) error) {
	if status := run(os.Args, register); status != 0 {
		os.Exit(status)
	}
}

// run returns the status to end with.
func run(args []string, register func(*runner.Runner) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	o.Log = os.Stderr
	o.Ready = func(url string) {
		fmt.Fprintf(os.Stderr, "runs of %s are at %s (Ctrl-C ends it)\n", o.Dir, url)
	}
	if err := Serve(ctx, o, register); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parse reads the flags of a program.
func parse(args []string, out io.Writer) (Options, error) {
	var o Options
	flags := flag.NewFlagSet(filepath.Base(args[0]), flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.Dir, "dir", defaultDir, "the `directory` where runs are kept")
	flags.StringVar(&o.Addr, "addr", "127.0.0.1:8080", "the `address` on this machine where HTTP is served")
	flags.IntVar(&o.Runner.Limit, "limit", 100, "how many runs are open at once")
	flags.DurationVar(&o.Runner.Grace, "grace", 0, "how long runs may go on when the program is to end (default 10s)")
	if err := flags.Parse(args[1:]); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("%s takes no arguments, got %q", flags.Name(), flags.Args())
		fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}
