package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/reprise-go/reprise/internal/httpserver"
	"github.com/reprise-go/reprise/internal/loopback"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// serveOptions holds the flags of serve.
type serveOptions struct {
	address string
	control bool
	clients int
	proxied string // host name that the proxy serves; empty if there is no proxy
	redact  redaction
}

func (a *app) serveCommand() *cobra.Command {
	s := serveOptions{address: "127.0.0.1:8080", clients: 1000}
	cmd := &cobra.Command{
		Use:     "serve",
		GroupID: groupInspect,
		Short:   "Show runs in a browser, live",
		Long: "Serve a dashboard of all runs until Ctrl-C, including runs that other processes are\n" +
			"writing. The dashboard is available only on this machine, and not to requests that a\n" +
			"proxy forwards. To show it to others, run a proxy on this machine that authenticates\n" +
			"them and pass its host as --behind-proxy, or mount streamer.New in your own program.\n" +
			"The store keeps unredacted text, even if the program redacts it for display; use\n" +
			"--redact to redact the pages.",
		Example: "  reprise serve\n" +
			"  reprise serve --addr 127.0.0.1:0 --control\n" +
			"  reprise --dir /var/lib/agents serve",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), s)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&s.address, "addr", s.address, "the loopback `address` to listen on; port 0 selects a free port")
	flags.BoolVar(&s.control, "control", false, "let the page interrupt and cancel runs and answer their questions")
	flags.StringVar(&s.proxied, "behind-proxy", "", "also serve requests that a proxy on this machine forwards for this `host`; the proxy must authenticate the clients")
	s.redact.flag(cmd)
	flags.IntVar(&s.clients, "clients", s.clients, "the maximum `number` of pages and programs that watch at the same time")
	return cmd
}

// Limits on connections. readHeaderTimeout cuts off clients that send their request
// header byte by byte. The number of connections is limited to the number of streams
// plus extraConnections for other requests; further connections wait.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
	extraConnections  = 100
	closeTimeout      = 5 * time.Second
)

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
}

// limitListener limits the number of connections that are open at the same time.
func limitListener(l net.Listener, clients int) net.Listener {
	return netutil.LimitListener(l, clients+extraConnections)
}

func (a *app) serve(ctx context.Context, s serveOptions) error {
	if s.clients < 1 {
		return usageErrorf("--clients is %d: want 1 or more", s.clients)
	}
	if strings.ContainsAny(s.proxied, "/:[]") && net.ParseIP(s.proxied) == nil {
		return usageErrorf("--behind-proxy is %q: want a host without scheme and port, such as ops.example.com", printable(s.proxied))
	}
	store, err := a.storeToServe()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, s.address)
	if err != nil {
		return err
	}
	listener = limitListener(listener, s.clients)
	options := streamer.Options{Clients: s.clients, Redact: s.redact.redaction()}
	if s.proxied != "" {
		options.Authorize = s.authorizeProxied
	}
	if s.control {
		control := stored.NewControl(store)
		options.Control, options.Continuer, options.Forker = control, control, control
	}
	runs := stored.New(store)
	handler, err := streamer.New(runs, options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := newServer(handler)
	if err := a.announce(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close(), handler.Close(context.WithoutCancel(ctx)))
	}
	return a.serveUntil(ctx, server, listener, handler, func(ctx context.Context) error {
		var changes sync.WaitGroup
		defer changes.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changes.Go(func() { _ = runs.FollowChanges(ctx, handler.PublishDeletion, handler.PublishStopping) }) // Follow returns the same errors
		return runs.Follow(ctx, handler)
	})
}

// listen listens on a loopback address. It refuses other addresses because clients are
// not authenticated.
func listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usageErrorf("--addr is %q: want a host and a port, such as 127.0.0.1:8080", printable(address))
	}
	if !loopback.Is(host) {
		return nil, usageErrorf("--addr is %q: want a loopback address, such as 127.0.0.1:8080; clients are not authenticated", printable(address))
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &hintError{err, "--addr selects another address"}
	}
	return l, nil
}

// authorizeProxied accepts requests forwarded by the proxy. The host must be the
// proxy's or this machine's. Otherwise, an attacker could point another name at this
// machine, and a page under that name could read what is served here (DNS rebinding).
func (s *serveOptions) authorizeProxied(req *http.Request) (streamer.Access, error) {
	host, _, err := net.SplitHostPort(req.Host)
	if err != nil {
		host = strings.Trim(req.Host, "[]")
	}
	if !strings.EqualFold(host, s.proxied) && !loopback.Is(req.Host) {
		return streamer.Access{}, fmt.Errorf("reprise: a request for %q, which is not %q", host, s.proxied)
	}
	return streamer.Access{Control: true}, nil
}

// announce writes the URL of the dashboard immediately.
func (a *app) announce(address net.Addr) error {
	url := fmt.Sprintf("http://%s/", address)
	if a.json {
		if err := a.writeJSON(map[string]string{"url": url}); err != nil {
			return err
		}
	} else {
		a.printf("the dashboard of %s is at %s (Ctrl-C ends it)\n", a.dir, url)
	}
	if err := a.out.Flush(); err != nil {
		return &outputError{err}
	}
	return nil
}

// serveUntil serves until ctx is done or something fails. It does not return an error if ctx is
// done.
func (a *app) serveUntil(ctx context.Context, server *http.Server, listener net.Listener, handler *streamer.Handler, follow func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var servers sync.WaitGroup
	servers.Go(func() { cancel(server.Serve(listener)) })
	servers.Go(func() { cancel(follow(ctx)) })
	<-ctx.Done()
	err := context.Cause(ctx)
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	closed := errors.Join(handler.Close(closing), httpserver.Shutdown(closing, server))
	servers.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, closed)
}
