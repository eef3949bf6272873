package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// A Refusal is an error that tells the sender why a request cannot be served. Message is for people,
// and Code is for programs.
type Refusal struct{ Code, Message string }

func (r *Refusal) Error() string { return r.Message }

// Refuse returns a Refusal.
func Refuse(code, format string, args ...any) error {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// RefusalOf returns what the client is told about an error. It hides the text of an error that it
// does not know, because the text may contain paths and hosts.
func RefusalOf(err error) *Refusal {
	var r *Refusal
	kinds := []struct {
		is   error
		code string
	}{
		{streamer.ErrNotFound, "not_found"},
		{streamer.ErrInvalid, "bad_request"},
		{streamer.ErrConflict, "conflict"},
		{streamer.ErrTooMany, "too_many"},
		{streamer.ErrUnavailable, "unavailable"},
	}
	if errors.As(err, &r) {
		return r
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return &Refusal{k.code, strings.TrimPrefix(err.Error(), k.is.Error()+": ")}
		}
	}
	return &Refusal{"unreadable", "the runs cannot be read"}
}

// Header sets the header of a response that refuses a request outside the protocol, and returns its
// status.
func (r *Refusal) Header(header http.Header) (status int) {
	switch r.Code {
	case "bad_request":
		return http.StatusBadRequest
	case "forbidden":
		return http.StatusForbidden
	case "not_found":
		return http.StatusNotFound
	case "method_not_allowed":
		return http.StatusMethodNotAllowed
	case "too_many":
		return wire.RetryLater(header, http.StatusTooManyRequests)
	case "unavailable":
		return wire.RetryLater(header, http.StatusServiceUnavailable)
	case "unreadable":
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}

// ReadBody reads a request body. It returns a Refusal if the body has more than the given number of
// bytes.
func ReadBody(w http.ResponseWriter, req *http.Request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not every writer supports deadlines
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	if err == nil { // after an error, the server may still have to read the rest
		_ = control.SetReadDeadline(time.Time{})
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, Refuse("too_large", "the body has more than %d bytes", most)
	case err != nil:
		return nil, Refuse("bad_request", "the body was cut off, or took longer than %v", bodyTime)
	}
	return data, nil
}

// bodyTime is how long a body may take to arrive.
const bodyTime = 30 * time.Second

// A File is a file in a user's message. It is encoded like an actors.Part.
type File struct {
	MIME string `json:"mime,omitempty"`
	Data string `json:"data,omitempty"` // base64
	URL  string `json:"url,omitempty"`
	Name string `json:"name,omitempty"`
}

// Prompt returns the text and the files of a user's message, as a [streamer.ThreadMessage] contains
// them. If the message has neither text nor files, Prompt returns an error.
func Prompt(texts []string, all []File) (text string, files json.RawMessage, err error) {
	if text = strings.Join(texts, "\n"); text == "" && len(all) == 0 {
		return "", nil, errors.New("the message has no text and no file")
	}
	if len(all) > 0 {
		files, err = json.Marshal(all)
	}
	return text, files, err
}

// A Thread is a conversation as a front end uses it.
type Thread struct {
	Threads streamer.Threads
	Control streamer.Control
	Reread  func(runID string) // see streamer.Handler.Reread
	Scope   *streamer.Access
	Program string
	ID      string
}

// Check returns a Refusal if the sender is not allowed to use the thread.
func (t *Thread) Check() error {
	switch {
	case t.ID == "":
		return Refuse("bad_request", "the ID of the thread is required")
	case t.Threads == nil || t.Control == nil || !t.Scope.Control:
		return Refuse("forbidden", "this server accepts no messages")
	case !t.Scope.Sees(t.Threads.FirstRun(t.ID)):
		return Refuse("not_found", "there is no thread %s", strconv.Quote(t.ID))
	}
	return nil
}

// Last returns the last turn, or nil if there is none.
func (t *Thread) Last(ctx context.Context) (*streamer.ThreadTurn, error) {
	turns, err := t.Threads.Turns(ctx, t.ID, 1)
	switch {
	case errors.Is(err, streamer.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &turns[len(turns)-1], nil
}

// Send begins the turn after last. If another request with the same message has already begun that
// turn, Send returns that turn.
func (t *Thread) Send(ctx context.Context, last *streamer.ThreadTurn, m streamer.ThreadMessage) (*streamer.ThreadTurn, error) {
	m.Program, m.Principal, m.Turn = t.Program, t.Scope.Principal, 1
	if last != nil {
		m.Turn = last.Turn + 1
		if begun, err := t.begunBy(ctx, m.ID); begun != nil || err != nil {
			return begun, err
		}
	}
	sent, _, err := t.Threads.Send(ctx, t.ID, m)
	if errors.Is(err, streamer.ErrNotFound) {
		return nil, Refuse("not_found", "there is no program %s", strconv.Quote(t.Program))
	}
	return &sent, err
}

// searchedTurns is the number of turns that begunBy searches.
const searchedTurns = 10

// begunBy returns the turn that a message began, or nil if it began none. A message may be sent
// twice, for example by a proxy. If other turns have followed the message's turn, the error is a
// Refusal.
func (t *Thread) begunBy(ctx context.Context, message string) (*streamer.ThreadTurn, error) {
	if message == "" {
		return nil, nil
	}
	turns, err := t.Threads.Turns(ctx, t.ID, searchedTurns)
	if err != nil {
		return nil, err
	}
	for i := range turns {
		switch {
		case turns[i].ID != message:
		case i == len(turns)-1: // another request with the same message began it
			return &turns[i], nil
		default:
			return nil, Refuse("conflict", "the message %q was sent before; it began turn %d, and other turns have followed", message, turns[i].Turn)
		}
	}
	return nil, nil
}

// An Answer answers a question.
type Answer struct {
	Question string // the question's ID on the wire
	Value    []byte
}

// Answer answers open questions of the last turn, whose log is l. It ignores answers to questions
// that are not open, and returns an error if there are no others. If any answer does not fit its
// question, Answer stores none of them. Otherwise it stores them all, even if the client
// disconnects.
func (t *Thread) Answer(ctx context.Context, runID string, l *Log, answers []Answer) error {
	open := l.Asked()
	for _, a := range answers {
		i := slices.IndexFunc(open, func(q Question) bool { return q.ID == a.Question })
		if i < 0 {
			continue
		}
		if err := open[i].check(a.Value); err != nil {
			return Refuse("bad_request", "the answer to %q: %s", a.Question, err.Error())
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	// The run continues as soon as the first answer is stored, so all answers must be marked before
	// that.
	begun := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return !l.beginAnswer(a.Question) })
	taken, refused := 0, error(nil)
	for _, a := range begun {
		id, _ := QuestionID(runID, a.Question)
		if err := t.Control.Answer(ctx, runID, id, t.by(), a.Value); err != nil {
			l.reopen(a.Question)
			refused = cmp.Or(refused, err)
			continue
		}
		taken++
	}
	switch {
	case taken > 0:
		return nil
	case refused != nil:
		return refused
	case len(open) == 0:
		return Refuse("conflict", "the thread waits for no answer: its questions were answered, or its turn has ended")
	case len(answers) == 0:
		return Refuse("conflict", "the thread waits for an answer, but the request contains none")
	}
	return Refuse("not_found", "no question %q is open: it was answered, or belongs to another turn", answers[0].Question)
}

// answerTime limits the time for storing all the answers in a request.
const answerTime = 30 * time.Second

// Stop ends the last turn for good.
func (t *Thread) Stop(ctx context.Context) error {
	last, err := t.Last(ctx)
	if err != nil {
		return err
	}
	if last == nil {
		return Refuse("not_found", "there is no thread %s", strconv.Quote(t.ID))
	}
	err = t.Control.Cancel(ctx, last.RunID, streamer.Stop{By: t.by(), Message: "stopped by the user"})
	t.Reread(last.RunID)
	return err
}

func (t *Thread) by() string {
	if t.Scope.Principal == "" {
		return "page"
	}
	return t.Scope.Principal
}

// TurnOf returns the number of the turn with the given run, or 0 if the run is not part of
// the thread.
func (t *Thread) TurnOf(runID string) int {
	first := t.Threads.FirstRun(t.ID)
	head := strings.TrimRight(first, "0123456789")
	digits, ok := strings.CutPrefix(runID, head)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || fmt.Sprintf("%0*d", len(first)-len(head), n) != digits {
		return 0
	}
	return n
}
