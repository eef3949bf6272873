package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

type flags struct {
	addr string
	seed uint64
	rate float64
}

func parseFlags() flags {
	var f flags
	flag.StringVar(&f.addr, "addr", "127.0.0.1:7717", "the loopback `address` to serve the dashboard on; port 0 selects a free port")
	flag.Uint64Var(&f.seed, "seed", 0, "the `seed` of the random behavior of services and runs (default: a different one each time)")
	flag.Float64Var(&f.rate, "rate", 24, "the number of `runs` started per minute, greater than 0 and at most 600")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Runs agents whose services fail and recover, and serves a page to watch them.\n\nUsage: dashboard [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := f.check(); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(exitUsage)
	}
	if f.seed == 0 {
		f.seed = uint64(time.Now().UnixNano())
	}
	return f
}

func (f *flags) check() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; only flags are accepted; see -help", flag.Arg(0))
	}
	if !(f.rate > 0 && f.rate <= 600) {
		return fmt.Errorf("-rate is %v: want more than 0 and at most 600 runs a minute", f.rate)
	}
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return fmt.Errorf("-addr: %w; want host:port, such as 127.0.0.1:7717", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("-addr is on %q: want this machine's own 127.0.0.1, ::1 or localhost, because anyone who can reach the page can interrupt runs", host)
	}
	return nil
}

func main() {
	f := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, f)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(exitFailed)
	}
}

// serve runs the agents and serves the page until ctx ends.
func serve(ctx context.Context, f flags) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return fmt.Errorf("%w; use -addr to choose another address", err)
	}
	store := memstore.New()
	agents := newFleet(store, newWorld(f.seed))
	dash, err := streamer.New(stored.New(store), streamer.Options{Control: control{stored.NewControl(store), agents}})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	agents.dash = dash

	server := &http.Server{Handler: dash, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("The dashboard is at http://%s/\nCtrl-C ends it.\n", listener.Addr())

	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		agents.work(ctx, f.rate)
	}()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	cancel()
	<-ended // wait until every run has recorded its interruption
	return errors.Join(err, shutDown(dash, server))
}

// shutDown closes the event streams, which would not end by themselves, and the server. The streams
// get half a second to end.
func shutDown(dash *streamer.Handler, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	return errors.Join(dash.Close(ctx), server.Close())
}
