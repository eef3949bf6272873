package streamer

import (
	"context"
	"net/http"
	"time"
)

// A Continuer makes stopped runs continue, for senders whose Access allows control. It must be safe
// for concurrent use. It returns the same errors as a [Control]. In addition, if a run cannot
// continue in this way, the error is ErrConflict.
type Continuer interface {
	// Resume continues a run that was interrupted. If the run was not started by a runner, or is
	// paused and waits for an answer, a signal or a time, the error is ErrConflict.
	Resume(ctx context.Context, runID string) error

	// Retry continues a run that failed, and repeats the calls that failed for good. A run that was
	// not started by a runner stays interrupted until its program opens it.
	Retry(ctx context.Context, runID string) error

	// ResumeAll resumes the selected interrupted runs and returns the result for each. If the
	// selection is not possible, the error is ErrInvalid.
	ResumeAll(ctx context.Context, c Selection) ([]SelectedRun, error)

	// RetryAll is like ResumeAll, but retries the selected failed runs.
	RetryAll(ctx context.Context, c Selection) ([]SelectedRun, error)
}

// A Selection selects the runs that match all of its fields that are set. At least one field must
// be set.
type Selection struct {
	Status  string    `json:"status,omitempty"`  // interrupted for ResumeAll, failed for RetryAll
	Reason  string    `json:"reason,omitempty"`  // why the run was interrupted or failed
	Program string    `json:"program,omitempty"` // the name of the run's program
	Since   time.Time `json:"since,omitzero"`    // the run was updated at this time or later

	// Sees reports whether the sender may see the run; nil means every run.
	Sees func(runID string) bool `json:"-"`
}

// A SelectedRun is one of the runs selected by a Selection. Error says why the run does not
// continue; it is empty if the run continues.
type SelectedRun struct {
	RunID string `json:"run_id"`
	Error string `json:"error,omitempty"`
}

// continuedBody is the response to a request with a Selection.
type continuedBody struct {
	Runs []SelectedRun `json:"runs"`
}

func (h *Handler) serveResume(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveContinue(w, req, scope, Continuer.Resume)
}

func (h *Handler) serveRetry(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveContinue(w, req, scope, Continuer.Retry)
}

func (h *Handler) serveContinue(w http.ResponseWriter, req *http.Request, scope *Access, act func(c Continuer, ctx context.Context, runID string) error) {
	var body struct{}
	id := req.PathValue("run")
	if !h.admitContinue(w, req, scope) || !h.admitRun(w, req, scope) || !h.readBody(w, req, &body) {
		return
	}
	h.answerControl(w, act(h.options.Continuer, req.Context(), id), noRun(id))
}

func (h *Handler) serveResumeAll(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveContinueAll(w, req, scope, Continuer.ResumeAll)
}

func (h *Handler) serveRetryAll(w http.ResponseWriter, req *http.Request, scope *Access) {
	h.serveContinueAll(w, req, scope, Continuer.RetryAll)
}

func (h *Handler) serveContinueAll(w http.ResponseWriter, req *http.Request, scope *Access, act func(c Continuer, ctx context.Context, choice Selection) ([]SelectedRun, error)) {
	var choice Selection
	if !h.admitContinue(w, req, scope) || !h.readBody(w, req, &choice) {
		return
	}
	if choice.Status == "" && choice.Reason == "" && choice.Program == "" && choice.Since.IsZero() {
		h.refuse(w, http.StatusBadRequest, "bad_request", `status, reason, program or since is needed: {"reason": "divergence", "program": "support"}`)
		return
	}
	choice.Sees = scope.sees
	runs, err := act(h.options.Continuer, req.Context(), choice)
	if err != nil {
		h.refuseError(w, err, "there are no such runs")
		return
	}
	if redact := h.options.redactText(); redact != nil {
		for i := range runs {
			runs[i].Error = redact(runs[i].Error)
		}
	}
	h.sendJSON(w, continuedBody{append([]SelectedRun{}, runs...)})
}

// admitContinue checks that the sender is allowed to make runs continue.
func (h *Handler) admitContinue(w http.ResponseWriter, req *http.Request, scope *Access) bool {
	if h.options.Continuer == nil || !scope.Control {
		h.refuse(w, http.StatusForbidden, "forbidden", "nothing can be resumed or retried here")
		return false
	}
	return h.admitPost(w, req)
}
