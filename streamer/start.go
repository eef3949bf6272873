package streamer

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Starter starts runs for senders whose Access allows control. It must be safe for concurrent
// use. It returns the same errors as a [Control]. It also returns ErrNotFound if the program does
// not exist, ErrInvalid if the input does not fit the program, ErrConflict if another run has the
// ID, ErrTooMany if too many runs are waiting, and ErrUnavailable if nothing can be started for a
// while.
type Starter interface {
	// Programs returns the programs that can be started, ordered by name.
	Programs() []Program

	// Start starts a run. If the run has already been started, Start returns it, and isNew is
	// false.
	Start(ctx context.Context, s Start) (info RunInfo, isNew bool, err error)

	// Result returns the result of a run. If the run has not ended, the error is
	// ErrConflict.
	Result(ctx context.Context, runID string) (Result, error)

	// Values returns the values that a run exposes, as JSON, by key.
	Values(ctx context.Context, runID string) (map[string]json.RawMessage, error)
}

// A Program is a program that can be started.
type Program struct {
	Name      string          `json:"name"`
	Version   string          `json:"version"`             // the version that new runs use
	Versions  []string        `json:"versions"`            // all versions that can be started
	Input     json.RawMessage `json:"input,omitempty"`     // the input's JSON schema; nil if there is none
	Schedules []Schedule      `json:"schedules,omitempty"` // the schedules that start the program
}

// A Schedule starts runs of a program automatically.
type Schedule struct {
	Name string    `json:"name"`
	When string    `json:"when"`          // such as "every 1h0m0s" or "0 9 * * MON-FRI (UTC)"
	Next time.Time `json:"next,omitzero"` // when the next run starts; zero if there is no next run
}

// A Start is a request to start a run.
type Start struct {
	Program     string          `json:"program"`
	Version     string          `json:"version,omitempty"` // the program's version; empty for the newest
	RunID       string          `json:"run_id,omitempty"`  // empty for a random ID
	Input       json.RawMessage `json:"input"`
	Priority    int             `json:"priority,omitempty"`
	At          time.Time       `json:"at,omitzero"` // the earliest start time
	Pinned      bool            `json:"pinned,omitempty"`
	Description string          `json:"description,omitempty"`
	Pipeline    string          `json:"pipeline,omitempty"`
	Tags        []string        `json:"tags,omitempty"`

	Principal string `json:"-"` // the sender's Access.Principal
}

