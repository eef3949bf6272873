package core

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The records of a call. Each function tells the run one fact; those that end
// the call also make what is returned to the caller.

// begin makes a record with what every record of the call has, of what happened
// after so much of the attempt. It is to be given to append.
func (c *call) begin(status Status, attempt int, after time.Duration) *Record {
	rec := c.blank()
	rec.Time, rec.Address, rec.Name = time.Unix(0, c.clocked+int64(after)).UTC(), c.address, c.spec.Name
	rec.Kind, rec.Status = c.spec.Kind, status
	rec.Attempt, rec.MaxAttempts = attempt, c.policy.config.MaxAttempts
	return rec
}

// blank is an empty record. One that was told is used again: it is too large for
// the stack of a call that may wait, and many calls may.
func (c *call) blank() *Record {
	if c.told == nil && c.root != nil {
		c.told, _ = c.root.settings.told.Get().(*Record)
	}
	if c.told == nil {
		c.told = new(Record)
	} else {
		*c.told = Record{}
	}
	return c.told
}

// release hands the record that was told to other calls: this one waits, or has
// ended.
func (c *call) release() {
	if c.told != nil && c.root != nil {
		c.root.settings.told.Put(c.told)
		c.told = nil
	}
}

// end makes a record of how the attempt of s ended.
func (c *call) end(status Status, s *Scope) *Record {
	rec := c.begin(status, int(s.attempt), c.took)
	rec.Duration, rec.Elapsed = c.took, c.elapsed()
	if s.used.Load() != nil { // mostly it is, and swapping takes longer
		rec.Detail = &Detail{Usage: *s.used.Swap(nil)} // told once
	}
	return rec
}

func (c *call) recordStarted(s *Scope) error {
	s.entry, c.entered = !c.entered, true
	rec := c.begin(StatusStarted, int(s.attempt), 0)
	if settings := c.root.settings; s.attempt == 0 && (settings.Payloads || settings.Outputs) {
		var err error
		if rec.Detail, err = c.inputDetail(settings); err != nil {
			c.r = result{err: err, stage: StageEntry}
			return c.failBefore(s, ReasonPermanent)
		}
	}
	return c.append(s, rec)
}

// inputDetail is the hash of the input, and the input itself where it is kept.
func (c *call) inputDetail(settings *Settings) (*Detail, error) {
	input, err := c.body.encodeInput()
	if err != nil {
		return nil, err
	}
	d := new(Detail)
	if settings.Payloads || c.parent.call.isRoot() {
		d.Input = slices.Clone(input) // hashing may reorder it
	}
	d.InputHash, err = hashOfEncoded(input)
	return d, err
}

// append hands rec to the run. A call whose records cannot be kept has failed,
// whatever became of its handler.
func (c *call) append(s *Scope, rec *Record, more ...Record) error {
	status := rec.Status
	err := c.root.run.Append(s, *rec, more...)
	if err == nil || errors.Is(err, ErrAttemptOver) {
		return err
	}
	return c.notRecorded(s, status, err)
}

func (c *call) notRecorded(s *Scope, status Status, err error) error {
	return &CallError{
		Address: c.address, Name: c.spec.Name, Stage: StageRecord, Attempts: int(s.attempt) + 1,
		Reason: ReasonStorage, Err: fmt.Errorf("%v record: %w", status, err),
	}
}

// recordRetry appends that the attempt failed, and when the next one begins.
func (c *call) recordRetry(s *Scope) error {
	rec := c.end(StatusFailed, s)
	rec.Stage, rec.Class, rec.Err = c.r.stage, c.r.class, c.r.err
	rec.WillRetry, rec.Delay, rec.DelaySource = true, c.delay, c.source
	return c.append(s, rec, rec.retrying())
}

// complete ends the call with its output.
func (c *call) complete(s *Scope) error {
	if c.root == nil {
		return nil
	}
	return c.completeWith(s, "")
}

// completeWith is complete in a run, with a message in the record.
func (c *call) completeWith(s *Scope, message string) error {
	rec := c.end(StatusCompleted, s)
	if kept := c.r.kept; kept != nil || message != "" || c.spec.NoStore {
		if rec.Detail == nil {
			rec.Detail = new(Detail)
		}
		rec.Detail.Message, rec.Detail.NoStore = message, c.spec.NoStore
		if kept != nil {
			rec.Detail.Output, rec.Detail.Artifact = kept.encoded, kept.artifact
		}
	}
	return c.append(s, rec)
}

// fail ends the call for good.
func (c *call) fail(s *Scope, reason Reason) error {
	rec := c.end(StatusFailed, s)
	rec.Stage, rec.Class, rec.Reason, rec.Err = c.r.stage, c.r.class, reason, c.r.err
	e := &CallError{
		Address: c.address, Name: c.spec.Name, Stage: rec.Stage,
		Attempts: rec.TotalAttempts(), Reason: reason, Detail: c.explain(s, reason), Err: rec.Err,
	}
	if c.root == nil {
		return e
	}
	if c.root.settings.RoundTrip {
		e.Err = Recorded(e.Err)
	}
	if e.Detail != "" {
		if rec.Detail == nil {
			rec.Detail = new(Detail)
		}
		rec.Detail.Message = e.Detail
	}
	if err := c.append(s, rec); err != nil {
		return errors.Join(e, err)
	}
	return e
}

// explain says which limit a call ran into, where the reason is one.
func (c *call) explain(s *Scope, reason Reason) string {
	config := &c.policy.config
	switch {
	case reason == ReasonRetryAfterTooLong && c.r.after > config.MaxRetryAfter:
		return fmt.Sprintf("the service asked for %v, MaxRetryAfter is %v", c.r.after, config.MaxRetryAfter)
	case reason == ReasonRetryAfterTooLong:
		return fmt.Sprintf("the service asked for %v, %v of RetryTimeout are left", c.r.after, config.RetryTimeout-c.elapsed())
	case reason == ReasonRetryTimeout && s.expired():
		return fmt.Sprintf("RetryTimeout of %v is over", config.RetryTimeout)
	case reason == ReasonRetryTimeout:
		return fmt.Sprintf("the next delay of %v does not fit into RetryTimeout of %v, %v of it used", c.delay, config.RetryTimeout, c.elapsed())
	case reason == ReasonDeadline:
		return c.explainDeadline(s)
	}
	return ""
}

func (c *call) explainDeadline(s *Scope) string {
	deadline, ok := s.outer.Deadline()
	if left := time.Until(deadline); ok && left > 0 && !s.doomed.Load() {
		return fmt.Sprintf("the next delay of %v does not fit before that of the context given to this call, %v from now",
			c.delay, left.Round(time.Millisecond))
	}
	return "that of the context given to this call"
}

// failBefore ends a call for good while no attempt is under way.
func (c *call) failBefore(s *Scope, reason Reason) error {
	c.pause()
	c.assess()
	return c.fail(s, reason)
}

// suspend stops the call without an outcome.
func (c *call) suspend(s *Scope, e *InterruptedError, stage Stage) error {
	c.mark(e)
	if c.root == nil {
		return e
	}
	if stage != StageHandler {
		c.pause()
	}
	status := StatusInterrupted
	if e.Reason == InterruptAwait {
		status = StatusAwaiting
	}
	rec := c.end(status, s)
	rec.Stage, rec.Class, rec.Err = stage, ClassCanceled, e
	if stage == StageWait {
		rec.Attempt++ // it is the next one that was promised, and is owed
	}
	// Without its record the call has no outcome either, which is what a
	// suspension is.
	_ = c.append(s, rec)
	return e
}
