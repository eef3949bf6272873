package streamer

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// closeTimeout is how long a client may take, after the handler is closed, to read a response.
const closeTimeout = time.Second

// timedWriter writes a response in pieces of at most gatherBytes. The client must read each piece
// within Options.WriteTimeout, or, once the handler is closed, all of them within closeTimeout.
// Otherwise a client that does not read would hold the response, and its goroutine, forever.
type timedWriter struct {
	http.ResponseWriter
	handler *Handler
	control *http.ResponseController

	mu       sync.Mutex // guards the fields below, since Close moves the deadline of a write that is blocked
	deadline time.Time  // deadline of the current write; zero until the first write
	final    bool       // deadline is not moved again
}

// timed returns a writer for one response. The caller must call end before it returns.
func (h *Handler) timed(w http.ResponseWriter) (t *timedWriter, end func()) {
	t = &timedWriter{ResponseWriter: w, handler: h, control: http.NewResponseController(w)}
	done := make(chan struct{})
	stop := context.AfterFunc(h.open, func() {
		defer close(done)
		t.extendAgain()
	})
	return t, func() {
		t.extendAgain() // for what the server has buffered; the server removes the deadline afterwards
		if !stop() {
			<-done // the writer must not be used after the handler has returned
		}
	}
}

// extend sets the deadline of the next write.
func (t *timedWriter) extend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, timeout := time.Now(), t.handler.options.WriteTimeout
	switch {
	case t.final, t.deadline.Sub(now) > timeout*3/4 && t.handler.open.Err() == nil:
		return
	case t.handler.open.Err() != nil:
		timeout, t.final = min(timeout, closeTimeout), true
	}
	t.deadline = now.Add(timeout)
	_ = t.control.SetWriteDeadline(t.deadline) // the writer of a router or a test may not support deadlines
}

// extendAgain is like extend, but does nothing before the first write.
func (t *timedWriter) extendAgain() {
	t.mu.Lock()
	begun := !t.deadline.IsZero()
	t.mu.Unlock()
	if begun {
		t.extend()
	}
}

func (t *timedWriter) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+gatherBytes)]
		t.extend()
		m, err := t.ResponseWriter.Write(piece)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush implements [http.Flusher].
func (t *timedWriter) Flush() { _ = t.FlushError() }

// FlushError is what [http.ResponseController.Flush] calls.
func (t *timedWriter) FlushError() error {
	t.extend()
	return t.control.Flush()
}

// Unwrap returns the writer for [http.ResponseController].
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
