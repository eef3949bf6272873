package jstest

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// readyTimeout limits how long a server may take to start, or a cluster to elect its leader. Even a
// busy machine needs less time; only a fault takes longer.
const readyTimeout = 3 * time.Minute

// An Option configures the servers of a test.
type Option func(*server.Options)

// WithSyncAlways makes a server sync each message to disk before acknowledging it. In production, a
// single server needs this setting to survive a power failure without losing data.
func WithSyncAlways() Option { return func(o *server.Options) { o.SyncAlways = true } }

// WithMaxStore limits the number of bytes that JetStream may store.
func WithMaxStore(bytes int64) Option {
	return func(o *server.Options) { o.JetStreamMaxStore = bytes }
}

// WithMaxPayload limits the size of a message, in bytes. A server's default is 1 MB.
func WithMaxPayload(bytes int32) Option {
	return func(o *server.Options) { o.MaxPayload = bytes }
}

// WithoutJetStream disables JetStream on the server.
func WithoutJetStream() Option { return func(o *server.Options) { o.JetStream = false } }

// A Server is a NATS server with JetStream. It stops at the end of its test.
type Server struct {
	t       testing.TB
	options server.Options
	server  *server.Server
}

// Start starts a server.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	return start(t, optionsIn(t, t.TempDir(), "jstest", options))
}

func optionsIn(t testing.TB, dir, name string, options []Option) server.Options {
	t.Helper()
	o := server.Options{
		ServerName: name, Host: "127.0.0.1", Port: freePorts(t, 1)[0], NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: filepath.Join(dir, name),
	}
	for _, option := range options {
		option(&o)
	}
	return o
}

func start(t testing.TB, o server.Options) *Server {
	t.Helper()
	s := &Server{t: t, options: o}
	t.Cleanup(s.Stop)
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Server) run() error {
	o := s.options // a copy, since the server changes its options
	running, err := server.NewServer(&o)
	if err != nil {
		return fmt.Errorf("jstest: %w", err)
	}
	running.Start()
	s.server = running
	if !running.ReadyForConnections(readyTimeout) {
		return errors.New("jstest: the server does not accept connections")
	}
	return nil
}

// URL returns the URL for clients. It stays the same when the server restarts.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// Stop stops the server. It may be called twice.
func (s *Server) Stop() {
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
		s.server = nil
	}
}

// Restart stops the server and starts it again with the same files.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

// Connect connects to the server. The connection reconnects by itself, however often the server goes
// away, and is closed at the end of the test.
func (s *Server) Connect(options ...nats.Option) *nats.Conn {
	s.t.Helper()
	return Connect(s.t, s.URL(), options...)
}

// Connect connects to the given servers. The connection is closed at the end of the test.
func Connect(t testing.TB, servers string, options ...nats.Option) *nats.Conn {
	t.Helper()
	all := append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0)}, options...)
	conn, err := nats.Connect(servers, all...)
	if err != nil {
		t.Fatalf("jstest: connect to %s: %v", servers, err)
	}
	t.Cleanup(conn.Close)
	return conn
}
