package state

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// ErrFinished is found in the error of a root call that is not in the records
// of a run, and is made after the run has completed or failed.
var ErrFinished = errors.New("state: the run has finished")

// WithFurtherCalls allows further root calls in a run that has completed or
// failed. Without it, such a call is refused with [ErrFinished], since in most cases a
// program should begin a new run.
func WithFurtherCalls() Option {
	return func(c *config) { c.further = true; c.isFor("WithFurtherCalls", inOpen) }
}

// refuseFurther returns an error for a root call that is not in the records of a finished run. If a
// recorded call was made again, the run is no longer finished. r.mu must be held.
func (r *run) refuseFurther(s *engine.Scope, c record.Claim) error {
	finished := r.found.Status == StatusCompleted || r.found.Status == StatusFailed
	if !finished || r.config.further || r.config.strict || s.Parent() != nil || r.rootCalls.begun || r.restored.calls[c.Address] != nil {
		return nil
	}
	again := ""
	if r.found.Status == StatusFailed {
		again = "; state.WithRerunFailed tries again what failed"
	}
	return fmt.Errorf("%w: run %s is %s, and has no call %s; begin a new run for it, or open this one with state.WithFurtherCalls%s",
		ErrFinished, r.settings.RunID, r.found.Status, c.Address, again)
}

func init() { record.RegisterError("state.ErrFinished", ErrFinished) }
