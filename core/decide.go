package core

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/reprise-go/reprise/record"
)

// failure is a failed attempt and everything that decides whether it is
// retried.
type failure struct {
	attempted
	class  record.Class
	marked bool          // with Retryable
	after  time.Duration // the delay that the service asked for; 0 for none
	delay  time.Duration // planned before the next attempt
	source record.Source // of the planned delay

	noRetry error // why an interceptor allows no other attempt
}

// verdict is what follows a failed attempt: the call fails for a reason, is
// suspended, or makes another attempt. A promised attempt can be suspended too,
// if something around the call ends before that attempt.
type verdict struct {
	reason    record.Reason
	suspended *InterruptedError
	promised  bool
	delay     time.Duration
	source    record.Source
}

// classify returns the failure of an attempt with its class and marks.
func classify(r attempted) failure {
	f := failure{attempted: r}
	traits := record.Inspect(r.err)
	f.marked, f.after, f.class = traits.Retryable, traits.RetryAfter, traits.Class
	switch {
	case r.panicked:
		f.class = record.ClassPanic
	case r.stage == record.StageDefinition || r.stage == record.StagePrecondition || r.stage == record.StageEncode:
		f.class = record.ClassInvalid
	case f.class == record.ClassPermanent:
	case r.stage == record.StagePostcondition:
		f.class = record.ClassCondition
	case r.stage == record.StageArtifact:
		f.class = record.ClassArtifact
	}
	return f
}

// decide returns what follows a failed attempt.
func (c *call) decide(p *record.Progress, s *Scope, f *failure) verdict {
	config := &c.policy.config
	switch {
	case f.panicked:
		return verdict{reason: record.ReasonPanic}
	case s.expired() && s.limit.total:
		f.addLastError(p)
		return verdict{reason: record.ReasonRetryTimeout}
	}
	if s.group != nil && s.group.timedOut() {
		return verdict{reason: record.ReasonGroupTimeout}
	}
	if reason := ownEnd(s.outer); reason != record.ReasonNone && !s.endedItself() {
		// The context has ended. Did something around the call end, too, if only just now?
		if e := c.parent.ending(); e != nil {
			return verdict{suspended: e}
		}
		f.addLastError(p)
		return verdict{reason: reason}
	}
	if s.isDoomed() && !s.endedItself() {
		return verdict{reason: record.ReasonDeadline} // which is near
	}
	switch {
	case f.refused && is(f.err, ErrBudget):
		return verdict{reason: record.ReasonBudget}
	case f.refused && is(f.err, errNoTimeLeft):
		f.addLastError(p)
		return verdict{reason: record.ReasonRetryTimeout}
	}
	if !c.retryable(s, f) {
		if f.panicked { // by StopWhen, RetryWhen or a Matcher
			return verdict{reason: record.ReasonPanic}
		}
		if is(f.err, ErrInDoubt) { // of a call inside: this one is in doubt, too
			return verdict{reason: reasonAt(f.stage, record.ReasonInDoubt)}
		}
		return verdict{reason: reasonAt(f.stage, record.ReasonPermanent)}
	}
	if c.root.settings.Strict || config.MaxAttempts != Unlimited && s.Attempt()+1 >= config.MaxAttempts {
		if config.MaxAttempts == 1 {
			return verdict{reason: reasonAt(f.stage, record.ReasonExhausted)}
		}
		return verdict{reason: record.ReasonExhausted}
	}
	return c.planRetry(p, s, f)
}

// reasonAt returns the reason of a failure that is not retried: that of the
// stage where the stage is more precise than the error, and otherwise the
// reason given.
func reasonAt(stage record.Stage, otherwise record.Reason) record.Reason {
	switch stage {
	case record.StagePostcondition:
		return record.ReasonCondition
	case record.StageArtifact:
		return record.ReasonStorage
	}
	return otherwise
}

// addLastError adds the error of the previous attempt to a failure that only
// says that the time was over, so that the last error of the handler is always
// kept.
func (f *failure) addLastError(p *record.Progress) {
	if p.Err != nil && (is(f.err, context.DeadlineExceeded) || is(f.err, context.Canceled)) {
		f.err = &classedError{after(f.err, p.Err), f.class}
	}
}

// retryable reports whether the failure is retried. It decides in this order:
// classes that are never retried, Exclude, StopWhen, RetryOn and RetryWhen, the
// mark Retryable, the class.
func (c *call) retryable(s *Scope, f *failure) bool {
	switch f.class {
	case record.ClassPermanent, record.ClassPanic, record.ClassInvalid:
		return false
	}
	if f.err == errUnsatisfied { //nolint:errorlint // of this call, not of a call inside
		return true
	}
	byDefault := f.marked || f.class.IsTransient()
	config := &c.policy.config
	if config.Exclude == nil && config.StopWhen == nil && config.RetryOn == nil && config.RetryWhen == nil {
		return byDefault
	}
	again, panicked := c.judge(c.attemptOf(s, f.err), f.class, byDefault)
	if panicked != nil {
		f.panic(result{err: panicked})
	}
	return again
}

