package openaitest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// An exchange is one request and its answer.
type exchange struct {
	srv    *Server
	w      http.ResponseWriter
	ctx    context.Context // ends when the client disconnects
	req    Request
	number int // number of the request, starting at 1
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1) // For hijacked connections; the current connection keeps the counter above 0.
	defer s.running.Done()

	at := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil || s.isClosed() {
		panic(http.ErrAbortHandler) // The client disconnected before sending its request, or the server is closing.
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: body, At: at}
	problem := req.read()

	x := &exchange{srv: s, w: w, ctx: r.Context()}
	st, problem := s.arrive(x, req, problem)
	if problem != nil {
		x.refuse(problem.Error())
		return
	}
	x.play(st)
}

// arrive records the request and takes its step while holding one lock, so that requests and steps
// are in the same order.
func (s *Server) arrive(x *exchange, req Request, problem error) (Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st Step
	if problem == nil {
		var ok bool
		if st, req.Step, ok = s.script.take(); !ok {
			problem = fmt.Errorf("the script has ended: all of its steps (%d) have been played", len(s.script.steps))
		}
	}
	s.requests = append(s.requests, req)
	x.req, x.number = req, len(s.requests)
	return st, problem
}

// play checks the request against st and answers it.
func (x *exchange) play(st Step) {
	if st.player == nil {
		x.refuse("the step is a zero Step")
		return
	}
	if err := guard("Expect", func() error { return st.check(x.req) }); err != nil {
		x.refuse(fmt.Sprintf("%v (for the answer: %s)", err, st))
		return
	}
	x.wait(st)
	for key, values := range st.header {
		x.w.Header()[key] = values
	}
	st.player.play(x)
}

// wait delays the answer as specified by st.
func (x *exchange) wait(st Step) {
	if st.delay > 0 {
		timer := time.NewTimer(st.delay)
		defer timer.Stop()
		hold(x, timer.C)
	}
	for _, gate := range st.gates {
		hold(x, gate)
	}
}

// hold waits for c. If the client disconnects or the server closes first, hold aborts the exchange
// instead of returning, because net/http would otherwise send an empty reply with status 200.
func hold[V any](x *exchange, c <-chan V) {
	select {
	case <-c:
	case <-x.ctx.Done():
		x.hangUp()
	case <-x.srv.closed:
		x.hangUp()
	}
}

// refuse reports the request as unexpected and answers it with an error that clients do not retry.
func (x *exchange) refuse(reason string) {
	err := fmt.Errorf("%w %d: %s; %s", ErrUnexpected, x.number, reason, x.req.summary())
	if x.req.Step > 0 {
		err = fmt.Errorf("%w %d, at step %d: %s; %s", ErrUnexpected, x.number, x.req.Step, reason, x.req.summary())
	}
	x.srv.report(err)

	clear(x.w.Header())
	x.w.Header().Set("X-Should-Retry", "false")
	f := failure{status: http.StatusBadRequest, Message: "openaitest: " + err.Error(), Type: "invalid_request_error"}
	f.code("unexpected_request")
	f.play(x)
}

func (x *exchange) write(status int, body []byte) {
	x.header(strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // A disconnected client is not an error.
}

func (x *exchange) header(length string) {
	h := x.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", length)
	h.Set("X-Request-Id", fmt.Sprintf("req_%d", x.number))
}

// guard calls a user's function. It converts a panic to an error so that the panic is reported;
// net/http would swallow it.
func guard(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the %s function panicked: %v", what, p)
		}
	}()
	return fn()
}
