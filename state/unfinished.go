package state

import (
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// stopAtEnd returns an error if a strict replay has reached the point at which the run stopped: the
// call has no outcome yet, or had not begun, and would have to be executed. The error suspends the
// scope s. If the error were a failure instead, the program would handle it, for example by telling
// a model, and would continue in a way in which the resumed run will not. r.mu must be held.
func (r *run) stopAtEnd(s *engine.Scope, c record.Claim, found *record.Progress) error {
	if !r.settings.Strict || c.Kind == record.KindQuestion || c.Kind.IsEntered() || found != nil && found.HasOutcome() || !r.isAtEnd(s, c) {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Address, core.ErrNotRecorded)
}

// isAtEnd reports whether the claimed call or question is one with which the run continues when it
// is resumed. This is the case if the call around it has not ended and it has no outcome, has not
// begun, or is the first at its position. r.mu must be held.
func (r *run) isAtEnd(s *engine.Scope, c record.Claim) bool {
	if r.rerun.isDiscarded(c.Address) || r.hasEndedAround(s) {
		return false
	}
	if p := r.restored.progress(c.Address); p != nil {
		return !p.HasOutcome()
	}
	was := r.restored.ordinals[s.Path()].recorded(c.Ordinal)
	return was == nil || was.matches(c) // the call has not begun
}

// hasEndedAround reports whether the call whose scope is s has an outcome or, if s is a root scope,
// whether the run has one. r.mu must be held.
func (r *run) hasEndedAround(s *engine.Scope) bool {
	if s.Parent() == nil {
		return r.found.Status == snapshot.StatusCompleted || r.found.Status == snapshot.StatusFailed || r.found.Status == snapshot.StatusCancelled
	}
	p := r.restored.progress(s.Address())
	return p != nil && p.HasOutcome()
}
