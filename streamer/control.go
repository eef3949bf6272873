package streamer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/reprise-go/reprise/record"
)

// permissions returns what the sender of a request is allowed to do.
func (h *Handler) permissions(scope *Access) Permissions {
	may := h.options.Control != nil && scope.Control
	return Permissions{
		As: scope.Principal, Interrupt: may, Cancel: may, Answer: may,
		Resume: h.options.Continuer != nil && scope.Control, Fork: h.options.Forker != nil && scope.Control,
		Start: h.mayStart(scope), History: scope.Runs == nil,
	}
}

// stopBody is the body of a request that interrupts or cancels a run.
type stopBody struct {
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

func (h *Handler) serveInterrupt(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveStop(w, req, scope, Control.Interrupt)
}

func (h *Handler) serveCancel(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveStop(w, req, scope, Control.Cancel)
}

func (h *Handler) serveStop(w http.ResponseWriter, req *http.Request, scope *Access, stop func(c Control, ctx context.Context, runID string, stop Stop) error) {
	var body stopBody
	id, ok := h.admitControl(w, req, scope, &body)
	if !ok {
		return
	}
	by, ok := h.admitName(w, scope, body.By)
	if !ok {
		return
	}
	if len(body.Message) > maxMessage {
		h.refuse(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("message has %d bytes: want at most %d", len(body.Message), maxMessage))
		return
	}
	err := stop(h.options.Control, req.Context(), id, Stop{By: by, Message: body.Message})
	h.Reread(id)
	if err == nil && h.sayStopping(req.Context(), id) {
		h.sendStatus(w, http.StatusAccepted, map[string]bool{"ok": true, "stopping": true})
		return
	}
	if err == nil {
		h.publishRest(req.Context(), id)
	}
	h.answerControl(w, err, noRun(id))
}

// publishRest publishes the records of a run that is not running, except those that have already
// been published. If none has been published, it publishes only the last record. If a run is
// cancelled while no process has it open, no process publishes its last records. If another process
// had it open, earlier records may still be on their way to this handler, which would ignore them
// after a later record.
func (h *Handler) publishRest(ctx context.Context, runID string) {
	if h.whole == nil {
		return
	}
	info, err := h.whole.Run(ctx, runID)
	if err != nil || info.Status == statusRunning || info.LastSeq == 0 {
		return
	}
	after := info.LastSeq - 1
	if r := h.runs.find(runID); r != nil {
		after = cmp.Or(r.publishedTo(), after)
	}
	_ = h.publishStored(ctx, runID, after) // clients see these records when they read the run again
}

// publishStored publishes the source's records with numbers greater than after.
func (h *Handler) publishStored(ctx context.Context, runID string, after uint64) error {
	for rec, err := range h.whole.Records(ctx, runID, after) {
		if err != nil {
			return err
		}
		h.Publish(rec)
	}
	return nil
}

// PublishMissed publishes the newest record of a run in the source, if a client has asked for the
// run and the record has not been published yet. The client reads earlier records from the source.
// PublishMissed is for the first look at a run of another process: a client may have read the run,
// or waited for it to begin, before anyone followed the run. If the source cannot be read,
// PublishMissed returns the source's error.
func (h *Handler) PublishMissed(ctx context.Context, runID string) error {
	r := h.runs.find(runID)
	if r == nil || h.whole == nil {
		return nil
	}
	info, err := h.whole.Run(ctx, runID)
	if err != nil || info.LastSeq == 0 {
		return err
	}
	return h.publishStored(ctx, runID, max(r.publishedTo(), info.LastSeq-1))
}

const (
	maxBy      = 256  // maximum size of the sender's name, in bytes
	maxMessage = 4096 // maximum size of the reason for stopping a run, in bytes
)

// admitName returns the name under which a request changes a run. This is the sender's name if it
// is known, otherwise the name in the request, or "dashboard" if there is none. admitName refuses a
// name that is too long or is not the sender's.
func (h *Handler) admitName(w http.ResponseWriter, scope *Access, by string) (name string, ok bool) {
	if len(by) > maxBy {
		h.refuse(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("by has %d bytes: want at most %d", len(by), maxBy))
		return "", false
	}
	if scope.Principal != "" && by != "" && by != scope.Principal {
		h.refuse(w, http.StatusForbidden, "forbidden", "by is "+strconv.Quote(by)+": want your own name, "+strconv.Quote(scope.Principal)+", or no name")
		return "", false
	}
	return cmp.Or(scope.Principal, by, "dashboard"), true
}

// answerBody is the body of a request that answers a question.
type answerBody struct {
	Question string          `json:"question"` // the question's ID
	Value    json.RawMessage `json:"value"`
	By       string          `json:"by,omitempty"`
}

func (h *Handler) serveAnswer(w http.ResponseWriter, req *http.Request, scope *Access) {
	var body answerBody
	id, ok := h.admitControl(w, req, scope, &body)
	if !ok {
		return
	}
	if body.Question == "" || len(body.Value) == 0 {
		h.refuse(w, http.StatusBadRequest, "bad_request", `question and value are needed: {"question": "agent/refund?1", "value": true}`)
		return
	}
	by, ok := h.admitName(w, scope, body.By)
	if !ok {
		return
	}
	err := h.options.Control.Answer(req.Context(), id, body.Question, by, body.Value)
	h.answerControl(w, err, "run "+strconv.Quote(id)+" has no question "+strconv.Quote(record.Truncate(body.Question, maxName))+"; GET api/runs/"+url.PathEscape(id)+" lists its questions")
}

func (h *Handler) serveSignal(w http.ResponseWriter, req *http.Request, scope *Access) {
	var body Signal
	id, ok := h.admitControl(w, req, scope, &body)
	if !ok {
		return
	}
	if body.Name == "" || len(body.Value) == 0 {
		h.refuse(w, http.StatusBadRequest, "bad_request", `name and value are needed: {"name": "called", "value": {"at": "10:00"}}`)
		return
	}
	if body.By, ok = h.admitName(w, scope, body.By); !ok {
		return
	}
	h.answerControl(w, h.options.Control.Signal(req.Context(), id, body), noRun(id))
}

// refuseControl refuses a request to change a run. The message says whether no one may change runs
// on this server, or only this sender may not.
func (h *Handler) refuseControl(w http.ResponseWriter) {
	message := "you may look at runs, but not change them"
	if h.options.Control == nil {
		message = "this server shows runs, but cannot change them; `reprise serve --control` can, and so can a handler with Options.Control"
	}
	h.refuse(w, http.StatusForbidden, "forbidden", message)
}

// admitControl checks that the sender is allowed to change the run, and reads the request body.
func (h *Handler) admitControl(w http.ResponseWriter, req *http.Request, scope *Access, body any) (runID string, ok bool) {
	if h.options.Control == nil || !scope.Control {
		h.refuseControl(w)
		return "", false
	}
	if !h.admitPost(w, req) || !h.admitRun(w, req, scope) || !h.readBody(w, req, body) {
		return "", false
	}
	return req.PathValue("run"), true
}

func (h *Handler) answerControl(w http.ResponseWriter, err error, missing string) {
	if err != nil {
		h.refuseError(w, err, missing)
		return
	}
	h.sendJSON(w, map[string]bool{"ok": true})
}
