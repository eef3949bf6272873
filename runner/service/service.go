package service

import (
	"cmp"
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
	"github.com/reprise-go/reprise/internal/httpserver"
	"github.com/reprise-go/reprise/internal/loopback"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// Options configure [Serve].
type Options struct {
	// Dir is the directory in which runs are kept. Defaults to "reprise-data", as does the flag
	// --dir of the reprise command.
	Dir string

	// Store keeps the runs instead of Dir. With a JetStream store, for example, Runner.Queue is the
	// store's queue. Nil means a file store in Dir. Serve does not close Store.
	Store snapshot.Store

	// Shared specifies that Store also holds runs of other processes. The dashboard then also shows
	// the records of those runs.
	Shared bool

	// OpenStore opens the store specified by [MainWith]'s flag -store, such as a database that many
	// processes share. If the flag is not given, runs are kept in Dir. If OpenStore is nil, there
	// is no -store flag.
	OpenStore OpenStore

	// Addr is the address at which HTTP is served. Without Streamer.Authorize, it must be a
	// loopback address. Defaults to 127.0.0.1:8080; port 0 means any free port.
	Addr string

	Runner   runner.Options
	Streamer streamer.Options // its Control, Starter, Continuer, Forker, Threads, Queue and Elsewhere are set from the runner

	// Thread is the program that answers in new threads, unless a message names another program;
	// see conversation.NewProgram. It may be empty if there is no such program.
	Thread string

	// TLS is the configuration for HTTPS. Nil means HTTP.
	TLS *tls.Config

	// Routes are the program's own handlers, for example for webhooks, keyed by http.ServeMux
	// pattern, such as "POST /hooks/stripe". A path must have at least two segments, and must not
	// begin with /api/, /debug/, /healthz/, /readyz/ or /metrics/. Streamer.Authorize is not called
	// for these handlers: each handler must authenticate its callers itself.
	Routes map[string]http.Handler

	// Ready is called with the dashboard's URL once the dashboard is being served. It may be nil.
	Ready func(url string)

	// Log receives messages about what happens to runs. Problems have the levels warn and error. If
	// Log is nil, nothing is logged.
	Log *slog.Logger
}

const (
	closeTimeout      = 5 * time.Second
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
)

const defaultDir = "reprise-data"

// defaultGrace is the default of runner.Options.Grace.
const defaultGrace = 10 * time.Second

// Serve serves the programs that register adds, until ctx ends and the runs have stopped. If
// register fails, Serve returns the error before anything is served. See [runner.Runner.Serve].
func Serve(ctx context.Context, o Options, register func(*runner.Runner) error) error {
	if register == nil {
		return errors.New("service: register is nil; it registers the programs of the service")
	}
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

// withHTTP2 returns a copy of config that offers HTTP/2 to clients.
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
	if authorized || loopback.Is(host) {
		return nil
	}
	return fmt.Errorf("service: Addr is %q; want a loopback address, such as 127.0.0.1:8080, or Streamer.Authorize, so that clients on other machines are authenticated", addr)
}

// A service is a runner with its dashboard.
type service struct {
	runner    *runner.Runner
	dashboard *streamer.Handler
	server    *http.Server
	files     *filestore.Store // nil if Options.Store is set
	stored    *stored.Runs
	pages     *pages
	shared    *stored.Runs  // the runs of all processes; nil if all runs belong to this process
	grace     time.Duration // how long open runs may continue when the service stops
	log       *slog.Logger  // nil if nothing is logged
}

func newService(o *Options, register func(*runner.Runner) error) (*service, error) {
	if o.Store != nil {
		return serviceOn(o.Store, o, register)
	}
	var options []filestore.Option
	if o.Log != nil {
		options = append(options, filestore.WithWarnings(func(runID string, err error) { o.Log.Warn(err.Error(), "run", runID) }))
	}
	files, err := filestore.New(o.Dir, options...)
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
	control := new(Control) // its runner is set before serving starts
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
	s.grace = max(cmp.Or(o.Runner.Grace, defaultGrace), 0)
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

// serve serves until ctx ends or an error occurs. The runs stop before the server does, so that
// clients watching a run see how it ends.
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
		serving.Go(func() { s.follow(ctx, func() error { return s.shared.Follow(ctx, s.dashboard) }) })
	}
	serving.Go(func() {
		s.follow(ctx, func() error {
			return s.stored.FollowChanges(ctx, s.dashboard.PublishDeletion, s.dashboard.PublishStopping)
		})
	})
	log, asked := &logger{to: s.log}, make(chan time.Time, 1)
	notAsked := context.AfterFunc(ctx, func() {
		log.stopping(s.runner.Stats().Open, s.grace)
		asked <- time.Now()
	})
	err := s.runner.Serve(ctx)
	isAsked := !notAsked()
	if failed := context.Cause(ctx); failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	cancel(nil)
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	err = errors.Join(err, s.dashboard.Close(closing), httpserver.Shutdown(closing, s.server))
	serving.Wait()
	s.pages.close()
	if s.files != nil {
		err = errors.Join(err, s.files.Close())
	}
	if isAsked {
		log.stopped(time.Since(<-asked))
	}
	return err
}

// follow calls the given function repeatedly until ctx ends. That function publishes what happens
// in the store, and returns if the store cannot be reached.
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

// followRetryDelay is the time to wait after an error from the store.
const followRetryDelay = time.Second
