package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// Options configure [Serve].
type Options struct {
	// Dir is the directory in which runs are kept. Defaults to "reprise-data", like
	// the flag --dir of the command reprise.
	Dir string

	// Store keeps the runs instead of Dir, for example a store on JetStream, whose queue is then
	// Runner.Queue. Nil means a file store in Dir. Serve does not close it.
	Store snapshot.Store

	// Shared says that other processes have runs in Store, too: the dashboard then shows their
	// records like those of this process.
	Shared bool

	// OpenStore opens the store that the flag -store of [MainWith] names, such as a database
	// that many processes share; without the flag, runs are kept in Dir. If OpenStore is nil,
	// there is no such flag.
	OpenStore OpenStore

	// Addr is where HTTP is served. Without Streamer.Authorize it must be a
	// loopback address. Defaults to 127.0.0.1:8080; port 0 means any free port.
	Addr string

	Runner   runner.Options
	Streamer streamer.Options // its Control, Starter, Continuer, Forker, Threads, Queue and Elsewhere are those of the runner

	// Thread is the program that answers in new threads, see conversation.NewProgram,
	// unless a message names another. Empty for none.
	Thread string

	// TLS is the configuration for HTTPS. Nil means HTTP.
	TLS *tls.Config

	// Routes are additional handlers of the program, such as for webhooks, by pattern as in
	// http.ServeMux, such as "POST /hooks/stripe". A path has at least two segments, and does not
	// begin with /api/, /debug/, /healthz/, /readyz/ or /metrics/. Streamer.Authorize is not called
	// for them: a handler must authenticate its callers itself.
	Routes map[string]http.Handler

	// Ready is called with the URL of the dashboard when it is served. It may be nil.
	Ready func(url string)

	// Log receives what runs do, and, with the levels warn and error, problems. If it is nil,
	// nothing is logged.
	Log *slog.Logger
}

const (
	closeTimeout      = 5 * time.Second
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
)

const defaultDir = "reprise-data"

// Serve serves the programs that register registers, until ctx ends and its runs
// have stopped. An error of register is returned before anything is served. See
// [runner.Runner.Serve].
func Serve(ctx context.Context, o Options, register func(*runner.Runner) error) error {
	if o.Dir == "" {
		o.Dir = defaultDir
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:8080"
	}
	if err := checkAddr(o.Addr, o.Streamer.Authorize != nil); err != nil {
		return err
	}
	s, err := newService(&o, register)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), s.dashboard.Close(ctx))
	}
	scheme := "http"
	if o.TLS != nil {
		scheme, listener = "https", tls.NewListener(listener, withHTTP2(o.TLS))
	}
	if o.Ready != nil {
		o.Ready(fmt.Sprintf("%s://%s/", scheme, listener.Addr()))
	}
	return s.serve(ctx, listener)
}

// withHTTP2 offers HTTP/2 to clients, without changing the config of the caller.
func withHTTP2(config *tls.Config) *tls.Config {
	config = config.Clone()
	if len(config.NextProtos) == 0 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return config
}

func checkAddr(addr string, authorized bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("service: Addr is %q; want a host and a port, such as 127.0.0.1:8080", addr)
	}
	if authorized || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("service: Addr is %q; want a loopback address, such as 127.0.0.1:8080, or Streamer.Authorize, so that clients on other machines are authenticated", addr)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A service is a runner with its dashboard.
type service struct {
	runner    *runner.Runner
	dashboard *streamer.Handler
	server    *http.Server
	files     *filestore.Store // nil if the store is an option
	stored    *stored.Runs
	pages     *pages
	shared    *stored.Runs // the runs of all processes; nil if this process has all runs
	log       *slog.Logger // nil for none
}