// A Result is a run's output or error. The error of a cancelled run contains who cancelled it, and
// why.
type Result struct {
	RunID  string          `json:"run_id"`
	Status string          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// startedBody is the response to a Start.
type startedBody struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

// programsBody holds the programs that can be started.
type programsBody struct {
	Programs []Program `json:"programs"`
}

func (h *Handler) servePrograms(w http.ResponseWriter, _ *http.Request, scope *Access) {
	if !h.mayStart(scope) {
		h.refuseStart(w)
		return
	}
	h.sendJSON(w, programsBody{append([]Program{}, h.options.Starter.Programs()...)})
}

func (h *Handler) mayStart(scope *Access) bool { return h.options.Starter != nil && scope.Control }

func (h *Handler) serveStart(w http.ResponseWriter, req *http.Request, scope *Access) {
	var s Start
	if !h.admitStart(w, req, scope) || !h.readBody(w, req, &s) {
		return
	}
	switch {
	case s.Program == "" || len(s.Input) == 0:
		h.refuse(w, http.StatusBadRequest, "bad_request", `program and input are needed: {"program": "support", "input": {"text": "hello"}}`)
		return
	case scope.Runs != nil && s.RunID == "":
		h.refuse(w, http.StatusBadRequest, "bad_request", "run_id is needed, and you must be allowed to see the run")
		return
	case s.RunID != "" && !scope.sees(s.RunID):
		h.refuse(w, http.StatusForbidden, "forbidden", "you may not see a run "+strconv.Quote(s.RunID))
		return
	}
	s.Principal = scope.Principal
	info, isNew, err := h.options.Starter.Start(req.Context(), s)
	if err != nil {
		h.refuseError(w, err, h.unknownProgram(&s))
		return
	}
	if isNew {
		// A relative URL is also correct behind a proxy that adds a prefix.
		w.Header().Set("Location", "runs/"+url.PathEscape(info.RunID))
		h.sendStatus(w, http.StatusCreated, startedBody{info.RunID, info.Status})
		return
	}
	h.sendJSON(w, startedBody{info.RunID, info.Status})
}

// serveResult sends a run's result to senders that are allowed to see the run.
func (h *Handler) serveResult(w http.ResponseWriter, req *http.Request, scope *Access) {
	id := req.PathValue("run")
	if h.options.Starter == nil {
		h.refuse(w, http.StatusForbidden, "forbidden", "this server cannot read the results of runs")
		return
	}
	if !h.admitRun(w, req, scope) {
		return
	}
	result, err := h.options.Starter.Result(req.Context(), id)
	if err != nil {
		h.refuseError(w, err, noRun(id))
		return
	}
	if redact := h.options.redactText(); redact != nil {
		result.Error = redact(result.Error)
		result.Output = json.RawMessage(redact(string(result.Output)))
		if len(result.Output) > 0 && !json.Valid(result.Output) {
			h.refuse(w, http.StatusForbidden, "forbidden", "the redacted result is not valid JSON")
			return
		}
	}
	h.sendJSON(w, result)
}

// valuesBody holds the values that a run exposes.
type valuesBody struct {
	Values map[string]json.RawMessage `json:"values"`
}

// serveValues sends a run's values to senders that are allowed to see the run.
func (h *Handler) serveValues(w http.ResponseWriter, req *http.Request, scope *Access) {
	if h.options.Starter == nil {
		h.refuse(w, http.StatusForbidden, "forbidden", "this server cannot read the values of runs")
		return
	}
	if !h.admitRun(w, req, scope) {
		return
	}
	id := req.PathValue("run")
	values, err := h.options.Starter.Values(req.Context(), id)
	if err != nil {
		h.refuseError(w, err, noRun(id))
		return
	}
	for key, text := range values {
		if values[key] = h.redactedJSON(text); values[key] == nil {
			h.refuse(w, http.StatusForbidden, "forbidden", "the value "+strconv.Quote(key)+" is not valid JSON after redaction")
			return
		}
	}
	h.sendJSON(w, valuesBody{values})
}

// redactedJSON returns the text after redaction, or nil if redaction made it invalid JSON.
func (h *Handler) redactedJSON(text json.RawMessage) json.RawMessage {
	redact := h.options.redactText()
	if redact == nil {
		return text
	}
	if text = json.RawMessage(redact(string(text))); !json.Valid(text) {
		return nil
	}
	return text
}

// admitStart is like admitControl, but for requests that are not about a single run.
func (h *Handler) admitStart(w http.ResponseWriter, req *http.Request, scope *Access) bool {
	if !h.mayStart(scope) {
		h.refuseStart(w)
		return false
	}
	return h.admitPost(w, req)
}

// refuseStart refuses a request to start a run. The message distinguishes whether nobody can start
// runs on this server, or only this sender is not allowed to.
func (h *Handler) refuseStart(w http.ResponseWriter) {
	message := "you may look at runs, but not start them"
	if h.options.Starter == nil {
		message = "runs cannot be started here"
	}
	h.refuse(w, http.StatusForbidden, "forbidden", message)
}

// admitRun checks that the run exists and that the sender is allowed to see it.
func (h *Handler) admitRun(w http.ResponseWriter, req *http.Request, scope *Access) bool {
	id := req.PathValue("run")
	if _, err := h.find(req.Context(), id, scope); err != nil {
		h.refuseError(w, err, noRun(id))
		return false
	}
	return true
}

// admitPost refuses requests from the pages of other sites: a form cannot send JSON, and a script
// is refused because of its origin.
func (h *Handler) admitPost(w http.ResponseWriter, req *http.Request) bool {
	if !h.admitOrigin(w, req) {
		return false
	}
	if kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")); kind != "application/json" {
		h.refuse(w, http.StatusUnsupportedMediaType, "bad_request", "the Content-Type is "+strconv.Quote(req.Header.Get("Content-Type"))+": want application/json")
		return false
	}
	return true
}

// admitOrigin refuses requests from the pages of other sites, even those in Options.Origins. It is
// used for requests that may change something.
func (h *Handler) admitOrigin(w http.ResponseWriter, req *http.Request) bool {
	if err := h.guard.Check(req); err != nil {
		h.refuse(w, http.StatusForbidden, "cross_origin", "requests from the pages of other sites are refused")
		return false
	}
	return true
}

// maxName limits how much of an unknown name is repeated in a message.
const maxName = 200

// unknownProgram returns an error message with the unknown name in a Start and the names that are
// known.
func (h *Handler) unknownProgram(s *Start) string {
	var programs []string
	for _, p := range h.options.Starter.Programs() {
		programs = append(programs, p.Name)
	}
	if s.Version != "" && slices.Contains(programs, s.Program) {
		return fmt.Sprintf("there is no version %q of program %q here", record.Truncate(s.Version, maxName), s.Program)
	}
	return fmt.Sprintf("there is no program %q; want one of %v", record.Truncate(s.Program, maxName), programs)
}
