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

// apiOf reports whether a path of OpenAI or Azure belongs to the Responses API, and whether the
// server serves the path.
func apiOf(path string) (responses, known bool) {
	azure := strings.HasPrefix(path, "/openai/deployments/") && strings.HasSuffix(path, "/chat/completions")
	responses = path == responsesPath || path == "/openai/responses"
	return responses, responses || path == chatPath || azure
}

var (
	// ErrUnexpected is matched by every error about a request that the script did not expect.
	ErrUnexpected = errors.New("unexpected request")

	// ErrUnplayed is matched by the error about steps that were not played.
	ErrUnplayed = errors.New("unplayed steps")
)

// T is the subset of *testing.T and *testing.B that New needs. Errorf is called from
// the goroutines that serve requests, but never after Close.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// A Server answers requests according to a script. It is safe for concurrent use.
// Create one with New, NewLocal or Start.
type Server struct {
	t    T // nil outside of tests
	http http.Server
	addr string // empty for a local server

	closing sync.Once
	closed  chan struct{}  // closed when Close begins; ends all waits
	running sync.WaitGroup // the accept loop, connections and exchanges

	mu       sync.Mutex
	script   script
	requests []Request
	faults   []error
	calls    int // the number of tool call IDs assigned so far
}

// New starts a server that plays steps. It reports unexpected requests and unplayed steps to t, and
// closes the server when the test ends. Like httptest.NewServer, it panics if it cannot listen on
// the loopback interface. It also panics if another step follows a Forever step.
func New(t T, steps ...Step) *Server {
	t.Helper()
	s, err := start(t, steps)
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() {
		t.Helper()
		_ = s.Close() // Close has already reported the error to t.
	})
	return s
}

// NewLocal is like New, but without a socket: requests made with Client are
// answered within the process. Use it in a testing/synctest bubble, where delays
// take no real time.
func NewLocal(t T, steps ...Step) *Server {
	t.Helper()
	s := newServer(t, steps)
	t.Cleanup(func() {
		t.Helper()
		_ = s.Close() // Close has already reported the error to t.
	})
	return s
}

// Start starts a server that plays steps, for programs that are not tests. The caller must close
// the server; Close and Err report unexpected requests. Start panics if another step follows a
// Forever step.
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
	s.http.ErrorLog = log.New(io.Discard, "", 0) // Problems are reported by Err, not logged.
	s.running.Go(func() { _ = s.http.Serve(ln) })
	return s, nil
}

func newServer(t T, steps []Step) *Server {
	return &Server{t: t, closed: make(chan struct{}), script: newScript(steps)}
}

// track counts connections so that Close can wait for them.
func (s *Server) track(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.running.Add(1)
		if s.isClosed() {
			// Accepted too late for http.Server.Close to close it.
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.running.Done()
	}
}

// URL returns the base URL for clients: "http://127.0.0.1:port/v1".
func (s *Server) URL() string { return s.AzureURL() + basePath }

// AzureURL returns the base URL for clients that use Azure's paths.
func (s *Server) AzureURL() string {
	if s.addr == "" {
		return "http://openaitest.invalid"
	}
	return "http://" + s.addr
}

// Client returns an HTTP client whose requests are answered by the server within the
// process, whatever their host.
func (s *Server) Client() *http.Client { return &http.Client{Transport: localTransport{s}} }

// Requests returns all requests received so far, including refused ones, in order of
// arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Err returns the errors so far: one for each unexpected request (ErrUnexpected) and, after Close,
// one for the unplayed steps (ErrUnplayed). It returns nil if there are no errors.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.faults...)
}

// Close shuts the server down and waits for all its goroutines. Delayed replies are dropped and
// their connections closed. Close returns the result of Err, including unplayed steps. Further
// calls only return that result. Close must not be called from a Respond or Expect function.
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

// report records err for Err and reports it to the test, if there is one.
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
