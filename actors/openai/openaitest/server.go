package openaitest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

const (
	basePath      = "/v1"
	chatPath      = basePath + "/chat/completions"
	responsesPath = basePath + "/responses"
)

// API is the API that a request was made by.
type API string

// The APIs.
const (
	Chat      API = "chat"
	Responses API = "responses"
)

// apiOf reads a path, of OpenAI or of Azure.
func apiOf(path string) (api API, known bool) {
	azure := strings.HasPrefix(path, "/openai/deployments/") && strings.HasSuffix(path, "/chat/completions")
	switch {
	case path == chatPath, azure:
		return Chat, true
	case path == responsesPath, path == "/openai/responses":
		return Responses, true
	}
	return "", false
}

var (
	// ErrUnexpected is the kind of a request the script did not expect.
	ErrUnexpected = errors.New("unexpected request")

	// ErrUnplayed is the kind of a script that ended before its last step.
	ErrUnplayed = errors.New("unplayed steps")
)

// T is the part of *testing.T and *testing.B that New needs. Errorf is called
// from the goroutines that serve requests, and never after Close.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// A Server answers requests from a script. It is for many goroutines. Make
// one with New, NewLocal or Start.
type Server struct {
	t    T // nil outside of tests
	http http.Server
	addr string // empty for a local one

	closing sync.Once
	closed  chan struct{}  // closed when Close begins: ends every wait
	running sync.WaitGroup // the accept loop, connections and exchanges

	mu       sync.Mutex
	script   script
	requests []Request
	faults   []error
	calls    int // tool call IDs given
}

// New starts a server that plays steps, reports to t whatever the script did
// not expect, and closes when the test ends. Like httptest.NewServer it panics
// when the loopback interface gives no port; it also panics when a step
// follows a Forever step.
func New(t T, steps ...Step) *Server {
	t.Helper()
	s, err := start(t, steps)
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() {
		t.Helper()
		_ = s.Close() // Close has reported it to t already.
	})
	return s
}

// NewLocal is New without a socket: what its Client sends is answered within
// the process. In a testing/synctest bubble the clock moves while all wait, so
// that delays of an hour take no time.
func NewLocal(t T, steps ...Step) *Server {
	t.Helper()
	s := newServer(t, steps)
	t.Cleanup(func() {
		t.Helper()
		_ = s.Close() // Close has reported it to t already.
	})
	return s
}

// Start starts a server that plays steps, for programs that are not tests. The
// caller closes it; Close and Err say what went wrong. Start panics when a
// step follows a Forever step.
func Start(steps ...Step) (*Server, error) {
	return start(nil, steps)
}

func start(t T, steps []Step) (*Server, error) {
	s := newServer(t, steps)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("openaitest: listen: %w", err)
	}
	s.addr = ln.Addr().String()
	s.http.Handler = http.HandlerFunc(s.serve)
	s.http.ConnState = s.track
	s.http.ErrorLog = log.New(io.Discard, "", 0) // What matters is a fault, not a log line.
	s.running.Go(func() { _ = s.http.Serve(ln) })
	return s, nil
}

func newServer(t T, steps []Step) *Server {
	return &Server{t: t, closed: make(chan struct{}), script: newScript(steps)}
}

// track counts the connections, so that Close can wait for them.
func (s *Server) track(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.running.Add(1)
		if s.isClosed() {
			// Accepted too late for http.Server.Close to know of it.
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.running.Done()
	}
}

// URL is the base URL to give to a client: "http://127.0.0.1:port/v1".
func (s *Server) URL() string { return s.AzureURL() + basePath }

// AzureURL is the base URL of a client that asks for paths as Azure has them.
func (s *Server) AzureURL() string {
	if s.addr == "" {
		return "http://openaitest.invalid"
	}
	return "http://" + s.addr
}

// Client returns an HTTP client whose requests are answered by the server
// within the process, whatever their host: no socket is used.
func (s *Server) Client() *http.Client { return &http.Client{Transport: localTransport{s}} }

// Requests returns everything the server was asked, refused requests too, in
// order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Err returns what went wrong so far: each unexpected request (ErrUnexpected)
// and, once Close has been called, the unplayed rest of the script
// (ErrUnplayed). It is nil when all went by the script.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.faults...)
}

// Close ends the server and waits for all that it started. A reply that is
// being delayed is dropped and its connection closed. Close returns Err, with
// the unplayed steps in it; called again, it does nothing more and returns the
// same. It must not be called from a Respond or Expect function.
func (s *Server) Close() error {
	if s.t != nil {
		s.t.Helper()
	}
	s.closing.Do(func() {
		close(s.closed)
		_ = s.http.Close()
		s.running.Wait()

		s.mu.Lock()
		err := s.script.unplayed()
		s.mu.Unlock()
		if err != nil {
			s.report(err)
		}
	})
	return s.Err()
}

func (s *Server) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// report keeps err for Err and tells the test.
func (s *Server) report(err error) {
	err = fmt.Errorf("openaitest: %w", err)
	s.mu.Lock()
	s.faults = append(s.faults, err)
	s.mu.Unlock()
	if s.t != nil {
		s.t.Helper()
		s.t.Errorf("%v", err)
	}
}
