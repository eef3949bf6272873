package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// This file appends the records of a call. Each function appends one fact. Functions
// that end the call also return the result for the caller.

// describe sets the fields that all records of the call have. Records are filled in place rather
// than returned, because each copy takes stack space.
func (c *Call) describe(rec *record.Record, status record.Status, attempt int32, at time.Time) {
	rec.Time, rec.Address, rec.Name, rec.Ordinal = at.Round(0).UTC(), c.address, c.spec.Name, c.ordinal
	rec.Kind, rec.Status, rec.Attempt, rec.MaxAttempts = c.spec.Kind, status, int(attempt), c.policy.MaxAttempts
}

// describeEnd fills rec with how the attempt of s ended, including its usage. r is nil if no
// attempt was made.
func (c *Call) describeEnd(rec *record.Record, status record.Status, p *record.Progress, s *Scope, r *attemptEnd) {
	at, took := time.Time{}, time.Duration(0)
	if r != nil {
		at, took = r.ended, r.took
	}
	if at.IsZero() {
		at = time.Now()
	}
	c.describe(rec, status, s.attempt, at)
	rec.Duration, rec.Elapsed = took, p.Spent+took
	if in := s.state.Load(); in != nil {
		if used := in.used.Swap(nil); used != nil { // count it once
			rec.Detail = &record.Detail{Usage: *used}
			c.spend(*used)
		}
		c.passOnUsage(in)
		if attributes := in.takeAttributes(); attributes != nil {
			detailOf(rec).Metadata = attributes
		}
	}
}

// append appends a record of the call to its run and updates p. If the record cannot be
// stored, the call fails, regardless of the result of its handler.
func (c *Call) append(p *record.Progress, s *Scope, rec *record.Record) error {
	first := c.claimed
	if first {
		d := detailOf(rec)
		d.InputHash, d.Unrecorded = c.recall.input, c.unrecordedBelow()
	}
	if c.toolCall != "" {
		detailOf(rec).ToolCall = c.toolCall
	}
	if err := c.root.run.Append(s, *rec); err != nil {
		if errors.Is(err, ErrAttemptOver) {
			return err
		}
		return c.notRecorded(s, rec.Status, err)
	}
	if first {
		c.dropListedClaims()
	}
	p.Add(rec)
	if c.compensableInDoubt {
		c.followDoubt(p, rec)
	}
	return nil
}

// detailOf returns the detail of the record, and creates it if necessary.
func detailOf(r *record.Record) *record.Detail {
	if r.Detail == nil {
		r.Detail = new(record.Detail)
	}
	return r.Detail
}

func (c *Call) notRecorded(s *Scope, status record.Status, err error) error {
	return &CallError{
		Address: c.address, Name: c.spec.Name, Stage: record.StageRecord, Attempts: int(s.attempt) + 1,
		Reason: record.ReasonStorage, Err: fmt.Errorf("%v record: %w", status, err),
	}
}

func (c *Call) appendStarted(p *record.Progress, s *Scope, began time.Time) error {
	var rec record.Record
	c.describe(&rec, record.StatusStarted, s.attempt, began)
	rec.Elapsed = p.Spent
	if s.attempt > 0 && p.Err != nil {
		rec.Err, rec.Delay = p.Err, p.Delay // why the call is retried, and how long it waits
	}
	switch {
	case p.Again:
		rec.Reason = record.ReasonRetry
	case p.Phase == record.StateRunning:
		rec.Reason = record.ReasonLost
	case c.compensatesDoubt:
		rec.Reason = record.ReasonInDoubt
	}
	if c.isUndoneInDoubt() {
		detailOf(&rec).Compensable = true
	}
	if c.spec.Irreversible {
		c.describeEffect(&rec, c.replaces)
		c.replaces = nil
	}
	if c.overlaps && s.attempt == 0 {
		detailOf(&rec).Overlaps = true
	}
	if c.spec.Branches > 0 {
		detailOf(&rec).Branches = c.spec.Branches
	}
	settings := c.root.settings
	asks := c.spec.Kind == record.KindLLM && settings.Outputs
	if settings.Payloads || settings.Outputs {
		if s.attempt == 0 || asks && c.isFirstStart(p) {
			if err := c.describeInput(&rec, asks); err != nil {
				return c.refuse(p, s, Result{Err: err, Stage: record.StageEntry}, record.ReasonPermanent)
			}
		}
	}
	return c.append(p, s, &rec)
}

// isFirstStart reports whether this is the first attempt since the run was
// opened.
func (c *Call) isFirstStart(p *record.Progress) bool {
	return c.recall.found == nil && p.Starts == 0 || c.recall.found != nil && p.Starts == c.recall.found.Starts
}

