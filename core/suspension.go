package core

import (
	"context"
	"errors"
)

// Whether a call was stopped or has failed is decided here: by the state of
// the contexts around it and of the calls inside it.

// suspended finds out whether an attempt stopped without an outcome: decided
// by the state of the contexts and of the calls inside, never by which error
// the handler returned.
func (c *call) suspended(s *Scope) *InterruptedError {
	if e := s.stopped.Load(); e != nil && !s.expired() {
		return e
	}
	if s.doomed.Load() && !s.expired() {
		// A call inside stopped with the attempt's context, or gave up since
		// it could not go on before its end: without its outcome there is no
		// success.
		c.expire(s)
	}
	if c.r.err == nil {
		return nil
	}
	if e := c.suspension(s.outer); e != nil {
		return e
	}
	if IsSuspension(c.r.err) {
		c.r.err = &settledError{c.r.err}
	}
	return nil
}

// expire makes the attempt fail by the end of its context, also before that.
func (c *call) expire(s *Scope) {
	if s.outer.Err() != nil {
		c.r.err = after(context.Cause(s.outer), c.r.err)
		return
	}
	if outer, ok := s.outer.Deadline(); s.limit == nil || ok && outer.Before(s.limit.Deadline()) {
		c.r.err = after(errDeadlineAhead, c.r.err)
		return
	}
	s.limit.overdue.Store(true)
	c.r.err = &TimeoutError{Limit: s.limit.length, Err: c.r.err}
}

func (s *Scope) expired() bool { return s.limit != nil && s.limit.expired() }

// checkpoint asks whether the call may go on.
func (c *call) checkpoint(s *Scope) (done bool, err error) {
	if !c.interrupted(s.outer) {
		return false, nil
	}
	if e := c.suspension(s.outer); e != nil {
		return true, c.suspend(s, e, StageEntry)
	}
	c.r = result{err: context.Cause(s.outer), stage: StageEntry}
	return true, c.failBefore(s, ownEnd(s.outer))
}

// suspension is what stopped the surroundings of the call; nil while they go
// on.
func (c *call) suspension(ctx context.Context) *InterruptedError {
	if c.parent == nil {
		// Outside a run the caller's context is all there is: its deadline is
		// the call's, its cancellation an interrupt.
		if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return interruption(ctx)
		}
		return nil
	}
	return c.parent.ending()
}

// interruption is what the end of this scope means to the calls inside.
func (s *Scope) interruption() *InterruptedError {
	if s.expired() {
		return &InterruptedError{Reason: InterruptParent, Cause: context.DeadlineExceeded, origin: s}
	}
	if s.call.isRoot() {
		if e := s.call.root.interrupted.Load(); e != nil {
			return e
		}
	}
	e := interruption(s.outer)
	if s.call.parent != nil && e.origin == nil {
		own := *e
		own.origin = s
		return &own
	}
	return e
}

// ownEnd is the reason that the end of the context given to a call is,
// ReasonNone while it goes on.
func ownEnd(ctx context.Context) Reason {
	switch err := ctx.Err(); {
	case err == nil:
		return ReasonNone
	case errors.Is(err, context.DeadlineExceeded):
		return ReasonDeadline
	}
	return ReasonCanceled
}

// mark tells the scopes around the call, up to the one that ended, that a
// call inside them has no outcome.
func (c *call) mark(e *InterruptedError) {
	for s := c.parent; s != nil && s != e.origin; s = s.call.parent {
		s.stopped.CompareAndSwap(nil, e)
	}
	if e.origin != nil {
		e.origin.doomed.Store(true)
	}
}

// Interruption tells whether the surroundings of ctx have ended, and why: the
// run was interrupted, an attempt around it timed out, a group was cancelled.
// It is nil while they go on, also if ctx itself has ended because somebody
// derived it with an end of its own. Outside a run it tells of ctx itself.
func Interruption(ctx context.Context) *InterruptedError {
	s := scopeOf(ctx)
	if s == nil {
		if ctx.Err() == nil {
			return nil
		}
		return interruption(ctx)
	}
	return s.ending()
}

// ending is why the scope has ended, nil while it has not. The outermost
// scope that ended is the one that did it.
func (s *Scope) ending() *InterruptedError {
	if s.Err() == nil {
		return nil
	}
	top := s
	for p := s.call.parent; p != nil && p.Err() != nil; p = p.call.parent {
		top = p
	}
	return top.interruption()
}
