package aisdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// Options configure a [Handler].
type Options struct {
	// Threads holds the conversations. Control answers questions and stops turns. Use the
	// values from the [streamer.Options]. Both are required.
	Threads streamer.Threads
	Control streamer.Control

	// Program is the name of the program that answers. If it is empty, the handler must be mounted
	// under a pattern with two path values: "program", which names the program, and "rest", which
	// is the path to serve.
	Program string

	MaxBody   int64         // maximum size of a request body in bytes. Defaults to 16 MB, because clients post all messages
	Heartbeat time.Duration // time between comments on an idle stream. Defaults to 15 s
	Turns     int           // maximum number of turns sent to a page that loads a thread. Defaults to 50
}

// A Handler serves threads to useChat. It is safe for concurrent use.
type Handler struct {
	dash    *streamer.Handler
	options Options
	hub     *turn.Hub
	next    http.Handler
}

// New returns a handler for the runs of dash, which also authorizes the handler's requests. Close
// the handler after dash. New returns an error if the options are invalid.
func New(dash *streamer.Handler, o Options) (*Handler, error) {
	switch {
	case o.Threads == nil || o.Control == nil:
		return nil, errors.New("aisdk: Options.Threads and Options.Control are required: use the values in the streamer.Options")
	case o.MaxBody < 0 || o.Heartbeat < 0 || o.Turns < 0:
		return nil, fmt.Errorf("aisdk: Options contains a negative number: %+v", o)
	}
	o.MaxBody, o.Heartbeat, o.Turns = cmp.Or(o.MaxBody, 16<<20), cmp.Or(o.Heartbeat, 15*time.Second), cmp.Or(o.Turns, 50)
	h := &Handler{dash: dash, options: o, hub: turn.NewHub(dash, newEncoder)}
	h.next = dash.AdmitFunc(h.serve)
	return h, nil
}

// Close waits until the handler has stopped reading runs. Close the [streamer.Handler] first, which
// ends all streams.
func (h *Handler) Close() { h.hub.Close() }

// ServeHTTP serves the paths listed in the package documentation.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) { h.next.ServeHTTP(w, req) }

func (h *Handler) serve(w http.ResponseWriter, req *http.Request, scope *streamer.Access) {
	t := &turn.Thread{Threads: h.options.Threads, Control: h.options.Control, Reread: h.dash.Reread, Scope: scope, Program: h.options.Program}
	path := req.URL.Path
	if t.Program == "" {
		t.Program, path = req.PathValue("program"), req.PathValue("rest")
	}
	id, action, _ := strings.Cut(strings.Trim(path, "/"), "/")
	t.ID = id
	method, next := http.MethodGet, h.thread
	switch {
	case id == "":
		method, next = http.MethodPost, h.post
	case action == "stream":
		next = h.reconnect
	case action == "stop":
		method, next = http.MethodPost, h.stop
	case action != "":
		refuse(w, turn.Refuse("not_found", "there is nothing at this path"))
		return
	}
	if req.Method != method {
		w.Header().Set("Allow", method)
		refuse(w, turn.Refuse("method_not_allowed", "want %s", method))
		return
	}
	next(w, req, t)
}

// post begins a turn, joins an existing turn, or continues it with answers.
func (h *Handler) post(w http.ResponseWriter, req *http.Request, t *turn.Thread) {
	s, err := h.enter(w, req, t.Scope)
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.leave()
	data, err := turn.ReadBody(w, req, h.options.MaxBody)
	if err == nil {
		err = h.serveMessage(req.Context(), t, data, s)
	}
	s.end(err)
}

