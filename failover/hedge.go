package failover

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// answered is the result of a branch.
type answered struct {
	Model    int             `json:"model"` // that answered
	Response actors.Response `json:"response"`
}

var errNotAsked = errors.New("not asked, since a model before it failed with an error that another model does not mend")

// hedge asks the next model when one has failed or takes long, in a group in which the
// first answer wins.
func (f *failover) hedge(ctx context.Context, req actors.Request, show *stage) (actors.Response, int, error) {
	h := &hedging{next: make([]chan struct{}, len(f.models)+1), over: make(chan struct{})}
	branches := make([]func(context.Context) (answered, error), len(f.models))
	errs := make([]error, len(f.models))
	for i := range f.models {
		h.next[i+1] = make(chan struct{})
		branches[i] = func(ctx context.Context) (answered, error) {
			if i > 0 {
				if err := h.wait(ctx, i, time.Duration(i)*f.o.HedgeAfter); err != nil {
					return answered{}, err
				}
			}
			resp, err := f.call(ctx, i, req, show)
			switch {
			case err == nil:
				return answered{i, resp}, nil
			case core.IsSuspension(err):
			case f.o.On(err):
				close(h.next[i+1])
			default:
				h.end()
			}
			errs[i] = err
			return answered{}, err
		}
	}
	won, err := actors.First(ctx, actors.Group{Name: "models"}, branches...)
	if err == nil || core.IsSuspension(err) {
		return won.Response, won.Model, err
	}
	return actors.Response{}, 0, f.failed(err, errs)
}

// failed is the error of a group in which no model has answered. What is not in errs
// was recalled, and is in the error of the group.
func (f *failover) failed(group error, errs []error) error {
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

// hedging says when models are asked.
type hedging struct {
	next []chan struct{} // closed when the model before has failed
	over chan struct{}   // closed when no further model is to be asked
	once sync.Once
}

func (h *hedging) end() { h.once.Do(func() { close(h.over) }) }

// wait returns when model i is to be asked: after that time, or when the model before
// it has failed.
func (h *hedging) wait(ctx context.Context, i int, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-h.next[i]:
		return nil
	case <-h.over:
		return errNotAsked
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
