package engine

import (
	"context"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

// This file decides whether a call was suspended or has failed. The decision depends on the state
// of the surrounding contexts and of the nested calls, never on the error that the handler
// returned.

// InterruptedError is record.InterruptedError.
type InterruptedError = record.InterruptedError

// IsSuspension is core.IsSuspension.
func IsSuspension(err error) bool { return safeIs(err, record.ErrInterrupted) }

// suspension returns why the attempt of s, whose handler returned err, stopped without an outcome.
// It returns nil if the attempt ended on its own.
func (c *Call) suspension(s *Scope, err error) *InterruptedError {
	if s.endedItself() {
		return nil // this is a failure of the attempt
	}
	if e := s.suspended(); e != nil {
		return e
	}
	if err == nil {
		return nil
	}
	return c.parent.endCause()
}

// stop records in the scope that a nested call has no outcome. What follows from that is decided
// when the attempt ends. An attempt that is already over does not change, since its handler
// returned without waiting for that call.
func (s *Scope) stop(e *InterruptedError) {
	switch {
	case s.closed.Load():
	case e.Origin == s:
		s.ensureState().missedDeadline.Store(true)
	default:
		s.Suspend(e)
	}
}

// blockedBy returns why nothing new may begin in the scope, or nil if something may. Nothing new
// may begin if a nested call was suspended, or if this or a surrounding attempt has ended or cannot
// end in time. What a handler does after that must not be recorded, because it is not repeated when
// the run is resumed.
func (s *Scope) blockedBy() *InterruptedError {
	if s.call != nil {
		if e := s.suspended(); e != nil {
			return e
		}
	}
	if e := s.endCause(); e != nil {
		return e
	}
	for ; s.call != nil; s = s.call.parent {
		if s.hasMissedDeadline() && s.group == nil { // a failing group still recalls branches that have ended
			return &InterruptedError{Reason: record.InterruptParent, Cause: errDeadlineAhead, Origin: s}
		}
	}
	return nil
}

// failOverdue turns the result of an attempt that missed its deadline into a failure. The attempt
// did not succeed: a nested call has no outcome because the attempt's own deadline had passed or
// was near.
func (c *Call) failOverdue(s *Scope, r *attemptEnd) {
	if s.overran() {
		r.replace(newAfterError(context.Cause((*attemptContext)(s).outerContext()), r.Err))
	}
	if s.endedItself() || s.suspended() != nil {
		return
	}
	outer, hasOuter := s.outer.Deadline()
	switch {
	case s.outer.Err() != nil:
		r.replace(newAfterError(context.Cause(s.outer), r.Err))
	case s.limit == nil || hasOuter && outer.Before(s.limit.Deadline()):
		r.replace(newAfterError(errDeadlineAhead, r.Err))
	default:
		s.limit.overdue.Store(true)
		r.replace(&TimeoutError{Limit: s.limit.length, Err: r.Err})
	}
}

// endWithScope makes the call end when the surrounding scope ends, even if the call's context was
// detached by context.WithoutCancel or derived from a detached context. The returned function frees
// the resources; it is nil if there are none.
func (c *Call) endWithScope(first *Scope) (free func()) {
	if _, own := first.outer.(*attemptContext); own || c.root.isOutside() {
		return nil
	}
	around := c.parent.context()
	if first.outer.Done() == around.Done() {
		return nil
	}
	ctx, cancel := context.WithCancelCause(first.outer)
	stop := context.AfterFunc(around, func() { cancel(context.Cause(around)) })
	first.outer = ctx
	return func() {
		stop()
		cancel(nil)
	}
}

// endCause returns why the scope has ended, or nil if it has not. If several nested scopes have
// ended, endCause returns the reason why the outermost of them ended.
func (s *Scope) endCause() *InterruptedError {
	if s.context().Err() == nil {
		return nil
	}
	top := s
	for p := s.Parent(); p != nil && p.context().Err() != nil; p = p.Parent() {
		top = p
	}
	if top.call == nil && top.root.isOutside() && safeIs(top.outer.Err(), context.DeadlineExceeded) {
		return nil // the deadline of the caller belongs to the call itself
	}
	return top.interruption()
}

// interruption returns the suspension that the end of this scope causes for the
// calls inside.
func (s *Scope) interruption() *InterruptedError {
	if s.expired() {
		return &InterruptedError{Reason: record.InterruptParent, Cause: context.DeadlineExceeded, Origin: s}
	}
	if s.call == nil && s.attempt != callsite.CompensationAttempt { // compensations are made after the run was interrupted
		if e := s.root.interrupted.Load(); e != nil {
			return e
		}
	}
	e := interruption(s.outer)
	if s.call != nil && e.Origin == nil {
		own := *e
		own.Origin = s
		return &own
	}
	return e
}

// interruption returns the suspension that the end of ctx causes for the calls in it. This is the
// interrupt that ended ctx, or else a new one whose cause is that of ctx.
func interruption(ctx context.Context) *InterruptedError {
	cause := context.Cause(ctx)
	if e, ok := cause.(*InterruptedError); ok { //nolint:errorlint // the cause itself
		if e != nil {
			return e
		}
		cause = ctx.Err() // the cause is a typed nil, which is not an interrupt
	}
	return &InterruptedError{Reason: record.InterruptContext, Cause: cause}
}
