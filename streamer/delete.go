package streamer

import (
	"context"
	"errors"
	"fmt"
)

// eventDeleted is the name of the event that says that a run was deleted.
const eventDeleted = "deleted"

// gone is the frame of an entry that stands for the deletion of a run.
var gone = new(frame)

// deletedBody is the data of the event "deleted".
type deletedBody struct {
	RunID string `json:"run_id"`
}

// Deleted tells the clients that a run was deleted, with an event "deleted" in the stream of all
// runs and in that of the run, which then waits for another run with its ID. If another run with
// that ID exists already, Deleted reads that run instead.
func (h *Handler) Deleted(ctx context.Context, runID string) {
	if h.source != nil {
		info, err := h.source.Run(ctx, runID)
		if err == nil {
			h.renew(runID, &info)
			return
		}
		if !errors.Is(err, ErrNotFound) {
			return // nobody knows; clients that reconnect find out
		}
	}
	if r := h.runs.find(runID); r != nil && r.end(gone) {
		h.notifyLater(r.tape)
	}
	f := &frame{runID: runID, event: eventDeleted, size: frameBytes}
	f.once.Do(func() {
		f.body = fmt.Appendf(nil, "data: %s\nevent: %s\n", mustJSON(deletedBody{runID}), eventDeleted)
	})
	if h.all.number(f, h.generation) {
		h.notifyLater(h.all)
	}
}

// renew discards what is known of a run that another run has replaced.
func (h *Handler) renew(runID string, info *RunInfo) {
	r := h.runs.find(runID)
	if r == nil {
		return
	}
	r.mu.Lock()
	known := r.view.ledger.First == 1 && !r.view.Created.Before(info.Created) // the known records belong to the new run
	r.mu.Unlock()
	if !known && r.end(restarted) {
		h.notifyLater(r.tape)
	}
}

// end forgets the run, and puts a frame about that on its tape.
func (r *run) end(f *frame) (due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	r.published, r.last = false, cursor{}
	r.stored.Store(0)
	r.ends.Add(1)
	return r.tape.end(f)
}

// end removes all events, and ends the streams of the clients that have read them.
func (t *tape) end(f *frame) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(f)
	return t.becomesDue()
}

// finish does what end does, without a notification; t.mu is held.
func (t *tape) finish(f *frame) {
	t.dropAll()
	t.before, t.last, t.begun = cursor{}, cursor{}, nil
	t.put(entry{frame: f})
}

// deleted tells the client that the run is gone, and begins again with the next run.
func (s *stream) deleted() {
	s.moves++
	s.at = cursor{}
	s.event(eventDeleted, deletedBody{s.run.id})
}
