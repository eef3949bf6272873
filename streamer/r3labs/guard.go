package r3labs

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/r3labs/sse/v2"
)

// Guarded is a handler that [Guard] returns.
type Guarded struct {
	server  *sse.Server
	timeout time.Duration

	mu      sync.Mutex // guards the fields below; held while a stream is removed
	clients map[string]int
	onEmpty []func(stream string)
}

var _ http.Handler = (*Guarded)(nil)

// Guard returns a handler that serves the server's streams. It ends the connection of a client that
// does not read within the write timeout. Until then, all clients of the same stream wait. Any
// other middleware must support http.ResponseController. Guard panics if the server is nil or the
// timeout is not positive.
func Guard(server *sse.Server, writeTimeout time.Duration) *Guarded {
	if server == nil {
		panic(errors.New("r3labs: Guard was called with a nil server"))
	}
	if writeTimeout <= 0 {
		panic(errors.New("r3labs: Guard's write timeout is " + writeTimeout.String() + ": want more than 0"))
	}
	return &Guarded{server: server, timeout: writeTimeout, clients: make(map[string]int)}
}

// ServeHTTP serves the stream that is named in the query.
func (g *Guarded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.URL.Query().Get("stream")
	g.enter(name)
	defer g.leave(name)
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	req = req.Clone(ctx)
	if _, err := strconv.Atoi(req.Header.Get("Last-Event-ID")); err != nil {
		req.Header.Del("Last-Event-ID") // the server would refuse a request with this header
	}
	t := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: g.timeout, cancel: cancel}
	g.server.ServeHTTP(t, req)
}

func (g *Guarded) enter(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients[name]++
}

func (g *Guarded) leave(name string) {
	g.mu.Lock()
	g.clients[name]--
	last := g.clients[name] == 0
	if last {
		delete(g.clients, name)
	}
	left := g.onEmpty
	g.mu.Unlock()
	if !last {
		return
	}
	for _, f := range left {
		f(name)
	}
}

// add adds a function that is called when the last client of a stream has left.
func (g *Guarded) add(f func(stream string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onEmpty = append(g.onEmpty, f)
}

// remove removes a stream unless a client is connected to it, and reports whether it did. No client
// can connect during that time.
func (g *Guarded) remove(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[name] > 0 {
		return false
	}
	g.server.RemoveStream(name)
	return true
}

// deadlineWriter sets a deadline for each write. The server ignores errors from writes, so
// deadlineWriter ends the request at the first error.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	cancel  context.CancelFunc
}

func (t *deadlineWriter) Write(p []byte) (int, error) {
	t.limit()
	defer t.unlimit()
	n, err := t.ResponseWriter.Write(p)
	if err != nil {
		t.cancel()
	}
	return n, err
}

// Flush implements http.Flusher, which the server requires.
func (t *deadlineWriter) Flush() {
	t.limit()
	defer t.unlimit()
	if err := t.control.Flush(); err != nil {
		t.cancel()
	}
}

// limit sets the deadline. The writers in tests and middleware need not support deadlines.
func (t *deadlineWriter) limit() { _ = t.control.SetWriteDeadline(time.Now().Add(t.timeout)) }

// unlimit removes the deadline after a write. With HTTP/2, an expired deadline ends the response
// even if nothing is being written.
func (t *deadlineWriter) unlimit() { _ = t.control.SetWriteDeadline(time.Time{}) }
