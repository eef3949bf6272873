package core

import (
	"errors"
	"fmt"
	"time"
)

// A Recalled is what restored history says of a call that is made again.
type Recalled struct {
	// Outcome is the record that ended the call, with its output loaded; nil
	// if it has none, and goes on.
	Outcome *Record

	// Attempt is the number of the attempt to go on with, and Started says
	// that this very attempt was begun: an agent enters it again, for
	// everything else it is in doubt. Without any attempt begun the
	// preconditions are still to come.
	Attempt int
	Started bool
	Begun   bool // some attempt was
	Entered bool // the handler of this attempt was, and was interrupted
	Starts  int  // of attempts of the call, of which there were so many

	// InDoubt fails the call instead: why it may not go on. Refused stops the
	// run: what was recorded cannot be had. NotRecorded is for a strict replay:
	// the call may not run. Last allows no attempt after this one.
	InDoubt, Refused  error
	NotRecorded, Last bool

	// NotStored says that the call had completed, and its output was not kept.
	NotStored bool

	// Diverged says that the call was recorded with another input, and must
	// not be answered for that.
	Diverged bool

	// Over is why the call is not to begin or go on: the end of the group that
	// it is in, on record.
	Over *InterruptedError

	Wait    time.Duration // the rest of the wait before the attempt
	Delay   time.Duration // the whole of it
	Spent   time.Duration // on attempts and waits so far
	LastErr error         // of the attempt before
}

// ErrNotRecorded is found in the error of a call that a strict replay would
// have had to execute.
var ErrNotRecorded = errors.New("core: the call has no recorded outcome, and a strict replay executes nothing")

// ErrNotStored is found in the error of a call that completed, and whose actor
// is marked NoStore: a strict replay does not execute it, and so cannot prove
// what it returned.
var ErrNotStored = errors.New("core: the call completed, but its output was not stored (NoStore); a strict replay executes nothing and cannot prove it")

// A DecodeError is a recorded output that does not fit the type it has now.
type DecodeError struct {
	Address Address
	Err     error // names the field where it is known
}

// Error names the address.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s: the recorded output does not fit the type of today: %v", e.Address, e.Err)
}

// Unwrap returns what the decoder said.
func (e *DecodeError) Unwrap() error { return e.Err }

// recall answers the call from restored history, where that has an outcome,
// and otherwise sets it up to go on where it stopped. It returns the scope of
// the attempt to make; nil, with the error, if the call has ended.
func (c *call) recall(s *Scope, rec *Recalled) (*Scope, error) {
	switch {
	case rec.NotRecorded && rec.NotStored:
		return nil, Permanent(fmt.Errorf("%s: %w", c.address, ErrNotStored))
	case rec.NotRecorded:
		return nil, Permanent(fmt.Errorf("%s: %w", c.address, ErrNotRecorded))
	case rec.Refused != nil:
		return nil, c.halt(rec.Refused)
	case rec.Diverged:
		return nil, c.halt(&CallError{Address: c.address, Name: c.spec.Name, Stage: StageEntry, Reason: ReasonDivergence, Err: errOtherInput})
	case rec.Outcome != nil:
		return nil, c.replay(rec.Outcome)
	case rec.Over != nil:
		return nil, c.suspend(s, rec.Over, StageEntry)
	}
	c.last = rec.Last
	s.attempt = int32(rec.Attempt)
	c.spent, c.delay, c.lastErr = rec.Spent, rec.Delay, rec.LastErr
	if done, err := c.checkpoint(s); done {
		return nil, err
	}
	if rec.InDoubt != nil {
		c.r = result{err: rec.InDoubt, stage: StageEntry}
		return nil, c.failBefore(s, ReasonInDoubt)
	}
	if rec.Started || rec.Entered {
		var err error
		if s, err = c.settleInDoubt(s, rec); s == nil {
			return nil, err
		}
	}
	if rec.Wait > 0 {
		if done, err := c.wait(&Scope{outer: s.outer, call: c, attempt: s.attempt - 1}, rec.Wait); done {
			return nil, err
		}
		c.spent += rec.Wait
	}
	c.start()
	return s, nil
}

var errOtherInput = errors.New("the call has another input than the one recorded at this address")

// recalled asks the run what it has of the call; nil for a call that is new.
func (c *call) recalled(s *Scope) *Recalled {
	hash, err := c.inputHash()
	if err != nil {
		return nil // the attempt will say so
	}
	rec := c.root.run.Recall(s, c.spec.Kind, hash)
	if rec != nil && rec.isNew() {
		return nil
	}
	return rec
}

// inputHash is that of the canonically encoded input.
func (c *call) inputHash() (Hash, error) {
	input, err := c.body.encodeInput()
	if err != nil {
		return Hash{}, err
	}
	return hashOfEncoded(input)
}

// isNew reports whether the preconditions of the call are still to come.
func (r *Recalled) isNew() bool {
	return r.Outcome == nil && r.InDoubt == nil && r.Refused == nil && r.Over == nil && !r.Diverged && !r.NotRecorded && !r.Begun
}

// replay is the outcome that was recorded: nothing runs and nothing waits.
func (c *call) replay(outcome *Record) error {
	if outcome.Status == StatusFailed {
		e := &CallError{
			Address: c.address, Name: outcome.Name, Stage: outcome.Stage,
			Attempts: outcome.TotalAttempts(), Reason: outcome.Reason, Err: outcome.Err,
		}
		e.Detail = outcome.Message()
		return e
	}
	if err := c.body.decodeOutput(outcome.Encoded()); err != nil {
		return c.halt(&DecodeError{c.address, err})
	}
	return nil
}

// halt suspends the call and everything around it: resuming went wrong, which
// is no failure of the program and must not become one on record.
func (c *call) halt(err error) error {
	e := c.parent.ending() // which may be why it went wrong
	if e == nil {
		e = &InterruptedError{Reason: InterruptReplay, Cause: err}
	}
	c.mark(e)
	return e
}
