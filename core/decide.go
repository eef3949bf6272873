package core

import (
	"time"
)

// decide says whether the failed attempt is to be followed by another, as far
// as its error and the number of attempts are concerned, and else why not.
func (c *call) decide(s *Scope, r *result) (retry bool, reason Reason) {
	config := &c.policy.config
	switch {
	case r.panicked:
		return false, ReasonPanic
	case s.expired() && s.limit.total:
		return false, ReasonRetryTimeout
	}
	if reason := ownEnd(s.outer); reason != ReasonNone {
		return false, reason
	}
	if !c.retryable(s, r) {
		if r.panicked { // by StopWhen, RetryWhen or a Matcher
			return false, ReasonPanic
		}
		return false, refused(r.stage, ReasonPermanent)
	}
	if config.MaxAttempts != Unlimited && s.attempt+1 >= config.MaxAttempts {
		if config.MaxAttempts == 1 {
			return false, refused(r.stage, ReasonExhausted)
		}
		return false, ReasonExhausted
	}
	return true, ReasonNone
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
// and RetryWhen, the mark Retryable, the class. A panic in one of the user's
// functions becomes the failure.
func (c *call) retryable(s *Scope, r *result) (retry bool) {
	verdict := result{stage: r.stage}
	defer func() {
		if verdict.panicked {
			verdict.err.(*PanicError).Value = panicWhile{verdict.err.(*PanicError).Value, r.err}
			*r, retry = verdict, false
		}
	}()
	defer verdict.recoverPanic()

	config, traits := &c.policy.config, inspect(r.err)
	class := classIn(r, &traits)
	if class == ClassPermanent || class == ClassPanic || class == ClassInvalid {
		return false
	}
	if r.err == errUnsatisfied {
		return true
	}
	attempt := Attempt{Number: s.attempt + 1, Err: r.err}
	if config.RetryWhen != nil || config.StopWhen != nil {
		attempt.Output = c.body.output()
	}
	switch {
	case matchesAny(config.Exclude, r.err):
		return false
	case config.StopWhen != nil && config.StopWhen(attempt):
		return false
	case config.RetryOn != nil && !matchesAny(config.RetryOn, r.err):
		return false
	case config.RetryWhen != nil:
		return config.RetryWhen(attempt)
	case config.RetryOn != nil:
		return true
	}
	return traits.retryable || class.IsTransient()
}

// unsatisfied asks about a success whether another attempt is wanted, and
// makes it a failure if so.
func (c *call) unsatisfied(s *Scope, r *result) bool {
	config := &c.policy.config
	if config.RetryWhen == nil {
		return false
	}
	verdict := result{stage: r.stage}
	again := func() bool {
		defer verdict.recoverPanic()
		attempt := Attempt{Number: s.attempt + 1, Output: c.body.output()}
		return (config.StopWhen == nil || !config.StopWhen(attempt)) && config.RetryWhen(attempt)
	}()
	if verdict.panicked {
		*r = verdict
		return true
	}
	if again {
		r.err, r.output, r.artifact = errUnsatisfied, nil, ""
	}
	return again
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
	reason Reason            // why there will be no next attempt
	futile *InterruptedError // the surroundings end before the next attempt could begin
}

// plan chooses the delay before the next attempt, and sees whether the next
// attempt could begin at all.
func (c *call) plan(s *Scope, r *result, now time.Time) plan {
	config, retry := &c.policy.config, s.attempt+1
	p := plan{source: SourceBackoff}
	p.delay = c.policy.jittered(retry, c.previous, c.random(retry))
	if after, ok := RetryAfter(r.err); ok && after > p.delay {
		p.delay, p.source = after, SourceServer
	}
	if p.source == SourceServer && p.delay > config.MaxRetryAfter {
		p.reason = ReasonRetryAfterTooLong
		return p
	}
	if config.RetryTimeout > 0 && now.Sub(c.began) >= config.RetryTimeout-p.delay {
		p.reason = ReasonRetryTimeout
		if p.source == SourceServer {
			p.reason = ReasonRetryAfterTooLong
		}
		return p
	}
	if deadline, ok := s.outer.Deadline(); ok && !now.Add(p.delay).Before(deadline) {
		if p.futile = c.futile(now.Add(p.delay)); p.futile == nil {
			p.reason = ReasonDeadline
		}
	}
	return p
}

// futile is the suspension of a call whose surroundings end before its next
// attempt could begin: the outermost deadline that is too early. Nil if that
// is only the call's own.
func (c *call) futile(next time.Time) *InterruptedError {
	var top *Scope
	for s := c.parent; s != nil; s = s.call.parent {
		if deadline, ok := s.Deadline(); ok && !next.Before(deadline) {
			top = s
		}
	}
	if top == nil {
		return nil
	}
	e := &InterruptedError{Reason: InterruptContext, Message: "the deadline comes before the next attempt", Cause: errDeadlineAhead}
	if top.call.parent != nil {
		e.Reason, e.origin = InterruptParent, top
		top.doomed.Store(true)
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
