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
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
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

const usage = "runs | copy-from DIR [RUN...] | copy-to DIR [RUN...] | export RUN FILE | import FILE... | gc [GRACE] | repair | init | permissions ROLE"

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("reprise-jetstream", flag.ContinueOnError)
	flags.SetOutput(errs)
	url := flags.String("url", cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), "the `servers`, separated by commas; NATS_URL in the environment")
	name := flags.String("store", "reprise", "the `name` of the store")
	credentials := flags.String("creds", "", "a `file` with credentials of the servers")
	domain := flags.String("domain", "", "the JetStream `domain` of the servers that keep the store")
	prefix := flags.String("api-prefix", "", "what requests to JetStream begin with instead of $JS.API, where it is imported from another `account`")
	replicas := flags.Int("replicas", 1, "on how many servers a store that does not exist yet keeps each run")
	flags.Usage = func() {
		fmt.Fprintln(errs, "reprise-jetstream [flags] "+usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	o := jetstream.Options{Name: *name, Replicas: *replicas, Domain: *domain, APIPrefix: *prefix}
	if flags.Arg(0) == "permissions" && flags.NArg() == 2 {
		text, err := jetstream.PermissionsConfig(o, jetstream.Role(flags.Arg(1)))
		fmt.Fprint(out, text)
		return err
	}
	do, err := command(flags.Args(), out)
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

// command is what the arguments ask for. What is wrong with them is said before
// anything is connected to.
func command(args []string, out io.Writer) (func(context.Context, *jetstream.Store) error, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	switch name, rest := args[0], args[1:]; {
	case name == "runs" && len(rest) == 0:
		return func(ctx context.Context, s *jetstream.Store) error { return list(ctx, s, out) }, nil
	case name == "copy-from" && len(rest) > 0:
		return func(ctx context.Context, s *jetstream.Store) error {
			if _, err := os.Stat(rest[0]); err != nil {
				return err
			}
			return inDirectory(rest[0], func(dir snapshot.Store) error { return runcopy.Runs(ctx, s, dir, rest[1:], out) })
		}, nil
	case name == "copy-to" && len(rest) > 0:
		return func(ctx context.Context, s *jetstream.Store) error {
			return inDirectory(rest[0], func(dir snapshot.Store) error { return runcopy.Runs(ctx, dir, s, rest[1:], out) })
		}, nil
	case name == "export" && len(rest) == 2:
		return func(ctx context.Context, s *jetstream.Store) error { return export(ctx, s, rest[0], rest[1]) }, nil
	case name == "import" && len(rest) > 0:
		return func(ctx context.Context, s *jetstream.Store) error { return importRuns(ctx, s, rest, out) }, nil
	case name == "init" && len(rest) == 0:
		return func(ctx context.Context, s *jetstream.Store) error {
			_, err := jetstream.OpenQueue(ctx, s)
			if err == nil {
				fmt.Fprintln(out, "the streams of the store are there")
			}
			return err
		}, nil
	case name == "repair" && len(rest) == 0:
		return func(ctx context.Context, s *jetstream.Store) error { return repair(ctx, s, out) }, nil
	case name == "gc" && len(rest) <= 1:
		grace := time.Hour
		if len(rest) == 1 {
			var err error
			if grace, err = time.ParseDuration(rest[0]); err != nil || grace < 0 {
				return nil, fmt.Errorf("gc %q: want a duration of 0 or more, such as 1h", rest[0])
			}
		}
		return func(ctx context.Context, s *jetstream.Store) error {
			cost, err := s.GCCost(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "reading %v\n", cost)
			removed, err := s.GC(ctx, grace)
			fmt.Fprintf(out, "%d artifacts are removed\n", removed)
			return err
		}, nil
	}
	return nil, fmt.Errorf("got %q, want %s", args, usage)
}

// repair mends the list of runs and the queue, and says what it did.
func repair(ctx context.Context, s *jetstream.Store, out io.Writer) error {
	if _, err := jetstream.OpenQueue(ctx, s); err != nil {
		return err
	}
	_, err := s.Repair(ctx)
	r := s.Repaired() // Open may have done it
	fmt.Fprintf(out, "%d runs are shown that were not, or not as they were\n%d runs are no longer shown that do not exist\n%d runs are queued anew\n", r.Shown, r.Hidden, r.Queued)
	return err
}

func inDirectory(dir string, do func(snapshot.Store) error) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return do(store)
}

func list(ctx context.Context, s snapshot.Store, out io.Writer) error {
	page, err := s.List(ctx, snapshot.Filter{})
	for i := range page.Runs {
		info := &page.Runs[i]
		fmt.Fprintf(out, "%s\t%s\t%s\t%d records\n", info.RunID, info.Status, info.Updated.Format(time.RFC3339), info.LastSeq)
	}
	return err
}
