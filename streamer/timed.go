package streamer

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// closeTimeout is the time that a client has to read a response after the handler was closed.
const closeTimeout = time.Second

// timedWriter writes a response in pieces of at most gatherBytes. The client must read each piece
// within Options.WriteTimeout. After the handler is closed, the client must read all remaining
// pieces within closeTimeout. Without these limits, a client that does not read would keep the
// response and its goroutine alive forever.
type timedWriter struct {
	http.ResponseWriter
	handler *Handler
	control *http.ResponseController

	mu    sync.Mutex // guards the fields below, because Close sets the deadline of a blocked write
	begun bool
	final bool // the handler was closed, and the deadline does not change any more
}

// timed returns a writer for one response. The caller must call end before returning.
func (h *Handler) timed(w http.ResponseWriter) (t *timedWriter, end func()) {
	t = &timedWriter{ResponseWriter: w, handler: h, control: http.NewResponseController(w)}
	done := make(chan struct{})
	stop := context.AfterFunc(h.open, func() {
		defer close(done)
		t.limitAgain()
	})
	return t, func() {
		t.limitAgain() // for what the server has buffered; the server removes the deadline afterwards
		if !stop() {
			<-done // the writer must not be used after the handler has returned
		}
	}
}

// limit sets the deadline of the next write.
func (t *timedWriter) limit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
	t.setDeadline()
}

// limitAgain is like limit, but does nothing before the first write.
func (t *timedWriter) limitAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		t.setDeadline()
	}
}

// setDeadline sets the deadline of a write. t.mu must be held.
func (t *timedWriter) setDeadline() {
	if t.final {
		return
	}
	timeout := t.handler.options.WriteTimeout
	if t.handler.open.Err() != nil {
		timeout, t.final = min(timeout, closeTimeout), true
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(timeout)) // the writers of routers and tests may not support deadlines
}

// unlimit removes the deadline after a write. With HTTP/2, an expired deadline ends the response
// even if nothing is being written.
func (t *timedWriter) unlimit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.final {
		_ = t.control.SetWriteDeadline(time.Time{})
	}
}

func (t *timedWriter) Write(p []byte) (n int, err error) {
	defer t.unlimit()
	for {
		piece := p[n:min(len(p), n+gatherBytes)]
		t.limit()
		m, err := t.ResponseWriter.Write(piece)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush implements [http.Flusher].
func (t *timedWriter) Flush() { _ = t.FlushError() }

// FlushError is called by [http.ResponseController.Flush].
func (t *timedWriter) FlushError() error {
	t.limit()
	defer t.unlimit()
	return t.control.Flush()
}

// Hijack implements [http.Hijacker], for WebSocket handlers behind [Handler.Admit].
func (t *timedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return t.control.Hijack() }

// Unwrap returns the writer for [http.ResponseController].
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