func newService(o *Options, register func(*runner.Runner) error) (*service, error) {
	if o.Store != nil {
		return serviceOn(o.Store, o, register)
	}
	files, err := filestore.New(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := serviceOn(files, o, register)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s.files = files
	return s, nil
}

func serviceOn(store snapshot.Store, o *Options, register func(*runner.Runner) error) (*service, error) {
	control := new(Control) // its runner is set before anything is served
	o.Streamer.Threads = &threads{control, o.Thread}
	o.Streamer.Control, o.Streamer.Starter, o.Streamer.Continuer, o.Streamer.Forker = control, control, control, stored.NewControl(store)
	o.Streamer.Queue = func() streamer.Queue {
		s := control.runner.Stats()
		return streamer.Queue{Queued: s.Queued, Parked: s.Parked, Open: s.Open, Limit: s.Limit}
	}
	o.Streamer.Elsewhere = func(ctx context.Context, runID string) bool {
		elsewhere, err := control.runner.IsOpenElsewhere(ctx, runID)
		return elsewhere && err == nil
	}
	runs := stored.New(store)
	dashboard, err := streamer.New(runs, o.Streamer)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(store, o, dashboard)
	if err != nil {
		return nil, errors.Join(err, dashboard.Close(context.Background()))
	}
	if err := register(r); err != nil {
		return nil, errors.Join(err, dashboard.Close(context.Background()))
	}
	control.runner = r
	mux := http.NewServeMux()
	mux.Handle("/", dashboard)
	pages, err := newPages(mux, dashboard, o, control)
	if err != nil {
		return nil, errors.Join(err, dashboard.Close(context.Background()))
	}
	mux.Handle("GET /debug/vars", dashboard.Admit(vars(r)))
	mux.Handle("GET /metrics", dashboard.Admit(metrics(r, dashboard)))
	mux.HandleFunc("GET /healthz", serveHealthz)
	mux.HandleFunc("GET /readyz", serveReadyz(r, &logger{to: o.Log}))
	if err := addRoutes(mux, o.Routes); err != nil {
		return nil, errors.Join(err, dashboard.Close(context.Background()))
	}
	server := &http.Server{
		ErrorLog: (&logger{to: o.Log}).ofServer(), Handler: mux, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	s := &service{runner: r, dashboard: dashboard, server: server, stored: runs, pages: pages, log: o.Log}
	if o.Shared {
		s.shared = runs
	}
	return s, nil
}

func newRunner(store snapshot.Store, o *Options, dashboard *streamer.Handler) (*runner.Runner, error) {
	options := o.Runner
	if !o.Shared {
		options.Run = append([]state.Option{state.WithPublisher(dashboard)}, options.Run...)
	}
	of := options.Context
	options.Context = func(ctx context.Context) context.Context {
		if of != nil {
			ctx = of(ctx)
		}
		return live.Watch(ctx, dashboard.PublishDelta)
	}
	observe, log := options.Observe, &logger{o.Log, dashboard.RedactText}
	if o.Log != nil {
		options.Run = append([]state.Option{state.WithInterceptors(log.panics())}, options.Run...)
	}
	options.Observe = func(n runner.Notice) {
		log.notice(&n)
		if observe != nil {
			observe(n)
		}
	}
	return runner.New(store, options)
}

// serve serves until ctx ends, or something fails. Runs stop first, so that clients that watch them
// see how they end.
func (s *service) serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	})
	if s.shared != nil {
		serving.Go(func() { s.follow(ctx, func() error { return s.shared.Follow(ctx, s.dashboard.Publish) }) })
	}
	serving.Go(func() {
		s.follow(ctx, func() error {
			return s.stored.FollowChanges(ctx, s.dashboard.PublishDeletion, s.dashboard.PublishStopping)
		})
	})
	err := s.runner.Serve(ctx)
	if failed := context.Cause(ctx); failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	cancel(nil)
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	err = errors.Join(err, s.dashboard.Close(closing), s.server.Shutdown(closing))
	serving.Wait()
	s.pages.close()
	if s.files != nil {
		err = errors.Join(err, s.files.Close())
	}
	return err
}

// follow publishes the records of all processes until ctx ends. If the store cannot be reached,
// it tries again.
func (s *service) follow(ctx context.Context, follow func() error) {
	for ctx.Err() == nil {
		if err := follow(); ctx.Err() == nil && s.log != nil {
			s.log.Warn("records of other processes are not shown at present", "error", err)
		}
		again := time.NewTimer(followRetryDelay)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// followRetryDelay is the time to wait after an error of a store.
const followRetryDelay = time.Second
