package core

import (
	"errors"
	"time"
)

// decide says why the failed attempt is not to be followed by another, as far
// as its error and the number of attempts are concerned: ReasonNone if it is.
func (c *call) decide(s *Scope) Reason {
	config := &c.policy.config
	switch {
	case c.r.panicked:
		return ReasonPanic
	case s.expired() && s.limit.total:
		c.addLastError()
		return ReasonRetryTimeout
	case s.doomed.Load() && !s.expired():
		return ReasonDeadline
	}
	if reason := ownEnd(s.outer); reason != ReasonNone {
		c.addLastError()
		return reason
	}
	if !c.retryable(s) {
		if c.r.panicked { // by StopWhen, RetryWhen or a Matcher
			return ReasonPanic
		}
		return refused(c.r.stage, ReasonPermanent)
	}
	if config.MaxAttempts != Unlimited && s.attempt+1 >= config.MaxAttempts {
		if config.MaxAttempts == 1 {
			return refused(c.r.stage, ReasonExhausted)
		}
		return ReasonExhausted
	}
	return ReasonNone
}

// refused is the reason of a failure that has no retry, where the stage says
// more than the error.
func refused(stage Stage, otherwise Reason) Reason {
	switch stage {
	case StagePostcondition:
		return ReasonCondition
	case StageArtifact:
		return ReasonStorage
	}
	return otherwise
}

// retryable applies the order of decisions: never, Exclude, StopWhen, RetryOn
// and RetryWhen, the mark Retryable, the class.
func (c *call) retryable(s *Scope) bool {
	traits := inspect(c.r.err)
	class := classIn(&c.r, &traits)
	if class == ClassPermanent || class == ClassPanic || class == ClassInvalid {
		return false
	}
	if errors.Is(c.r.err, errUnsatisfied) {
		return true
	}
	byDefault := traits.retryable || class.IsTransient()
	config := &c.policy.config
	if config.Exclude == nil && config.StopWhen == nil && config.RetryOn == nil && config.RetryWhen == nil {
		return byDefault
	}
	return c.judge(Attempt{Number: s.attempt + 1, Err: c.r.err, Output: c.body.output()}, class, byDefault)
}

// judge asks the user's functions about a failure. A panic in one becomes the
// failure.
func (c *call) judge(attempt Attempt, class Class, byDefault bool) (retry bool) {
	verdict := result{stage: c.r.stage}
	defer func() {
		if verdict.panicked {
			// The failure that was judged must not be lost by it.
			verdict.err = errors.Join(verdict.err, c.r.err)
			c.r, retry = verdict, false
		}
	}()
	defer verdict.recoverPanic()
	config, matched := &c.policy.config, error(&classedError{attempt.Err, class})
	switch {
	case matchesAny(config.Exclude, matched):
		return false
	case config.StopWhen != nil && config.StopWhen(attempt):
		return false
	case config.RetryOn != nil && !matchesAny(config.RetryOn, matched):
		return false
	case config.RetryWhen != nil:
		return config.RetryWhen(attempt)
	}
	return config.RetryOn != nil || byDefault
}

// unsatisfied asks about a success whether another attempt is wanted, and
// makes it a failure if so.
func (c *call) unsatisfied(s *Scope) bool {
	if c.policy.config.RetryWhen == nil {
		return false
	}
	verdict := result{stage: c.r.stage}
	again := c.wantsMore(Attempt{Number: s.attempt + 1, Output: c.body.output()}, &verdict)
	if again {
		verdict.err = errUnsatisfied
	}
	if verdict.err == nil {
		return false
	}
	c.r = verdict
	return true
}

func (c *call) wantsMore(attempt Attempt, verdict *result) bool {
	defer verdict.recoverPanic()
	config := &c.policy.config
	return (config.StopWhen == nil || !config.StopWhen(attempt)) && config.RetryWhen(attempt)
}

// classOf is the class of a failure: the stage decides where it says more
// than the error.
func classOf(r *result) Class {
	if r.err == nil {
		return ClassUnknown
	}
	traits := inspect(r.err)
	return classIn(r, &traits)
}

func classIn(r *result, t *traits) Class {
	if r.panicked {
		return ClassPanic
	}
	class := t.class()
	switch r.stage {
	case StageDefinition, StagePrecondition, StageEncode:
		return ClassInvalid
	case StagePostcondition:
		if class != ClassPermanent {
			return ClassCondition
		}
	case StageArtifact:
		if class != ClassPermanent {
			return ClassArtifact
		}
	}
	return class
}

// plan is what is to happen between two attempts.
type plan struct {
	delay  time.Duration
	source Source
	futile *InterruptedError // the surroundings end before the next attempt could begin
}

// planRetry chooses the delay before the next attempt, and gives a reason if
// that attempt could never begin.
func (c *call) planRetry(s *Scope) Reason {
	config, retry := &c.policy.config, s.attempt+1
	delay := c.policy.jittered(retry, c.plan.delay, c.random(retry))
	c.plan = plan{delay: delay, source: SourceBackoff}
	if after, ok := RetryAfter(c.r.err); ok {
		if after > config.MaxRetryAfter {
			return ReasonRetryAfterTooLong
		}
		if after > delay {
			delay = after
			c.plan = plan{delay: delay, source: SourceServer}
		}
	}
	if config.RetryTimeout > 0 && c.ended.Sub(c.began) >= config.RetryTimeout-delay {
		if c.plan.source == SourceServer {
			return ReasonRetryAfterTooLong
		}
		return ReasonRetryTimeout
	}
	if deadline, ok := s.outer.Deadline(); ok && !c.ended.Add(delay).Before(deadline) {
		if c.plan.futile = c.futile(deadline); c.plan.futile == nil {
			return ReasonDeadline
		}
	}
	return ReasonNone
}

// futile is the suspension of a call whose next attempt could not begin before
// the deadline of its context. It is nil if that deadline is the call's own,
// and not one of what is around it.
func (c *call) futile(deadline time.Time) *InterruptedError {
	var owner *Scope // the outermost that has it
	for s := c.parent; s != nil; s = s.call.parent {
		if d, ok := s.Deadline(); !ok || !d.Equal(deadline) {
			break
		}
		owner = s
	}
	if owner == nil {
		return nil
	}
	e := &InterruptedError{Reason: InterruptContext, Message: "the deadline comes before the next attempt", Cause: errDeadlineAhead}
	if owner.call.parent != nil {
		e.Reason, e.origin = InterruptParent, owner
		owner.doomed.Store(true)
	}
	return e
}

// random is in [0, 1), and in a run depends on its seed, the address and the
// retry alone.
func (c *call) random(retry int) float64 {
	if c.policy.config.Jitter == NoJitter {
		return 0
	}
	if c.run == nil {
		return randomUnit()
	}
	return unit(c.run.Settings().Seed, c.address, retry)
}
