package failover

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// An answer is the result of a branch.
type answer struct {
	Model    int             `json:"model"` // index of the model that answered
	Response actors.Response `json:"response"`
}

var errNotAsked = errors.New("not called because an earlier model failed with an error that does not allow a failover")

// hedge calls the next model when one has failed or is slow. The calls are branches of
// a group in which the first answer wins.
func (f *failover) hedge(ctx context.Context, req actors.Request, show *display) (actors.Response, int, error) {
	h := &hedger{next: make([]chan struct{}, len(f.models)+1), stopped: make(chan struct{})}
	branches := make([]func(context.Context) (answer, error), len(f.models))
	errs := make([]error, len(f.models))
	for i := range f.models {
		h.next[i+1] = make(chan struct{})
		branches[i] = func(ctx context.Context) (answer, error) {
			if i > 0 {
				if err := h.wait(ctx, i, time.Duration(i)*f.o.HedgeAfter); err != nil {
					return answer{}, err
				}
			}
			resp, err := f.call(ctx, i, req, show)
			return answer{i, resp}, err
		}
	}
	failed := func(branch int, err error) { // also called when a resumed run recalls the failure
		errs[branch-1] = err
		if f.o.On(err) {
			close(h.next[branch])
		} else {
			h.end()
		}
	}
	winner, err := actors.First(ctx, actors.Group{Name: "models", OnFailure: failed}, branches...)
	if err == nil || core.IsSuspension(err) {
		return winner.Response, winner.Model, err
	}
	return actors.Response{}, 0, f.groupError(err, errs)
}

// groupError returns the error of a group in which all models failed. If the group itself was
// recalled, errs contains no errors, but the group's error contains those of the models.
func (f *failover) groupError(group error, errs []error) error {
	failed := &Error{Name: f.name}
	for i, err := range errs {
		switch {
		case err == nil:
		case !f.o.On(err):
			return err
		default:
			failed.add(f.models[i].Name(), err)
		}
	}
	if len(failed.Errs) < len(errs) {
		return group
	}
	return failed
}

// A hedger coordinates when models are called.
type hedger struct {
	next    []chan struct{} // next[i] is closed when model i-1 has failed
	stopped chan struct{}   // closed when no further model may be called
	once    sync.Once
}

func (h *hedger) end() { h.once.Do(func() { close(h.stopped) }) }

// wait returns when model i should be called: after d, or as soon as the previous model
// has failed.
func (h *hedger) wait(ctx context.Context, i int, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.next[i]:
	case <-h.stopped:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-h.stopped: // check again: a previous model that was not called also counts as failed
		return errNotAsked
	default:
		return nil
	}
}
