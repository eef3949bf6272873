package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/internal/storeurl"
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
	storeURL := flags.String("url", cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), "the `URL` of the store: its servers, separated by commas, and the parameters that a service allows, such as nats://a:4222,nats://b:4222?store=support; defaults to NATS_URL in the environment")
	name := flags.String("store", "", "the `name` of the store, if the URL does not contain one; by default reprise")
	credentials := flags.String("creds", "", "a `file` with credentials for the servers")
	domain := flags.String("domain", "", "the JetStream `domain` of the servers that keep the store")
	prefix := flags.String("api-prefix", "", "the subject `prefix` for requests to JetStream, in place of $JS.API, if JetStream is imported from another account")
	replicas := flags.Int("replicas", 0, "the `number` of servers that keep each run, for a store that does not exist yet; by default 1")
	flags.Usage = func() {
		fmt.Fprintln(errs, "reprise-jetstream [flags] "+usage)
		flags.PrintDefaults()
	}
	args, err := runcopy.Parse(flags, args)
	if err != nil {
		return err
	}
	servers, o, credentialsFile, err := parseURL(*storeURL)
	if err == nil {
		err = errors.Join(agree("store", &o.Name, *name), agree("creds", &credentialsFile, *credentials), agree("domain", &o.Domain, *domain),
			agree("api-prefix", &o.APIPrefix, *prefix), agree("replicas", &o.Replicas, *replicas))
	}
	if err != nil {
		return err
	}
	if len(args) == 2 && args[0] == "permissions" {
		text, err := jetstream.PermissionsConfig(o, jetstream.Role(args[1]))
		fmt.Fprint(out, text)
		return err
	}
	do, err := command(args, out)
	if err != nil {
		return err
	}
	options := []nats.Option{nats.Name("reprise-jetstream"), nats.IgnoreAuthErrorAbort()}
	if credentialsFile != "" {
		options = append(options, nats.UserCredentials(credentialsFile))
	}
	conn, err := nats.Connect(servers, options...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", withoutPasswords(servers), err)
	}
	defer conn.Close()
	store, err := jetstream.Open(ctx, conn, o)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, store), store.Close())
}

// parseURL parses a store's URL as a service does, except that a server's scheme may be missing.
func parseURL(storeURL string) (servers string, o jetstream.Options, credentials string, err error) {
	list, query, found := strings.Cut(storeURL, "?")
	var urls []string
	for server := range strings.SplitSeq(list, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		urls = append(urls, server)
	}
	if list = strings.Join(urls, ","); found {
		list += "?" + query
	}
	if servers, o, credentials, err = storeurl.Parse(list); err != nil {
		err = fmt.Errorf("the store: %w", err)
	}
	return servers, o, credentials, err
}

// agree sets an option to the value of a flag if the flag was given. If the URL has also set the
// option, the two values must be equal.
func agree[T comparable](flagName string, option *T, given T) error {
	var none T
	if *option != none && given != none && *option != given {
		return fmt.Errorf("the store's URL has %s=%v, but -%s is %v; want only one of them", strings.ReplaceAll(flagName, "-", "_"), *option, flagName, given)
	}
	*option = cmp.Or(*option, given)
	return nil
}

func withoutPasswords(servers string) string {
	urls := strings.Split(servers, ",")
	for i, server := range urls {
		if u, err := url.Parse(server); err == nil { // storeurl has already parsed it
			urls[i] = u.Redacted()
		}
	}
	return strings.Join(urls, ",")
}

// command returns the command that the arguments name. Errors in the arguments are reported before
// any connection is made.
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
	r := s.RepairReport() // Open may already have repaired the store
	fmt.Fprintf(out, "%d runs were missing from the list, or outdated in it\n%d runs that do not exist were removed from the list\n%d runs were queued again\n", r.Shown, r.Hidden, r.Queued)
	return err
}
