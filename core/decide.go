package core

import (
	"time"
)

// decide says why the failed attempt is not to be followed by another, as far
// as its error and the number of attempts are concerned: ReasonNone if it is.
// It is a suspension if the surroundings have ended by now.
func (c *call) decide(s *Scope) (Reason, *InterruptedError) {
	config := &c.policy.config
	switch {
	case c.r.panicked:
		return ReasonPanic, nil
	case s.expired() && s.limit.total:
		c.addLastError()
		return ReasonRetryTimeout, nil
	}
	if reason := ownEnd(s.outer); reason != ReasonNone {
		// The context ended: with its surroundings, be it only just now?
		if e := c.suspension(s.outer); e != nil {
			return ReasonNone, e
		}
		c.addLastError()
		return reason, nil
	}
	if s.doomed.Load() && !s.expired() {
		return ReasonDeadline, nil // it is near
	}
	if !c.retryable(s) {
		if c.r.panicked { // by StopWhen, RetryWhen or a Matcher
			return ReasonPanic, nil
		}
		return refused(c.r.stage, ReasonPermanent), nil
	}
	if c.last || c.root != nil && c.root.settings.Strict || config.MaxAttempts != Unlimited && s.Attempt()+1 >= config.MaxAttempts {
		if config.MaxAttempts == 1 {
			return refused(c.r.stage, ReasonExhausted), nil
		}
		return ReasonExhausted, nil
	}
	return ReasonNone, nil
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

// assess finds out, once for each failure, what retrying depends on.
func (c *call) assess() {
	traits := inspect(c.r.err)
	c.r.marked, c.r.after = traits.retryable, max(traits.after, 0)
	c.r.class = traits.class()
	switch {
	case c.r.panicked:
		c.r.class = ClassPanic
	case c.r.stage == StageDefinition || c.r.stage == StagePrecondition || c.r.stage == StageEncode:
		c.r.class = ClassInvalid
	case c.r.class == ClassPermanent:
	case c.r.stage == StagePostcondition:
		c.r.class = ClassCondition
	case c.r.stage == StageArtifact:
		c.r.class = ClassArtifact
	}
}

// retryable applies the order of decisions: never, Exclude, StopWhen, RetryOn
// and RetryWhen, the mark Retryable, the class.
func (c *call) retryable(s *Scope) bool {
	switch c.r.class {
	case ClassPermanent, ClassPanic, ClassInvalid:
		return false
	}
	if c.r.err == errUnsatisfied { //nolint:errorlint // its own, not that of a call inside
		return true
	}
	byDefault := c.r.marked || c.r.class.IsTransient()
	config := &c.policy.config
	if config.Exclude == nil && config.StopWhen == nil && config.RetryOn == nil && config.RetryWhen == nil {
		return byDefault
	}
	return c.judge(Attempt{Number: s.Attempt() + 1, Err: c.r.err, Output: c.body.output()}, byDefault)
}

// judge asks the user's functions about a failure. A panic in one becomes the
// failure.
func (c *call) judge(attempt Attempt, byDefault bool) (retry bool) {
	verdict := result{stage: c.r.stage}
	defer func() {
		if verdict.panicked {
			// The failure that was judged must not be lost by it.
			verdict.err = after(verdict.err, c.r.err)
			c.r, retry = verdict, false
			c.assess()
		}
	}()
	defer verdict.recoverPanic()
	config, matched := &c.policy.config, error(&classedError{attempt.Err, c.r.class})
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
	again := c.wantsMore(Attempt{Number: s.Attempt() + 1, Output: c.body.output()}, &verdict)
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

// planRetry chooses the delay before the next attempt. If that attempt could
// never begin, it gives the reason, or the suspension if it is the
// surroundings that end before.
func (c *call) planRetry(s *Scope) (Reason, *InterruptedError) {
	config, retry := &c.policy.config, s.Attempt()+1
	c.delay, c.source = c.backoff(retry), SourceBackoff
	if c.r.after > config.MaxRetryAfter {
		return ReasonRetryAfterTooLong, nil
	}
	if c.r.after > c.delay {
		c.delay, c.source = c.r.after, SourceServer
	}
	if config.RetryTimeout > 0 && c.elapsed() >= config.RetryTimeout-c.delay {
		if c.source == SourceServer {
			return ReasonRetryAfterTooLong, nil
		}
		return ReasonRetryTimeout, nil
	}
	deadline, ok := s.outer.Deadline()
	if !ok || c.delay < time.Until(deadline) {
		return ReasonNone, nil
	}
	if e := c.futile(deadline); e != nil {
		return ReasonNone, e
	}
	return ReasonDeadline, nil
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
	e := &InterruptedError{Reason: InterruptContext, Cause: errDeadlineAhead}
	if owner.call.parent != nil {
		e.Reason, e.origin = InterruptParent, owner
	}
	return e
}

// backoff is the delay before the retry that the configuration has.
func (c *call) backoff(retry int) time.Duration {
	if c.policy.config.InitialDelay == 0 {
		return 0
	}
	return c.policy.jittered(retry, c.delay, c.random(retry))
}

// random is in [0, 1), and in a run depends on its seed, the address and the
// retry alone.
func (c *call) random(retry int) float64 {
	if c.policy.config.Jitter == NoJitter {
		return 0
	}
	if c.root == nil {
		return randomUnit()
	}
	return unit(c.root.settings.Seed, c.address, retry)
}
