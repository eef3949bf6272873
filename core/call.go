package core

import (
	"context"
	"time"
)

// call is one call in progress, without its types. The engine below is the
// same for every actor; body does what needs the types.
type call struct {
	body    body   // nil for a root and a branch, which are only places
	root    *Root  // of the run; nil outside one
	parent  *Scope // nil for a root, and outside a run
	spec    *Spec
	policy  *Policy
	address Address
	told    *Record // to be used for the next that is told; nil if there is none

	// The latest attempt, how it ended, and what follows from it. They are
	// here and not on the stack, so that the goroutine of a waiting call does
	// with the smallest stack there is.
	started instant       // the attempt
	clocked int64         // the time of day when it did, Unix in nanoseconds; in a run
	took    time.Duration // the attempt, once it ended
	spent   time.Duration // on attempts and waits before it
	r       result
	lastErr error         // of the attempt before
	delay   time.Duration // before the next attempt
	source  Source        // of the delay
	custom  bool          // the policy is the event's own
	last    bool          // no attempt may follow this one
	entered bool          // an attempt was begun by this process
}

// execute is the way of a call: preconditions, then attempts until one
// settles it.
func (t *typedCall[In, Out]) execute() error {
	first, err := t.admit(&t.first)
	if first != nil {
		err = t.attempts(first)
	}
	t.release()
	return err
}

// goOn takes up a call whose first attempt was made and failed.
func (c *call) goOn(s *Scope) error {
	c.start()
	if done, err := c.settle(s); done {
		return err
	}
	return c.attempts(c.next(s))
}

// admit does what comes once, before the first attempt, in its scope s. It
// returns the scope to make the attempt in; nil, with the error, if the call
// has ended.
func (c *call) admit(s *Scope) (*Scope, error) {
	c.start()
	if c.parent.Closed() {
		return nil, ErrAttemptOver
	}
	if c.policy.err != nil {
		c.r = result{err: c.policy.err, stage: StageDefinition}
		return nil, c.failBefore(s, ReasonPermanent)
	}
	if c.root != nil && c.root.settings.Recalls {
		if rec := c.recalled(s); rec != nil {
			return c.recall(s, rec)
		}
	}
	if done, err := c.checkpoint(s); done {
		return nil, err
	}
	// What comes before the first attempt takes none of its time.
	if c.root != nil && c.root.settings.Check != nil {
		c.start()
	}
	if !c.body.conditional() {
		return s, nil
	}
	return c.precede(s)
}

// precede runs the preconditions, in a scope of their own: they do not run
// again when the call is resumed, and so must number no call of its handler.
// What they left behind may still look at that scope when the attempt begins.
func (c *call) precede(s *Scope) (*Scope, error) {
	before := &Scope{outer: s.outer, call: c, attempt: beforeFirst}
	c.body.require(before.context(), &c.r)
	before.closed.Store(true)
	s.used.Store(before.used.Load())
	if e := before.stopped.Load(); e != nil {
		return nil, c.suspend(s, e, StageEntry)
	}
	if c.r.err != nil {
		return nil, c.refuse(s)
	}
	if done, err := c.checkpoint(s); done {
		return nil, err
	}
	c.start()
	return s, nil
}

// hasLimit reports whether attempts of the call have an end in time.
func (c *call) hasLimit() bool { return c.timeout() > 0 || c.policy.config.RetryTimeout > 0 }

// timeout is that of an attempt, 0 for none.
func (c *call) timeout() time.Duration { return c.policy.timeout(c.spec, c.custom) }

// refuse ends a call whose preconditions do not hold.
func (c *call) refuse(s *Scope) error {
	if e := c.suspension(s.outer); e != nil {
		return c.suspend(s, e, StageEntry)
	}
	reason := ReasonPrecondition
	if c.r.panicked {
		reason = ReasonPanic
	}
	return c.failBefore(s, reason)
}

// attempts runs one attempt after the other, beginning with s.
func (c *call) attempts(s *Scope) error {
	for {
		if err := c.attempt(s); err != nil {
			return err
		}
		if done, err := c.settle(s); done {
			return err
		}
		s = c.next(s)
	}
}

// next is the scope of the attempt after that of s.
func (c *call) next(s *Scope) *Scope {
	return &Scope{outer: s.outer, call: c, attempt: s.attempt + 1}
}

// attempt makes one attempt, whose result is c.r. Its error says that the
// attempt could not even begin.
func (c *call) attempt(s *Scope) error {
	if s.attempt > 0 {
		c.startNext()
		if total := c.policy.config.RetryTimeout; total > 0 && c.spent >= total {
			c.took = 0
			return c.fail(&Scope{outer: s.outer, call: c, attempt: s.attempt - 1}, ReasonRetryTimeout) // the wait took longer than it should
		}
	}
	if c.root != nil {
		if err := c.recordStarted(s); err != nil {
			return err
		}
	}
	if c.hasLimit() {
		c.limited(s)
	} else {
		c.body.pass(s.context())
		s.closed.Store(true)
	}
	c.took = c.started.since()
	return nil
}

// context is what the handler gets. Outside a run and without a timeout
// there is nothing to add to the caller's.
func (s *Scope) context() context.Context {
	if s.call.root == nil && s.limit == nil {
		return s.outer
	}
	return s
}

// settle decides what the end of an attempt means. It is done if the call
// has an ending; otherwise the wait is over and the next attempt is due.
func (c *call) settle(s *Scope) (done bool, err error) {
	if e := c.suspended(s); e != nil {
		return true, c.suspend(s, e, StageHandler)
	}
	if c.r.err == nil && !c.unsatisfied(s) {
		return true, c.complete(s)
	}
	c.assess()
	reason, e := c.decide(s)
	if e != nil {
		return true, c.suspend(s, e, StageHandler)
	}
	if reason == ReasonNone {
		reason, e = c.planRetry(s)
	}
	if reason != ReasonNone {
		return true, c.fail(s, reason)
	}
	if c.root != nil {
		if err := c.recordRetry(s); err != nil {
			return true, err
		}
	}
	c.lastErr = c.r.err
	if e != nil {
		return true, c.suspend(s, e, StageWait)
	}
	return c.wait(s, c.delay)
}

// addLastError adds the error of the attempt before, where the handler of this
// one had nothing to say but that its time was over: the last error of the
// handler is always kept.
func (c *call) addLastError() {
	err := c.r.err
	if c.lastErr != nil && (is(err, context.DeadlineExceeded) || is(err, context.Canceled)) {
		c.r.err = &classedError{after(err, c.lastErr), c.r.class}
	}
}
