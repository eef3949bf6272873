package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/internal/runcopy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const usage = runcopy.Usage + " | export RUN FILE | import FILE... | repair | init | permissions ROLE"

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("reprise-jetstream", flag.ContinueOnError)
	flags.SetOutput(errs)
	url := flags.String("url", cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), "the `servers`, separated by commas; NATS_URL in the environment")
	name := flags.String("store", "reprise", "the `name` of the store")
	credentials := flags.String("creds", "", "a `file` with credentials of the servers")
	domain := flags.String("domain", "", "the JetStream `domain` of the servers that keep the store")
	prefix := flags.String("api-prefix", "", "the prefix of requests to JetStream instead of $JS.API, if JetStream is imported from another `account`")
	replicas := flags.Int("replicas", 1, "the number of servers that keep each run, for a store that does not exist yet")
	flags.Usage = func() {
		fmt.Fprintln(errs, "reprise-jetstream [flags] "+usage)
		flags.PrintDefaults()
	}
	args, err := runcopy.Parse(flags, args)
	if err != nil {
		return err
	}
	o := jetstream.Options{Name: *name, Replicas: *replicas, Domain: *domain, APIPrefix: *prefix}
	if len(args) == 2 && args[0] == "permissions" {
		text, err := jetstream.PermissionsConfig(o, jetstream.Role(args[1]))
		fmt.Fprint(out, text)
		return err
	}
	do, err := command(args, out)
	if err != nil {
		return err
	}
	options := []nats.Option{nats.Name("reprise-jetstream")}
	if *credentials != "" {
		options = append(options, nats.UserCredentials(*credentials))
	}
	conn, err := nats.Connect(*url, options...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", *url, err)
	}
	defer conn.Close()
	store, err := jetstream.Open(ctx, conn, o)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, store), store.Close())
}

// command returns the command in the arguments. Errors in the arguments are
// reported before any connection is made.
func command(args []string, out io.Writer) (func(context.Context, *jetstream.Store) error, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	do, err := runcopy.Command(args, out)
	if err != nil {
		return nil, err
	}
	switch name, rest := args[0], args[1:]; {
	case name == "gc" && do != nil:
		return func(ctx context.Context, s *jetstream.Store) error {
			cost, err := s.GCCost(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "reading %v\n", cost)
			return do(ctx, s)
		}, nil
	case do != nil:
		return func(ctx context.Context, s *jetstream.Store) error { return do(ctx, s) }, nil
	case name == "export" && len(rest) == 2:
		return func(ctx context.Context, s *jetstream.Store) error { return export(ctx, s, rest[0], rest[1]) }, nil
	case name == "import" && len(rest) > 0:
		return func(ctx context.Context, s *jetstream.Store) error { return importRuns(ctx, s, rest, out) }, nil
	case name == "init" && len(rest) == 0:
		return func(ctx context.Context, s *jetstream.Store) error {
			_, err := jetstream.OpenQueue(ctx, s)
			if err == nil {
				fmt.Fprintln(out, "the streams of the store exist")
			}
			return err
		}, nil
	case name == "repair" && len(rest) == 0:
		return func(ctx context.Context, s *jetstream.Store) error { return repair(ctx, s, out) }, nil
	}
	return nil, fmt.Errorf("got %q, want %s", args, usage)
}

// repair corrects the list of runs and the queue, and prints what it has changed.
func repair(ctx context.Context, s *jetstream.Store, out io.Writer) error {
	if _, err := jetstream.OpenQueue(ctx, s); err != nil {
		return err
	}
	_, err := s.Repair(ctx)
	r := s.RepairReport() // Open may have repaired the store already
	fmt.Fprintf(out, "%d runs were missing from the list, or outdated in it\n%d runs that do not exist were removed from the list\n%d runs were queued again\n", r.Shown, r.Hidden, r.Queued)
	return err
}
