package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/record"
)

// A failure is a failed attempt with everything that determines whether it is retried.
type failure struct {
	attemptEnd
	class  record.Class
	marked bool          // marked with Retryable
	after  time.Duration // delay requested by the service; 0 for none
	delay  time.Duration // delay planned before the next attempt
	source record.Source // source of the planned delay

	noRetry error // why an interceptor does not allow another attempt
}

// A verdict determines what follows a failed attempt: the call fails with a reason, is suspended,
// or makes another attempt. The call can still be suspended before an announced attempt, if
// something around the call ends.
type verdict struct {
	reason    record.Reason
	suspended *InterruptedError
	promised  bool
	delay     time.Duration
	source    record.Source
}

// classify returns the failure of an attempt, including its class and marks.
func (c *Call) classify(r *attemptEnd) failure {
	c.find(r)
	f := failure{attemptEnd: *r}
	f.marked, f.after, f.class = r.traits.Retryable, r.traits.RetryAfter, r.traits.Class
	switch {
	case r.Panicked:
		f.class = record.ClassPanic
	case r.Stage == record.StageDefinition || r.Stage == record.StagePrecondition || r.Stage == record.StageEncode:
		f.class = record.ClassInvalid
	case f.class == record.ClassPermanent:
	case r.Stage == record.StagePostcondition:
		f.class = record.ClassCondition
	case r.Stage == record.StageArtifact:
		f.class = record.ClassArtifact
	}
	return f
}

// decide determines what follows a failed attempt.
func (c *Call) decide(p *record.Progress, s *Scope, f *failure) verdict {
	policy := c.policy
	switch {
	case f.Panicked:
		return verdict{reason: record.ReasonPanic}
	case s.expired() && s.limit.total:
		f.addLastError(p)
		return verdict{reason: record.ReasonRetryTimeout}
	}
	if s.group != nil && s.group.timedOut() {
		return verdict{reason: record.ReasonGroupTimeout}
	}
	if reason := ownEnd(s.outer); reason != record.ReasonNone && !s.endedItself() {
		// The context has ended. Check whether something around the call has ended too,
		// possibly just now.
		if e := c.parent.endCause(); e != nil {
			return verdict{suspended: e}
		}
		f.addLastError(p)
		return verdict{reason: reason}
	}
	if s.hasMissedDeadline() && !s.endedItself() {
		return verdict{reason: record.ReasonDeadline} // the deadline is near
	}
	switch {
	case f.refused && safeIs(f.Err, ErrBudget):
		return verdict{reason: record.ReasonBudget}
	case f.refused && safeIs(f.Err, errNoTimeLeft):
		f.addLastError(p)
		return verdict{reason: record.ReasonRetryTimeout}
	}
	if !c.isRetried(s, f) {
		if f.Panicked { // StopWhen, RetryWhen or a Matcher panicked
			return verdict{reason: record.ReasonPanic}
		}
		if f.traits.InDoubt { // a call inside this one is in doubt, so this call is in doubt, too
			return verdict{reason: reasonAt(f.Stage, record.ReasonInDoubt)}
		}
		return verdict{reason: reasonAt(f.Stage, record.ReasonPermanent)}
	}
	if c.root.settings.Strict || policy.MaxAttempts != Unlimited && s.Attempt()+1-int(p.First) >= policy.MaxAttempts {
		if policy.MaxAttempts == 1 {
			return verdict{reason: reasonAt(f.Stage, record.ReasonExhausted)}
		}
		return verdict{reason: record.ReasonExhausted}
	}
	return c.planRetry(p, s, f)
}

// reasonAt returns the reason for a failure that is not retried: the reason implied by the stage if
// that is more specific than the error, and otherwise the given reason.
func reasonAt(stage record.Stage, otherwise record.Reason) record.Reason {
	switch stage {
	case record.StagePostcondition:
		return record.ReasonCondition
	case record.StageArtifact:
		return record.ReasonStorage
	}
	return otherwise
}

// addLastError adds the error of the previous attempt to a failure that only says that
// time ran out, so that the last error of the handler is never lost.
func (f *failure) addLastError(p *record.Progress) {
	if p.Err != nil && (safeIs(f.Err, context.DeadlineExceeded) || safeIs(f.Err, context.Canceled)) {
		f.replace(&classedError{newAfterError(f.Err, p.Err), f.class})
	}
}

// isRetried reports whether the failure is retried. It considers, in this order: classes that are
// never retried, Exclude, StopWhen, RetryOn and RetryWhen, the mark Retryable, an inner call in
// doubt, the class.
func (c *Call) isRetried(s *Scope, f *failure) bool {
	switch f.class {
	case record.ClassPermanent, record.ClassPanic, record.ClassInvalid:
		return false
	}
	if f.Err == errUnsatisfied { //nolint:errorlint // from this call, not from a call inside it
		return true
	}
	byDefault := f.marked || f.reportedInDoubt || f.class.IsTransient() && !f.isDoubtInside()
	if !c.policy.Judges {
		return byDefault
	}
	again, panicked := c.judge(c.attemptOf(s, f.Err), f.class, byDefault)
	if panicked != nil {
		c.setPanic(f, Result{Err: panicked})
	}
	return again
}

