package streamer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// eventDeleted is the name of the event that reports that a run was deleted.
const eventDeleted = "deleted"

// deletedFrame marks an entry that reports that a run was deleted.
var deletedFrame = new(frame)

// deletedBody is the data of the event "deleted".
type deletedBody struct {
	RunID   string    `json:"run_id"`
	Created time.Time `json:"created_at,omitzero"` // creation time of another run that now has the same ID
}

// PublishDeletion tells the clients that a run was deleted. It puts an event "deleted" into the
// stream of all runs and into the run's own stream, which then waits for another run with the same
// ID. If there already is such a run, the event in the stream of all runs contains that run's
// creation time, and the run's own stream is reset. If the handler already knows the new run,
// PublishDeletion does nothing.
func (h *Handler) PublishDeletion(ctx context.Context, runID string) {
	if h.source != nil {
		info, err := h.source.Run(ctx, runID)
		if err == nil {
			if h.forgetReplaced(runID, &info) {
				h.say(runID, eventDeleted, deletedBody{runID, info.Created})
			}
			return
		}
		if !errors.Is(err, ErrNotFound) {
			return // it is not known whether the run exists; clients find out when they reconnect
		}
	}
	if r := h.runs.find(runID); r != nil && r.end(deletedFrame, time.Now()) {
		h.notifyLater(r.tape)
	}
	h.say(runID, eventDeleted, deletedBody{RunID: runID})
}

// say puts an event about a run into the stream of all runs.
func (h *Handler) say(runID, event string, body any) {
	f := &frame{runID: runID, event: event, size: frameBytes}
	f.once.Do(func() {
		f.body = fmt.Appendf(nil, "data: %s\nevent: %s\n", mustJSON(body), event)
	})
	if h.all.appendNumbered(f, h.generation) {
		h.notifyLater(h.all)
	}
}

// forgetReplaced forgets a run that was replaced by another with the same ID. If the handler already
// knows the new run, forgetReplaced does nothing and returns false.
func (h *Handler) forgetReplaced(runID string, info *RunInfo) bool {
	r := h.runs.find(runID)
	if r == nil {
		return true
	}
	r.mu.Lock()
	known := r.view.ledger.First == 1 && !r.view.Created.Before(info.Created) // the known records belong to the new run
	r.mu.Unlock()
	if !known && r.end(restartedFrame, info.Created) {
		h.notifyLater(r.tape)
	}
	return !known
}

// end forgets the run, appends f to its tape, which tells clients why the stream ends, and wakes
// the followers, so that they see that the run has ended. Later records that were written until the
// given time are ignored.
func (r *run) end(f *frame, until time.Time) (due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	r.published, r.last, r.deleted = false, cursor{}, until
	r.stored.Store(0)
	r.ends.Add(1)
	r.created.Store(0)
	r.products.tell(nil)
	return r.tape.end(f)
}

// end removes all events and appends f. If a client has read some of the removed events, its stream
// ends when it receives f.
func (t *tape) end(f *frame) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(f)
	return t.becomesDue()
}

// endLocked is like end, but does not notify anyone; t.mu must be held.
func (t *tape) endLocked(f *frame) {
	t.dropAll()
	t.before, t.last, t.begun = cursor{}, cursor{}, nil
	t.put(entry{frame: f})
}

// deleted tells the client that the run was deleted, and moves the cursor to the beginning. The
// stream then continues with the next run with the same ID.
func (s *stream) deleted() {
	s.moves++
	s.at, s.created = cursor{}, 0
	s.event(eventDeleted, deletedBody{RunID: s.run.id})
}