// panic makes the failure that of a function which judged it. The failure that
// was judged stays in it.
func (f *failure) panic(r result) {
	failed := f.attempted
	failed.result = result{err: after(r.err, f.err), stage: f.stage, panicked: true}
	*f = classify(failed)
}

// attemptOf returns the attempt as functions of the user see it.
func (c *call) attemptOf(s *Scope, err error) Attempt {
	return Attempt{Number: s.Attempt() + 1, Err: err, Output: c.typed.output(), RunID: c.root.settings.RunID, Address: c.address}
}

// judge asks the functions of the user about a failure. It returns a panic of
// one of them.
func (c *call) judge(attempt Attempt, class record.Class, byDefault bool) (again bool, panicked error) {
	r := result{}
	defer func() { panicked = r.err }()
	defer r.recoverPanic()
	config, matched := &c.policy.config, error(&classedError{attempt.Err, class})
	switch {
	case matchesAny(config.Exclude, matched):
		return false, nil
	case config.StopWhen != nil && config.StopWhen(attempt):
		return false, nil
	case config.RetryOn != nil && !matchesAny(config.RetryOn, matched):
		return false, nil
	case config.RetryWhen != nil:
		return config.RetryWhen(attempt), nil
	}
	return config.RetryOn != nil || byDefault, nil
}

// polled asks RetryWhen whether another attempt follows a success. If so, the
// result becomes a failure.
func (c *call) polled(s *Scope, r *result) {
	defer r.recoverPanic()
	config, attempt := &c.policy.config, c.attemptOf(s, nil)
	if (config.StopWhen == nil || !config.StopWhen(attempt)) && config.RetryWhen(attempt) {
		r.err = errUnsatisfied
	}
}

// planRetry chooses the delay before the next attempt. If that attempt could
// never begin, planRetry returns the reason of the failure, or the suspension
// if something around the call ends first.
func (c *call) planRetry(p *record.Progress, s *Scope, f *failure) verdict {
	config, retry := &c.policy.config, s.Attempt()+1
	v := verdict{promised: true, delay: c.backoff(retry, p.Delay), source: record.SourceBackoff}
	after, source := f.after, record.SourceServer
	if f.class == record.ClassBreaker {
		source = record.SourceBreaker
	} else if after > config.MaxRetryAfter {
		if !config.CapRetryAfter {
			return verdict{reason: record.ReasonRetryAfterTooLong}
		}
		after = config.MaxRetryAfter
	}
	if after > v.delay {
		v.delay, v.source = after, source
	}
	f.delay, f.source = v.delay, v.source
	if config.RetryTimeout > 0 && p.Spent+f.took >= config.RetryTimeout-v.delay {
		return verdict{reason: record.ReasonRetryTimeout}
	}
	deadline, ok := s.outer.Deadline()
	if !ok || v.delay < time.Until(deadline) {
		switch r := c.mayRetry(s, f); {
		case r.panicked:
			f.panic(r)
			return verdict{reason: record.ReasonPanic}
		case r.err != nil:
			f.noRetry = r.err
			return verdict{reason: record.ReasonBudget}
		}
		return v
	}
	if v.suspended = c.futile(deadline); v.suspended == nil {
		return verdict{reason: record.ReasonDeadline}
	}
	return v
}

// futile returns the suspension of a call whose next attempt could not begin
// before the deadline of its context. It returns nil if the deadline is the
// call's own and not one of a scope around it.
func (c *call) futile(deadline time.Time) *InterruptedError {
	var owner *Scope // the outermost scope with this deadline
	for s := c.parent; s != nil; s = s.Parent() {
		if s.call == nil && s.root.isOutside() {
			break
		}
		if d, ok := s.context().Deadline(); !ok || !d.Equal(deadline) {
			break
		}
		owner = s
	}
	if owner == nil {
		return nil
	}
	e := &InterruptedError{Reason: record.InterruptContext, Cause: errDeadlineAhead}
	if owner.call != nil {
		e.Reason, e.Origin = record.InterruptParent, owner
	}
	return e
}

// backoff returns the delay before the retry, by the configuration. Previous is
// the delay before the previous retry.
func (c *call) backoff(retry int, previous time.Duration) time.Duration {
	if !c.policy.isJittered() {
		return c.policy.delay(retry)
	}
	if c.root.isOutside() {
		return c.policy.jittered(retry, previous, rand.Float64())
	}
	return c.policy.jittered(retry, previous, unit(c.root.settings.Seed, c.address, retry))
}
