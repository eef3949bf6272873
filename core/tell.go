package core

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The records of a call. Each function tells the run one fact; those that end
// the call also make what is returned to the caller.

// record is what every record of the call has in common.
func (c *call) record(status Status, attempt int, at time.Time) Record {
	return Record{
		Time: at.UTC().Round(0), Address: c.address, Name: c.spec.Name,
		Kind: c.spec.Kind, Status: status,
		Attempt: attempt, MaxAttempts: c.policy.config.MaxAttempts,
	}
}

func (c *call) recordStarted(s *Scope, start time.Time) error {
	r := c.record(StatusStarted, s.attempt, start)
	if c.run.Settings().Payloads && s.attempt == 0 {
		detail, err := c.inputDetail()
		if err != nil {
			return c.fail(s, &result{err: err, stage: StageEntry}, ReasonPermanent, start, 0)
		}
		r.Detail = detail
	}
	return c.append(s, r)
}

// inputDetail is the encoded input with its hash.
func (c *call) inputDetail() (*Detail, error) {
	input, err := c.body.encodeInput()
	if err != nil {
		return nil, err
	}
	hash, err := hashOfEncoded(slices.Clone(input))
	return &Detail{Input: input, InputHash: hash}, err
}

// append hands r to the run. A call whose records cannot be kept has failed,
// whatever became of its handler.
func (c *call) append(s *Scope, r Record) error {
	err := c.run.Append(s, r)
	if err == nil || errors.Is(err, ErrAttemptOver) {
		return err
	}
	return &CallError{
		Address: c.address, Name: c.spec.Name, Stage: StageRecord, Attempts: s.attempt + 1,
		Reason: ReasonStorage, Err: fmt.Errorf("%v record: %w", r.Status, err),
	}
}

// recordRetry tells that the attempt failed and when the next begins: one
// fact in two records.
func (c *call) recordRetry(s *Scope, r *result, p plan, start, end time.Time) error {
	rec := c.record(StatusFailed, s.attempt, end)
	rec.Stage, rec.Class, rec.Err = r.stage, classOf(r), r.err
	rec.WillRetry, rec.Delay, rec.Waiting = true, p.delay, p.source
	rec.Duration, rec.Elapsed = end.Sub(start), end.Sub(c.began)
	rec.Detail = s.spent()
	return c.append(s, rec)
}

// complete ends the call with its output.
func (c *call) complete(s *Scope, r *result, start, end time.Time) error {
	if c.run == nil {
		return nil
	}
	rec := c.record(StatusCompleted, s.attempt, end)
	rec.Duration, rec.Elapsed = end.Sub(start), end.Sub(c.began)
	rec.Detail = s.spent()
	if r.output != nil || r.artifact != "" {
		if rec.Detail == nil {
			rec.Detail = new(Detail)
		}
		rec.Detail.Output, rec.Detail.Artifact = r.output, r.artifact
	}
	return c.append(s, rec)
}

// spent is the detail of a record that ends an attempt, nil if it used
// nothing.
func (s *Scope) spent() *Detail {
	u := s.usage()
	if u.IsZero() {
		return nil
	}
	return &Detail{Usage: u}
}

// fail ends the call for good.
func (c *call) fail(s *Scope, r *result, reason Reason, end time.Time, took time.Duration) error {
	e := &CallError{Address: c.address, Name: c.spec.Name, Stage: r.stage, Reason: reason, Err: r.err}
	rec := c.record(StatusFailed, s.attempt, end)
	rec.Stage, rec.Class, rec.Reason, rec.Err = r.stage, classOf(r), reason, r.err
	rec.Duration, rec.Elapsed = took, end.Sub(c.began)
	e.Attempts = rec.TotalAttempts()
	if c.run == nil {
		return e
	}
	rec.Detail = s.spent()
	if err := c.append(s, rec); err != nil {
		return errors.Join(e, err)
	}
	return e
}

// suspend stops the call without an outcome.
func (c *call) suspend(s *Scope, e *InterruptedError, stage Stage, took time.Duration) error {
	c.mark(e)
	if c.run == nil {
		return e
	}
	now, attempt := time.Now(), s.attempt
	if stage == StageWait {
		attempt++ // it is the next one that was promised, and is owed
	}
	rec := c.record(StatusInterrupted, attempt, now)
	rec.Stage, rec.Class, rec.Err = stage, ClassCanceled, e
	rec.Duration, rec.Elapsed = took, now.Sub(c.began)
	rec.Detail = &Detail{Interrupt: e, Usage: s.usage()}
	if err := c.append(s, rec); err != nil {
		return errors.Join(e, err)
	}
	return e
}