// isDoubtInside reports whether an inner call failed because it was in doubt. Another attempt would
// repeat that call, even though the call's own policy forbids it.
func (f *failure) isDoubtInside() (found bool) {
	if !f.traits.InDoubt {
		return false
	}
	defer func() { _ = recover() }() // a method of the user's errors may panic
	errtree.Walk(f.Err, func(err error) {
		inside, _ := err.(*CallError)                        //nolint:errorlint // each level by itself
		if kept, is := err.(interface{ As(any) bool }); is { // such as a recorded error
			kept.As(&inside)
		}
		found = found || inside != nil && inside.Reason == record.ReasonInDoubt
	})
	return found
}

// setPanic replaces the failure with the panic of a function that was judging it. The new failure
// includes the old one.
func (c *Call) setPanic(f *failure, r Result) {
	failed := f.attemptEnd
	failed.Result, failed.findings = Result{Err: newAfterError(r.Err, f.Err), Stage: f.Stage, Panicked: true}, findings{}
	*f = c.classify(&failed)
}

// attemptOf returns the attempt in the form that is passed to the user's functions.
func (c *Call) attemptOf(s *Scope, err error) Attempt {
	return Attempt{Number: s.Attempt() + 1, Err: err, Output: c.typed.Output(), RunID: c.root.settings.RunID, Address: c.address}
}

// judge calls the user's functions that judge a failure. If one of them panics, judge returns the
// panic.
func (c *Call) judge(attempt Attempt, class record.Class, byDefault bool) (again bool, panicked error) {
	r := Result{}
	defer func() { panicked = r.Err }()
	defer r.RecoverPanic()
	return c.policy.Retries.Judge(attempt, &classedError{attempt.Err, class}, byDefault), nil
}

// poll asks RetryWhen whether to make another attempt after a success. If RetryWhen says so, the
// success becomes a failure.
func (c *Call) poll(s *Scope, r *Result) {
	defer r.RecoverPanic()
	if c.policy.Retries.Poll(c.attemptOf(s, nil)) {
		r.Err = errUnsatisfied
	}
}

// planRetry chooses the delay before the next attempt. If that attempt could never begin, planRetry
// returns the reason for the failure, or, if something around the call would end first, the
// suspension.
func (c *Call) planRetry(p *record.Progress, s *Scope, f *failure) verdict {
	policy, retry := c.policy, s.Attempt()+1
	v := verdict{promised: true, delay: c.backoff(retry, p.Delay), source: record.SourceBackoff}
	after, source := f.after, record.SourceServer
	if f.class == record.ClassBreaker {
		source = record.SourceBreaker
	} else if after > policy.MaxRetryAfter {
		if !policy.CapRetryAfter {
			return verdict{reason: record.ReasonRetryAfterTooLong}
		}
		after = policy.MaxRetryAfter
	}
	if after > v.delay {
		v.delay, v.source = after, source
	}
	f.delay, f.source = v.delay, v.source
	if policy.RetryTimeout > 0 && p.Spent+f.took >= policy.RetryTimeout-v.delay {
		return verdict{reason: record.ReasonRetryTimeout}
	}
	deadline, ok := s.outer.Deadline()
	if !ok || v.delay < time.Until(deadline) {
		switch r := c.askMayRetry(s, f); {
		case r.Panicked:
			c.setPanic(f, r)
			return verdict{reason: record.ReasonPanic}
		case r.Err != nil:
			f.noRetry = r.Err
			return verdict{reason: record.ReasonBudget}
		}
		return v
	}
	if v.suspended = c.checkDeadline(deadline); v.suspended == nil {
		return verdict{reason: record.ReasonDeadline}
	}
	return v
}

// checkDeadline returns the suspension of a call whose next attempt could not begin before the
// deadline of its context. It returns nil if the deadline belongs to the call itself rather than to
// a scope around it.
func (c *Call) checkDeadline(deadline time.Time) *InterruptedError {
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

// backoff returns the delay before the retry according to the configuration. previous is
// the delay before the previous retry.
func (c *Call) backoff(retry int, previous time.Duration) time.Duration {
	var u float64
	switch {
	case !c.policy.Jittered:
	case c.root.isOutside():
		u = rand.Float64()
	default:
		u = randomUnit(c.root.settings.Seed, c.address, retry)
	}
	return c.policy.Retries.Delay(retry, previous, u)
}

// randomUnit returns a pseudorandom number in [0, 1) that depends only on the seed, the address
// and n. Concurrent calls therefore have the same delays in every run with the same seed,
// regardless of their order.
func randomUnit(seed uint64, a record.Address, n int) float64 {
	var stack [128]byte
	h := uint64(n)
	for _, c := range a.AppendTo(stack[:0]) {
		h = (h ^ uint64(c)) * 1099511628211 // FNV-1a
	}
	return float64(rand.NewPCG(seed, h).Uint64()>>11) / (1 << 53)
}
