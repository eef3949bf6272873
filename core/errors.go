package core

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// A CallError is the failure of a call. errors.Is finds the sentinel of its
// Reason (such as [ErrExhausted]) in it, and everything that it finds in the
// handler's own last error. The same holds for errors.As.
//
// Its text contains at most 4,000 characters ([record.MessageLimit]) of the
// text of Err, live and after a resume. Of Err itself, that text is recorded,
// and the value of a type of the standard library, or one that was registered
// with [record.RegisterErrorType], if it is not larger than 64 KB; otherwise a
// warning is recorded (see [record.Error]).
type CallError = engine.CallError

// A PanicError is a panic of a handler or a condition, turned into an error. It
// is never retried.
type PanicError = engine.PanicError

// A TimeoutError ends an attempt that took longer than its limit.
type TimeoutError = engine.TimeoutError

// A DivergenceError reports that the program that resumes a run does not do what was
// recorded. Nothing ran in place of what was recorded. The run is interrupted and has
// not failed: it continues with the previous program, or with one that makes the
// recorded calls. A DivergenceError matches [ErrDivergence].
type DivergenceError = engine.DivergenceError

// A CompensationError lists the compensations that failed for good. errors.As
// finds it in the error of the call whose failure caused them.
type CompensationError = engine.CompensationError

// A FailedCompensation is one compensation that failed for good.
type FailedCompensation = engine.FailedCompensation

// ErrInterrupted is found by errors.Is in every [InterruptedError].
var ErrInterrupted = record.ErrInterrupted

// An InterruptedError is returned by a call that stopped without an outcome and
// continues when its run is resumed. It is not a failure and is not retried.
type InterruptedError = record.InterruptedError

// IsSuspension reports whether err comes from a call that stopped without an
// outcome, rather than from one that failed. It is errors.Is for
// [ErrInterrupted], and false for an error whose methods panic.
func IsSuspension(err error) bool { return engine.IsSuspension(err) }

// errors.Is finds each of these in the error of a call that failed for the
// [record.Reason] of the same name.
var (
	ErrPermanent         = engine.ErrPermanent
	ErrExhausted         = engine.ErrExhausted
	ErrRetryTimeout      = engine.ErrRetryTimeout
	ErrDeadline          = engine.ErrDeadline
	ErrCanceled          = engine.ErrCanceled
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

// ErrAttemptOver is returned to code that still runs inside an attempt whose
// handler returned or was abandoned: it can no longer call, record or store
// anything.
var ErrAttemptOver = engine.ErrAttemptOver

// ErrNoRun is returned if a run is needed and the context has none.
var ErrNoRun = engine.ErrNoRun

// ErrNotRecorded is found in the error of a call that has no recorded outcome
// and that a strict replay would have to execute.
var ErrNotRecorded = engine.ErrNotRecorded

// ErrNotStored is found in the error of a call that completed and whose actor
// is marked NoStore. A strict replay does not execute such a call, so it cannot
// prove what the call returned.
var ErrNotStored = engine.ErrNotStored

// encodeError says that an input or an output cannot be encoded. A retry would
// not change that.
type encodeError struct {
	what, name string
	err        error
}

func (e *encodeError) Error() string       { return fmt.Sprintf("%s of %q: %v", e.what, e.name, e.err) }
func (e *encodeError) Unwrap() error       { return e.err }
func (e *encodeError) Class() record.Class { return record.ClassInvalid }
