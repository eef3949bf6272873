package streamer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Threads are conversations whose turns are runs. An implementation must be safe for concurrent
// use. It returns the same errors as a [Starter]. If the thread's previous turn has not ended, the
// error is ErrConflict, too.
type Threads interface {
	// FirstRun returns the ID of the run that is the first turn of a thread. Senders that are
	// allowed to see this run are allowed to use the thread.
	FirstRun(thread string) string

	// Send starts the next turn of a thread. If the turn has already been started, Send returns it,
	// and isNew is false.
	Send(ctx context.Context, thread string, m ThreadMessage) (turn ThreadTurn, isNew bool, err error)

	// Turns returns at most limit turns of a thread: the most recent ones, in order.
	Turns(ctx context.Context, thread string, limit int) ([]ThreadTurn, error)
}

// A ThreadMessage begins a turn of a thread.
type ThreadMessage struct {
	Text  string          `json:"text"`
	Parts json.RawMessage `json:"parts,omitempty"` // images and files, as a JSON array of actors.Part

	// Program is the program that answers. Defaults to the program that answered the previous turn
	// or, in a new thread, to the server's default.
	Program string `json:"program,omitempty"`

	// Turn is the number of the turn, from 1. A message that is sent again with the same number
	// does not begin a second turn. 0 means the next turn.
	Turn int `json:"turn,omitempty"`

	// ID is the sender's own ID for the message, at most 256 bytes long. It may be empty. It is
	// kept with the turn.
	ID string `json:"id,omitempty"`

	Principal string `json:"-"` // the sender's Access.Principal
}

// A ThreadTurn is a turn of a thread. Clients can watch its run and answer the run's questions.
type ThreadTurn struct {
	Turn    int    `json:"turn"`
	RunID   string `json:"run_id"`
	Program string `json:"program,omitempty"`
	Status  string `json:"status"`
	Text    string `json:"text,omitempty"`   // the message's text
	Answer  string `json:"answer,omitempty"` // the answer, if the run completed
	Error   string `json:"error,omitempty"`  // the error, if the run failed or was cancelled
	ID      string `json:"id,omitempty"`     // ThreadMessage.ID
}

// threadBody is the body of /api/threads/{thread}.
type threadBody struct {
	Thread string       `json:"thread"`
	Turns  []ThreadTurn `json:"turns"`
}

const (
	defaultTurns = 50
	maxTurns     = 1000
)

func (h *Handler) serveSend(w http.ResponseWriter, req *http.Request, scope *Access) {
	var m ThreadMessage
	switch {
	case h.options.Threads == nil:
		h.refuse(w, http.StatusForbidden, "forbidden", "messages cannot be sent here")
		return
	case !scope.Control:
		h.refuse(w, http.StatusForbidden, "forbidden", "you may read threads, but not send messages")
		return
	}
	if !h.admitPost(w, req) || !h.admitThread(w, req, scope) || !h.readBody(w, req, &m) {
		return
	}
	if m.Text == "" && len(m.Parts) == 0 {
		h.refuse(w, http.StatusBadRequest, "bad_request", `text is needed: {"text": "hello"}`)
		return
	}
	m.Principal = scope.Principal
	turn, isNew, err := h.options.Threads.Send(req.Context(), req.PathValue("thread"), m)
	if err != nil {
		h.refuseError(w, err, missingProgram(err, m.Program))
		return
	}
	if isNew {
		w.Header().Set("Location", "../runs/"+url.PathEscape(turn.RunID))
		h.sendStatus(w, http.StatusCreated, turn)
		return
	}
	h.sendJSON(w, turn)
}

// missingProgram returns the message for err, an ErrNotFound from Threads.Send.
func missingProgram(err error, program string) string {
	if why, ok := strings.CutPrefix(err.Error(), ErrNotFound.Error()+": "); ok {
		return why
	}
	return "there is no program " + strconv.Quote(program)
}

func (h *Handler) serveThread(w http.ResponseWriter, req *http.Request, scope *Access) {
	limit, err := limitOf(req, defaultTurns, maxTurns)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	if h.options.Threads == nil {
		h.refuse(w, http.StatusForbidden, "forbidden", "this server has no threads")
		return
	}
	if !h.admitThread(w, req, scope) {
		return
	}
	id := req.PathValue("thread")
	turns, err := h.options.Threads.Turns(req.Context(), id, limit)
	if err != nil {
		h.refuseError(w, err, noThread(id))
		return
	}
	if redact := h.options.redactText(); redact != nil {
		for i := range turns {
			t := &turns[i]
			t.Text, t.Answer, t.Error = redact(t.Text), redact(t.Answer), redact(t.Error)
		}
	}
	h.sendJSON(w, threadBody{id, turns})
}

// admitThread checks that the sender is allowed to use the thread.
func (h *Handler) admitThread(w http.ResponseWriter, req *http.Request, scope *Access) bool {
	id := req.PathValue("thread")
	if !scope.sees(h.options.Threads.FirstRun(id)) {
		h.refuse(w, http.StatusNotFound, "not_found", noThread(id)) // the sender must not learn whether the thread exists
		return false
	}
	return true
}

func noThread(id string) string { return "there is no thread " + strconv.Quote(id) }

// Send sends a message to a thread, and returns the turn that answers it. If the previous turn has
// not ended, the error is ErrConflict. Other errors are the same as those of [Client.Start]. A
// message with a Turn can safely be sent again.
func (c *Client) Send(ctx context.Context, thread string, m ThreadMessage) (ThreadTurn, error) {
	u, err := c.address("api", "threads", thread)
	if err != nil {
		return ThreadTurn{}, err
	}
	var turn ThreadTurn
	err = c.postTo(ctx, u, m, &turn)
	return turn, err
}

// Thread returns the latest turns of a thread, at most 50, in order.
func (c *Client) Thread(ctx context.Context, thread string) ([]ThreadTurn, error) {
	u, err := c.address("api", "threads", thread)
	if err != nil {
		return nil, err
	}
	var body threadBody
	err = c.do(ctx, http.MethodGet, u, nil, &body)
	return body.Turns, err
}