// describeInput adds the input to a started record if inputs are kept, or if the input is small.
// asks is true if the call asks a model; describeInput then also adds the hash of the whole input.
func (c *Call) describeInput(rec *record.Record, asks bool) error {
	settings := c.root.settings
	kept := settings.Payloads || c.parent.call == nil || c.spec.InDoubt == InDoubtAsk || c.compensable
	size := 0
	if asks {
		hash, atLeast, err := c.typed.WholeInput()
		if err != nil {
			return err
		}
		detailOf(rec).WholeInput, size = hash, atLeast
	}
	if rec.Attempt != 0 || !kept && size > smallInput {
		return nil
	}
	input, err := c.typed.EncodeInput()
	if err != nil {
		return err
	}
	if kept || len(input) <= smallInput {
		detailOf(rec).Input = input
	}
	if c.spec.InDoubt == InDoubtAsk {
		c.inputInDoubt = input
	}
	return nil
}

// smallInput is the maximum size in bytes of an input that is always kept. If the run is resumed
// with a different input, the error can then show the difference.
const smallInput = 256

// complete ends the call with its output.
func (c *Call) complete(p *record.Progress, s *Scope, r *attemptEnd, message string) error {
	var rec record.Record
	c.describeEnd(&rec, record.StatusCompleted, p, s, r)
	if r.Kept != nil || message != "" || c.spec.NoStore {
		d := detailOf(&rec)
		d.Message, d.NoStore = message, c.spec.NoStore
		if r.Kept != nil {
			d.Output, d.Artifact = r.Kept.Encoded, r.Kept.Artifact
		}
	}
	if c.spec.NoStore {
		if c.root.settings.Outputs {
			detailOf(&rec).Fingerprint = c.typed.Fingerprint(p.Fingerprint)
		}
		c.hideOutput()
	}
	if r.cached {
		detailOf(&rec).Cached = true
	}
	if c.spec.Irreversible {
		c.describeEffect(&rec, r.effect)
	}
	if r.effect != nil {
		rec.Stage = record.StageEntry // no attempt was made
	}
	if c.compensable && !r.cached && r.effect == nil && !c.sharesParentEffect() { // otherwise the effect belongs to another call
		return c.appendCompensable(p, s, &rec)
	}
	return c.append(p, s, &rec)
}

// describeEffect adds to a record of an irreversible call what later calls must know about the
// call's effect. other is the effect that the call took over or replaces.
func (c *Call) describeEffect(rec *record.Record, other *record.Effect) {
	d := detailOf(rec)
	d.Irreversible, d.Effect = true, other
	if !c.root.isOutside() && (rec.Status == record.StatusStarted || other != nil) {
		d.InputHash, _ = c.inputIdentity() // without an identity, the call would not have begun
	}
}

// hideOutput makes the branches around the call drop their outputs.
func (c *Call) hideOutput() {
	for s := c.parent; s.call != nil && s.call.spec.Kind.IsParallel(); s = s.call.parent {
		s.ensureState().unstored.Store(true)
	}
}

// retry records that the attempt failed, and when the next attempt may begin.
func (c *Call) retry(p *record.Progress, s *Scope, f *failure, v verdict) error {
	var rec record.Record
	c.describeEnd(&rec, record.StatusFailed, p, s, &f.attemptEnd)
	rec.Stage, rec.Class, rec.Err = f.Stage, f.class, c.kept(&f.attemptEnd)
	rec.WillRetry, rec.Delay, rec.DelaySource = true, v.delay, v.source
	err := c.append(p, s, &rec)
	p.Spent += time.Since(f.ended) // publishing and storing also take time
	return err
}

// fail ends the call for good.
func (c *Call) fail(p *record.Progress, s *Scope, f *failure, reason record.Reason) error {
	var rec record.Record
	c.describeEnd(&rec, record.StatusFailed, p, s, &f.attemptEnd)
	rec.Stage, rec.Class, rec.Reason, rec.Err = f.Stage, f.class, reason, f.Err
	if limit := c.explain(p, s, f, reason); limit != "" {
		detailOf(&rec).Message = limit
	}
	if after := *p; c.isUndoneInDoubt() {
		if after.Add(&rec); after.InDoubt() {
			detailOf(&rec).Compensable = true
		}
	}
	e := RecordedFailure(&rec)
	rec.Err = c.kept(&f.attemptEnd)
	if named := c.callsNamed(f.Err, rec.Err); named != nil {
		detailOf(&rec).NamedCalls = named
	}
	if c.root.settings.RoundTrip {
		e.Err = record.ErrorOf(rec.Err)
	}
	if err := c.append(p, s, &rec); err != nil {
		return errors.Join(e, err)
	}
	return e
}