func (h *Handler) serveMessage(ctx context.Context, t *turn.Thread, data []byte, s *stream) error {
	r, err := decode(data)
	if err != nil {
		return turn.Refuse("bad_request", "%s", err.Error())
	}
	t.ID = r.ID
	if err := t.Check(); err != nil {
		return err
	}
	last, err := t.Last(ctx)
	if err != nil {
		return err
	}
	if err := checkHistory(t, r, last); err != nil {
		return err
	}
	if r.last().Role == "assistant" {
		return h.answer(ctx, t, r.last(), last, s)
	}
	m := r.last()
	if last == nil || m.ID == "" || last.ID != m.ID {
		text, files, err := m.prompt()
		if err != nil {
			return turn.Refuse("bad_request", "%s", err.Error())
		}
		if last, err = t.Send(ctx, last, streamer.ThreadMessage{Text: text, Parts: files, ID: m.ID}); err != nil {
			return err
		}
	}
	return s.follow(ctx, last.RunID, nil)
}

// checkHistory returns an error if an assistant message is out of order or not part of the thread.
// The content of messages is ignored, because the server keeps the history.
func checkHistory(t *turn.Thread, r *request, last *streamer.ThreadTurn) error {
	most, before := 0, 0
	if last != nil {
		most = last.Turn
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role != "assistant" || len(m.Parts) == 0 { // if a turn fails at once, the page keeps a message without parts
			continue
		}
		n := t.TurnOf(m.ID)
		if n == 0 || n > most {
			return turn.Refuse("conflict", "the history does not match the thread: message %q is not one of its answers; load the thread again", m.ID)
		}
		if n <= before {
			return turn.Refuse("conflict", "the history does not match the thread: message %q is out of order; load the thread again", m.ID)
		}
		before = n
	}
	return nil
}

// answer continues a turn with the answers in the assistant's message m, and sends what follows.
func (h *Handler) answer(ctx context.Context, t *turn.Thread, m *message, last *streamer.ThreadTurn, s *stream) error {
	answers, err := m.answers()
	switch {
	case err != nil:
		return turn.Refuse("bad_request", "%s", err.Error())
	case last == nil || m.ID != last.RunID:
		return turn.Refuse("conflict", "message %q is not the last turn's answer; only the last turn can wait for an answer", m.ID)
	}
	l, release, err := h.hub.Open(ctx, last.RunID)
	if err != nil {
		return err
	}
	defer release()
	at := l.End()
	given := make([]turn.Answer, len(answers))
	for i, a := range answers {
		given[i] = turn.Answer{Question: a.question, Value: a.value}
	}
	if err := t.Answer(ctx, last.RunID, l, given); err != nil {
		return err
	}
	return s.follow(ctx, last.RunID, &at)
}

// reconnect sends the last turn from its beginning.
func (h *Handler) reconnect(w http.ResponseWriter, req *http.Request, t *turn.Thread) {
	last, err := h.find(req.Context(), t)
	var r *turn.Refusal
	switch {
	case err == nil && last == nil, errors.As(err, &r) && r.Code == "not_found":
		w.WriteHeader(http.StatusNoContent)
		return
	case err != nil:
		refuse(w, err)
		return
	}
	s, err := h.enter(w, req, t.Scope)
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.leave()
	s.end(s.follow(req.Context(), last.RunID, nil))
}

// find returns the thread's last turn, or nil if the thread has no turns. If the sender is not
// allowed to use the thread, find returns an error.
func (h *Handler) find(ctx context.Context, t *turn.Thread) (*streamer.ThreadTurn, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t.Last(ctx)
}

func (h *Handler) stop(w http.ResponseWriter, req *http.Request, t *turn.Thread) {
	err := t.Check()
	if err == nil {
		err = t.Stop(req.Context())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{\"ok\":true}\n"))
}

// refuse answers a request with an error in a JSON body, outside the protocol.
func refuse(w http.ResponseWriter, err error) {
	r := turn.RefusalOf(err)
	status := r.Header(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body, _ := json.Marshal(map[string]map[string]string{"error": {"code": r.Code, "message": r.Message}}) // strings can always be encoded
	_, _ = w.Write(append(body, '\n'))
}
