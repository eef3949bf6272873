package streamer

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// A Forker begins new runs at calls of other runs, for senders whose Access allows control. It must
// be safe for concurrent use. It returns the same errors as a [Control]. It also returns
// ErrConflict if another run already has the ID or if calls with effects need a decision, and
// ErrInvalid if the call does not exist or an output cannot be set.
type Forker interface {
	Fork(ctx context.Context, runID string, f Fork) error
}

// A Fork is a request for a new run that begins just before a call of another run; see state.Fork.
// The new run does not execute until it is resumed.
type Fork struct {
	RunID   string `json:"run_id"` // ID of the new run
	Address string `json:"address"`
	NewKeys bool   `json:"new_keys,omitempty"`

	// Effects specifies how to handle calls that the fork does not keep and that have had effects:
	// "take_over" or "repeat". If it is empty, there must be no such calls.
	Effects string `json:"effects,omitempty"`

	// Outputs replaces the outputs of calls, given by address, and the answers to questions, given
	// by ID.
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"`
}

func (h *Handler) serveFork(w http.ResponseWriter, req *http.Request, scope *Access) {
	var f Fork
	id := req.PathValue("run")
	if h.options.Forker == nil || !scope.Control {
		h.refuse(w, http.StatusForbidden, "forbidden", "runs cannot be forked here")
		return
	}
	if !h.admitPost(w, req) || !h.admitRun(w, req, scope) || !h.readBody(w, req, &f) {
		return
	}
	switch {
	case f.RunID == "" || f.Address == "":
		h.refuse(w, http.StatusBadRequest, "bad_request", `run_id and address are needed: {"run_id": "second-try", "address": "assistant/get_weather"}`)
		return
	case !scope.sees(f.RunID):
		h.refuse(w, http.StatusForbidden, "forbidden", "you may not see a run "+strconv.Quote(f.RunID))
		return
	}
	h.answerControl(w, h.options.Forker.Fork(req.Context(), id, f), noRun(id))
}
