package core

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// A CallError reports that a call failed. errors.Is matches it with the sentinel of its Reason
// (such as [ErrExhausted]), and with everything that matches the handler's last error. errors.As
// finds in it whatever it finds in the handler's last error.
//
// Its text contains at most 4,000 characters ([record.MessageLimit]) of Err's text, both live and
// after a resume. The record contains this part of Err's text. The record also contains Err's value
// if the type of Err belongs to the standard library or was registered with
// [record.RegisterErrorType]. A value of more than 64 KB is left out, and a warning is recorded
// (see [record.Error]).
//
//	Address  record.Address // zero outside a run
//	Name     string         // of the actor
//	Stage    record.Stage   // where the last attempt failed
//	Attempts int            // how many were made
//	Reason   record.Reason
//	Detail   string         // the limit that the call reached; usually empty
//	Err      error          // the last error of the handler, a condition or the storage; never nil
type CallError = engine.CallError

// A PanicError is the error for a panic in a handler or a condition. It is never retried.
//
//	Value any    // after a resume: its text, unless it is a number or a bool
//	Stack []byte // of the goroutine, from the panic on; not recorded
type PanicError = engine.PanicError

// A TimeoutError is the error of an attempt that took longer than its limit.
//
//	Limit time.Duration // of the attempt
//	Err   error         // what the handler returned; nil if it was abandoned
type TimeoutError = engine.TimeoutError

// A DivergenceError reports that the program of a resumed run makes calls that differ from the
// recorded ones. Nothing ran in place of a recorded call. The run is interrupted and has not
// failed: it continues with the previous program, or with one that makes the recorded calls. A
// DivergenceError matches [ErrDivergence].
//
//	RunID    string
//	How      string         // "order", "input", "kind", "end", "output", "overlap", "swap", "value", "question" or "version"
//	Address  record.Address // of the call that the program makes; if a scope ended too early, of the scope's call
//	Was      record.Address // of the call that was recorded in its place; zero if there is none, or if it has the same address
//	Scope    string         // the path of the attempt or branch that makes the call; empty for the run itself
//	Ordinal  int            // the number of the call among all calls of the scope, from 1; 0 if it does not matter
//	Recorded string         // what is recorded; for an input, its hash
//	Asked    string         // what the program does; for an input, its hash
//	Fields   []string       // the parts that differ, if their values are recorded
//	Hint     string         // the likely reason
//	Fork     record.Address // the call before which to fork the run, if it is neither Was nor Address
//
//	Difference() string           // what differs, in words
//	ForkAddress() record.Address  // the call before which to fork the run
type DivergenceError = engine.DivergenceError

// A CompensationError lists the compensations that failed for good. errors.As
// finds it in the error of the call whose failure caused them.
//
//	Failed []FailedCompensation // in the order in which they were made
type CompensationError = engine.CompensationError

// A FailedCompensation is one compensation that failed for good.
//
//	Address record.Address // of the call that was to be undone; zero outside a run
//	Name    string         // of its actor
//	Message string         // the error
type FailedCompensation = engine.FailedCompensation

// ErrInterrupted is matched by every [InterruptedError], with errors.Is.
var ErrInterrupted = record.ErrInterrupted

// An InterruptedError is returned by a call that stopped without an outcome and
// continues when its run is resumed. It is not a failure and is not retried.
type InterruptedError = record.InterruptedError

// IsSuspension reports whether err comes from a call that stopped without an outcome, and not from
// a call that failed. It returns errors.Is(err, [ErrInterrupted]), or false if a method of err
// panics.
func IsSuspension(err error) bool { return engine.IsSuspension(err) }

// errors.Is finds each of these in the error of a call that failed for the [record.Reason] of the
// same name. ErrDivergence is an exception: no call fails with it, since a divergence interrupts the
// run; see [DivergenceError].
var (
	ErrPermanent         = engine.ErrPermanent
	ErrExhausted         = engine.ErrExhausted
	ErrRetryTimeout      = engine.ErrRetryTimeout
	ErrDeadline          = engine.ErrDeadline
	ErrContextCanceled   = engine.ErrContextCanceled
	ErrRetryAfterTooLong = engine.ErrRetryAfterTooLong
	ErrCondition         = engine.ErrCondition
	ErrPrecondition      = engine.ErrPrecondition
	ErrPanic             = engine.ErrPanic
	ErrBudget            = engine.ErrBudget
	ErrInDoubt           = record.ErrInDoubt
	ErrDivergence        = engine.ErrDivergence
	ErrStorage           = engine.ErrStorage
	ErrGroupTimeout      = engine.ErrGroupTimeout
)

// ErrAttemptOver is returned to code that still runs inside an attempt after its handler returned
// or was abandoned. Such code can no longer make calls, or record or store anything.
var ErrAttemptOver = engine.ErrAttemptOver

// ErrNoRun is returned if a run is needed and the context belongs to none.
var ErrNoRun = engine.ErrNoRun

// ErrNotRecorded is the error in a strict replay for a call that has no recorded outcome and would
// have to be executed.
var ErrNotRecorded = engine.ErrNotRecorded

// ErrNotStored is the error in a strict replay for a completed call whose actor is NoStore. A
// strict replay does not execute such a call, so it does not know what the call returned.
var ErrNotStored = engine.ErrNotStored

// encodeError reports that an input or an output cannot be encoded. A retry would not change that.
type encodeError struct {
	what, name string
	err        error
}

func (e *encodeError) Error() string       { return fmt.Sprintf("%s of %q: %v", e.what, e.name, e.err) }
func (e *encodeError) Unwrap() error       { return e.err }
func (e *encodeError) Class() record.Class { return record.ClassInvalid }
