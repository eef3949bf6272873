package agui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	Turns     int           // maximum number of turns sent to a client that attaches. Defaults to 50
}

// A Handler serves threads to clients of AG-UI. It is safe for concurrent use.
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
		return nil, errors.New("agui: Options.Threads and Options.Control are required: use the values in the streamer.Options")
	case o.MaxBody < 0 || o.Heartbeat < 0 || o.Turns < 0:
		return nil, fmt.Errorf("agui: Options contains a negative number: %+v", o)
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
	first, action, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch {
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
	case first == "", first == "connect" && action == "":
		h.run(w, req, t, first == "connect")
	case action == "stop":
		t.ID = first
		h.stop(w, req, t)
	default:
		http.Error(w, "there is nothing at this path", http.StatusNotFound)
	}
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

// refuse answers a request with an error as plain text, outside the protocol.
func refuse(w http.ResponseWriter, err error) {
	r := turn.RefusalOf(err)
	http.Error(w, r.Message, r.Header(w.Header()))
}

// run begins a turn, or joins, resumes or attaches to an existing turn.
func (h *Handler) run(w http.ResponseWriter, req *http.Request, t *turn.Thread, attach bool) {
	leave, err := h.dash.Enter(req, t.Scope)
	if err != nil {
		refuse(w, err)
		return
	}
	defer leave()
	s := &stream{handler: h, thread: t, Response: turn.Response{W: w, Proto: req.ProtoMajor, Heartbeat: h.options.Heartbeat, TTL: t.Scope.TTL}}
	data, err := turn.ReadBody(w, req, h.options.MaxBody)
	if err == nil {
		if s.input, err = decode(data); err != nil {
			err = turn.Refuse("bad_request", "%s", err.Error())
		}
	}
	if err == nil {
		t.ID = s.input.ThreadID
		err = s.serve(req.Context(), attach)
	}
	s.end(err)
}

// A stream is the response to a single client.
type stream struct {
	handler *Handler
	thread  *turn.Thread
	input   *input
	turn.Response
	begun    bool
	attaches bool              // the client may already have any part of the thread
	base     []json.RawMessage // the messages before the turn as JSON; an element may hold several, separated by commas
}

func (s *stream) serve(ctx context.Context, attach bool) error {
	t, in := s.thread, s.input
	if err := t.Check(); err != nil {
		return err
	}
	last, err := t.Last(ctx)
	if err != nil {
		return err
	}
	if err := checkHistory(t, in, last); err != nil {
		return err
	}
	if len(in.Resume) > 0 && !attach {
		return s.resume(ctx, last)
	}
	m := in.newMessage()
	if attach || m == nil || last != nil && last.ID == m.ID {
		return s.attach(ctx, last)
	}
	if last != nil {
		if err := s.checkOpen(ctx, last); err != nil {
			return err
		}
	}
	text, files, err := m.prompt()
	if err != nil {
		return turn.Refuse("bad_request", "%s", err.Error())
	}
	if last, err = t.Send(ctx, last, streamer.ThreadMessage{Text: text, Parts: files, ID: m.ID}); err != nil {
		return err
	}
	s.base = in.Messages
	return s.follow(ctx, last.RunID, 0, nil)
}

// checkOpen refuses a new message while the last turn is waiting for answers.
func (s *stream) checkOpen(ctx context.Context, last *streamer.ThreadTurn) error {
	if last.Status != "paused" {
		return nil
	}
	l, release, err := s.handler.hub.Open(ctx, last.RunID)
	if err != nil {
		return err
	}
	defer release()
	var open []string
	for _, q := range l.Asked() {
		open = append(open, q.ID)
	}
	if len(open) == 0 {
		return nil
	}
	return turn.Refuse("interrupted", "the thread waits for answers, but the request contains no resume: %s", strings.Join(open, ", "))
}

// checkHistory returns an error if an assistant message is out of order or not part of the thread.
// The content of messages is ignored, because the server keeps the history.
func checkHistory(t *turn.Thread, in *input, last *streamer.ThreadTurn) error {
	most, before := 0, 0
	if last != nil {
		most = last.Turn
	}
	for i := range in.messages {
		m := &in.messages[i]
		switch m.Role {
		case "assistant", "tool", "reasoning":
		default:
			continue
		}
		runID, _, _ := strings.Cut(m.ID, "/")
		n := t.TurnOf(runID)
		switch {
		case n == 0 || n > most:
			return turn.Refuse("conflict", "the messages do not match the thread: %s message %q is not part of it; connect again", m.Role, m.ID)
		case n < before:
			return turn.Refuse("conflict", "the messages do not match the thread: %s message %q is out of order; connect again", m.Role, m.ID)
		}
		before = n
	}
	return nil
}

