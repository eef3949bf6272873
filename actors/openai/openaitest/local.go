package openaitest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// A localTransport passes requests to a server within the process.
type localTransport struct{ srv *Server }

// RoundTrip implements [http.RoundTripper]. The response body is streamed as the server
// writes it.
func (t localTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	if t.srv.isClosed() {
		_ = req.Body.Close()
		return nil, io.EOF
	}
	ctx, leave := context.WithCancel(req.Context())
	r, w := io.Pipe()
	lw := &localWriter{header: http.Header{}, body: w, began: make(chan struct{}), leave: leave, length: -1}
	t.srv.running.Go(func() { lw.serve(t.srv, req.Clone(ctx)) })
	select {
	case <-lw.began:
	case <-ctx.Done():
		_ = r.CloseWithError(ctx.Err())
		return nil, context.Cause(req.Context())
	}
	if lw.status == 0 {
		leave()
		return nil, lw.err()
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", lw.status, http.StatusText(lw.status)), StatusCode: lw.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: lw.sent, Body: &localBody{r, leave, context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })},
		ContentLength: lw.length, Request: req,
	}, nil
}

// A localBody is the body of a response. Closing it disconnects the client.
type localBody struct {
	*io.PipeReader
	leave context.CancelFunc
	stop  func() bool
}

// Close ends the exchange.
func (b *localBody) Close() error {
	b.stop()
	b.leave()
	return b.PipeReader.Close()
}

// A localWriter is the server's side of an exchange.
type localWriter struct {
	header http.Header
	body   *io.PipeWriter
	began  chan struct{} // closed when the status is known or the server has aborted the exchange
	leave  context.CancelFunc

	once    sync.Once
	status  int // 0 if the server aborted the exchange without an answer
	sent    http.Header
	length  int64 // Content-Length; -1 if not set
	written int64

	mu      sync.Mutex
	failure error
}

// serve answers the request and ends the response as net/http does.
func (w *localWriter) serve(s *Server, req *http.Request) {
	finished := make(chan struct{})
	s.running.Go(func() {
		select {
		case <-s.closed:
			_ = w.body.CloseWithError(io.ErrUnexpectedEOF) // a client that does not read must not block Close
		case <-finished:
		}
	})
	defer close(finished)
	aborted := true
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // compared with !=, as net/http does
			panic(p)
		}
		if !aborted {
			w.WriteHeader(http.StatusOK)
		}
		w.begin(0)
		switch {
		case aborted, w.length >= 0 && w.written < w.length:
			_ = w.body.CloseWithError(io.ErrUnexpectedEOF)
		default:
			_ = w.body.Close()
		}
	}()
	s.serve(w, req)
	aborted = false
}

func (w *localWriter) begin(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
			w.length = n
		}
		close(w.began)
	})
}

// fail sets the error that the client sees if the connection breaks.
func (w *localWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
}

func (w *localWriter) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return w.failure
	}
	return io.EOF
}

// Header implements [http.ResponseWriter].
func (w *localWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *localWriter) WriteHeader(status int) { w.begin(status) }

// Write implements [http.ResponseWriter].
func (w *localWriter) Write(data []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.body.Write(data)
	w.written += int64(n)
	return n, err
}

// Flush implements [http.Flusher]. It does nothing, since writes are not buffered.
func (w *localWriter) Flush() {}