// kept returns the error of an attempt in the form in which it is recorded.
func (c *Call) kept(r *attemptEnd) error {
	c.find(r)
	return r.kept
}

// keptInterrupt converts e to the form in which it is recorded, so that the text of its cause can
// no longer change.
func (c *Call) keptInterrupt(e *InterruptedError) *InterruptedError {
	switch {
	case c.root.settings.Outputs:
		return e.Recorded()
	case c.root.isOutside():
		return e
	}
	return e.Frozen()
}

// refuse makes a call fail without making an attempt.
func (c *Call) refuse(p *record.Progress, s *Scope, r Result, reason record.Reason) error {
	return c.refuseAttempt(p, s, &attemptEnd{Result: r}, reason)
}

func (c *Call) refuseAttempt(p *record.Progress, s *Scope, r *attemptEnd, reason record.Reason) error {
	f := c.classify(r)
	return c.fail(p, s, &f, reason)
}

// explain describes the limit that the call reached, if the reason is a limit, or how to have an
// error of unknown class retried. For other reasons it returns "".
func (c *Call) explain(p *record.Progress, s *Scope, f *failure, reason record.Reason) string {
	switch {
	case reason == record.ReasonRetryAfterTooLong:
		return fmt.Sprintf("the service asked for %v, but MaxRetryAfter is %v", f.after, c.policy.MaxRetryAfter)
	case reason == record.ReasonRetryTimeout:
		return c.explainRetryTimeout(p, s, f)
	case reason == record.ReasonBudget:
		if f.noRetry != nil {
			return fmt.Sprint(f.noRetry)
		}
	case reason == record.ReasonDeadline:
		return c.explainDeadline(s, f.delay)
	case reason == record.ReasonPermanent && f.class == record.ClassUnknown && c.policy.ByClass:
		return "not retried, since its class is unknown: mark the error with core.Retryable, or select it with RetryOn"
	}
	return ""
}

func (c *Call) explainRetryTimeout(p *record.Progress, s *Scope, f *failure) string {
	limit := c.policy.RetryTimeout
	elapsed := p.Spent + f.took
	switch {
	case f.refused && f.source == 0: // an interceptor's wait would have been too long
		return fmt.Sprintf("RetryTimeout is %v", limit)
	case s.expired() && s.limit.total || elapsed >= limit: // the attempt, or the wait before it, used up the rest
		return fmt.Sprintf("RetryTimeout of %v is over", limit)
	case f.source != record.SourceServer:
		return fmt.Sprintf("the next delay of %v does not fit into RetryTimeout of %v, %v of it used", f.delay, limit, elapsed)
	case f.after > f.delay:
		return fmt.Sprintf("the service asked for %v, which MaxRetryAfter cuts to %v, and %v of RetryTimeout are left", f.after, f.delay, limit-elapsed)
	}
	return fmt.Sprintf("the service asked for %v, and %v of RetryTimeout are left", f.after, limit-elapsed)
}

func (c *Call) explainDeadline(s *Scope, delay time.Duration) string {
	deadline, ok := s.outer.Deadline()
	if left := time.Until(deadline); ok && left > 0 && !s.hasMissedDeadline() {
		return fmt.Sprintf("the next delay of %v would end after the deadline of the context given to this call, %v from now",
			delay, left.Round(time.Millisecond))
	}
	return "set by the context given to this call"
}

// suspend stops the call without an outcome. r is nil if no attempt was made.
func (c *Call) suspend(p *record.Progress, s *Scope, r *attemptEnd, e *InterruptedError, stage record.Stage) error {
	c.parent.stop(e)
	status := record.StatusInterrupted
	if e.Reason == record.InterruptAwait {
		status = record.StatusAwaiting
	}
	var rec record.Record
	c.describeEnd(&rec, status, p, s, r)
	rec.Stage, rec.Class, rec.Err = stage, record.ClassCanceled, c.keptInterrupt(e)
	if r != nil && r.parked > 0 && e.Awaits == record.AwaitTime { // an interceptor parked the call: no part of the attempt was made
		rec.Stage, rec.Delay, rec.Elapsed = record.StageWait, r.parked, addDuration(rec.Elapsed, r.parked)
	}
	// If this record is lost, the call still has no outcome, which is what a suspension
	// means.
	_ = c.append(p, s, &rec)
	return e
}