// resume answers all open questions of the last turn and sends the events that follow.
func (s *stream) resume(ctx context.Context, last *streamer.ThreadTurn) error {
	if last == nil {
		return turn.Refuse("conflict", "the thread waits for no answer: it has no turns")
	}
	l, release, err := s.handler.hub.Open(ctx, last.RunID)
	if err != nil {
		return err
	}
	defer release()
	at := l.End()
	answers, cancels, err := s.answers(l.Asked())
	switch {
	case err != nil:
		return err
	case cancels:
		err = s.thread.Stop(ctx)
	default:
		err = s.thread.Answer(ctx, last.RunID, l, answers)
	}
	if err != nil {
		return err
	}
	s.base = s.input.messagesWithout(last.RunID)
	return s.follow(ctx, last.RunID, at, nil)
}

// messagesWithout returns the messages that do not belong to the run.
func (in *input) messagesWithout(runID string) (rest []json.RawMessage) {
	for i, m := range in.messages {
		if !strings.HasPrefix(m.ID, runID+"/") {
			rest = append(rest, in.Messages[i])
		}
	}
	return rest
}

// answers checks the answers in the request against the open questions and returns them. cancels is
// true if a question other than an approval is cancelled.
func (s *stream) answers(asked []turn.Question) (all []turn.Answer, cancels bool, err error) {
	if len(asked) == 0 {
		return nil, false, turn.Refuse("conflict", "the thread waits for no answer: its questions were answered, or its turn has ended")
	}
	given := make(map[string]bool)
	for i := range s.input.Resume {
		r := &s.input.Resume[i]
		at := slices.IndexFunc(asked, func(q turn.Question) bool { return q.ID == r.InterruptID })
		switch {
		case at < 0:
			return nil, false, turn.Refuse("not_found", "no question %q is open: it was answered, or belongs to another turn", r.InterruptID)
		case given[r.InterruptID]:
			return nil, false, turn.Refuse("bad_request", "resume has two answers to %q", r.InterruptID)
		}
		given[r.InterruptID] = true
		value, err := r.value(asked[at].Approval)
		if err != nil {
			return nil, false, turn.Refuse("bad_request", "%s", err.Error())
		}
		cancels = cancels || r.Status == "cancelled" && !asked[at].Approval
		all = append(all, turn.Answer{Question: r.InterruptID, Value: value})
	}
	for _, q := range asked {
		if !given[q.ID] {
			return nil, false, turn.Refuse("bad_request", "resume has no answer to %q; want answers to all open questions", q.ID)
		}
	}
	return all, cancels, nil
}

// attach sends the thread's messages from the server's history, and then the last turn from its
// beginning.
func (s *stream) attach(ctx context.Context, last *streamer.ThreadTurn) error {
	if last == nil {
		if err := s.begin(); err != nil {
			return err
		}
		s.snapshot(nil)
		s.finish(appendEvent(nil, &event{Type: "RUN_FINISHED", Outcome: &outcome{Type: "success"}}))
		return s.Flush()
	}
	s.attaches = true
	var err error
	if s.base, err = s.history(ctx); err != nil {
		return err
	}
	return s.follow(ctx, last.RunID, 0, s.withdrawal(last.RunID))
}

// withdrawal returns a message that makes the client drop the thoughts it has received, or nil if
// it has received none. Without this message, the client would keep its thoughts, because the
// snapshot contains none. It would also show them before the messages that are sent again, because
// it keeps the position of each message.
func (s *stream) withdrawal(runID string) []byte {
	if !slices.ContainsFunc(s.input.messages, func(m message) bool { return m.Role == "reasoning" }) {
		return nil
	}
	empty := ""
	data, _ := json.Marshal(&snapshotMessage{ID: runID + "/thoughts", Role: "reasoning", Content: &empty}) // strings can always be encoded
	return data
}

// history returns the messages of all turns except the last, followed by the user's message of the
// last turn.
func (s *stream) history(ctx context.Context) (all []json.RawMessage, err error) {
	turns, err := s.thread.Threads.Turns(ctx, s.thread.ID, s.handler.options.Turns)
	if err != nil {
		return nil, err
	}
	for i := range turns {
		t := &turns[i]
		text, id := s.handler.dash.RedactText(t.Text), cmp.Or(t.ID, t.RunID+"/user")
		user, err := json.Marshal(&snapshotMessage{ID: id, Role: "user", Content: &text})
		if err != nil {
			return nil, err
		}
		all = append(all, user)
		if i == len(turns)-1 {
			break
		}
		messages, err := s.handler.messagesOf(ctx, t.RunID)
		if err != nil {
			return nil, err
		}
		if len(messages) > 0 {
			all = append(all, messages)
		}
	}
	return all, nil
}

// messagesOf returns the messages of a turn that has already ended.
func (h *Handler) messagesOf(ctx context.Context, runID string) ([]byte, error) {
	l, release, err := h.hub.Open(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer release()
	frames, _, err := l.Frames(0)
	if err != nil || len(frames) == 0 {
		return nil, err
	}
	return frames[len(frames)-1].Messages, nil
}
