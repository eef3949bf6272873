package core

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// A CallError reports that a call failed. errors.Is matches it with the sentinel of its Reason
// (such as [ErrExhausted]), and with everything that the handler's last error matches. errors.As
// finds in it whatever it would find in the handler's last error.
//
// The text of a CallError contains at most 4,000 characters ([record.MessageLimit]) of Err's text,
// both live and after a resume. The record contains the same part of Err's text. The record also
// contains Err's value if the type of Err belongs to the standard library or was registered with
// [record.RegisterErrorType]. A value of more than 64 KB is left out, and a warning is recorded
// (see [record.Error]).
//
// If a failed run is opened again and its last root call returns the recorded failure, the text
// also says so, and explains how to make the failed calls again. No record contains this addition.
//
//	Address  record.Address // zero outside a run
//	Name     string         // of the actor
//	Stage    record.Stage   // where the last attempt failed
//	Attempts int            // how many were made
//	Reason   record.Reason
//	Detail   string         // the limit that the call reached; usually empty
//	Err      error          // the last error of the handler, a condition or the storage; never nil
type CallError = engine.CallError

// A PanicError is the error that results from a panic in a handler or a condition. It is never
// retried.
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
// recorded ones. Nothing ran in place of a recorded call. The run is interrupted, but has not
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

// IsSuspension reports whether err comes from a call that stopped without an outcome, rather than
// from a call that failed. It returns errors.Is(err, [ErrInterrupted]), or false if a method of err
// panics.
func IsSuspension(err error) bool { return engine.IsSuspension(err) }

// Each of these errors, with errors.Is, matches the error of a call that failed for the
// [record.Reason] of the same name. ErrDivergence is an exception: no call fails with it.
var (
	// ErrPermanent means that the last error is not retried because of its class, because it is
	// marked by [Permanent], or because the [RetryConfig] does not select it.
	ErrPermanent = engine.ErrPermanent

	// ErrExhausted means that the last attempt that MaxAttempts allows has failed, with an error
	// that would otherwise have been retried.
	ErrExhausted = engine.ErrExhausted

	// ErrRetryTimeout means that the call's RetryTimeout has passed, or would have passed during
	// the wait before the next attempt.
	ErrRetryTimeout = engine.ErrRetryTimeout

	// ErrDeadline means that the deadline of the context passed to the call has expired, or would
	// have expired before the next attempt.
	ErrDeadline = engine.ErrDeadline

	// ErrContextCanceled means that the caller canceled the context passed to the call.
	ErrContextCanceled = engine.ErrContextCanceled

	// ErrRetryAfterTooLong means that a service requested a longer delay than MaxRetryAfter.
	ErrRetryAfterTooLong = engine.ErrRetryAfterTooLong

	// ErrCondition means that a postcondition did not hold in the last attempt, even if the call
	// failed for another reason, such as ErrExhausted.
	ErrCondition = engine.ErrCondition

	// ErrPrecondition means that a precondition did not hold; the handler did not run.
	ErrPrecondition = engine.ErrPrecondition

	// ErrPanic means that a handler, a condition, an interceptor or a function in the RetryConfig
	// panicked.
	ErrPanic = engine.ErrPanic

	// ErrBudget means that an interceptor refused an attempt because a budget is used up, or allowed
	// no further attempt (package policy/retrybudget).
	ErrBudget = engine.ErrBudget

	// ErrInDoubt means that it is unknown whether the call, or a call inside it, took effect, and
	// that the call is not made again; see [InDoubtPolicy].
	ErrInDoubt = record.ErrInDoubt

	// ErrDivergence means that the program makes calls that differ from the recorded ones. The run
	// is then interrupted, but has not failed; see [DivergenceError].
	ErrDivergence = engine.ErrDivergence

	// ErrStorage means that a large output or a record of the call could not be stored.
	ErrStorage = engine.ErrStorage

	// ErrGroupTimeout means that a group's time limit passed before all its branches had ended.
	ErrGroupTimeout = engine.ErrGroupTimeout
)

// ErrAttemptOver is returned to code that is still running inside an attempt after its handler has
// returned or was abandoned. Such code can no longer make calls, or record or store anything.
var ErrAttemptOver = engine.ErrAttemptOver

// ErrNoRun is returned if a run is needed but the context belongs to none.
var ErrNoRun = engine.ErrNoRun

// ErrNotRecorded is returned in a strict replay by a call that has no recorded outcome and would
// have to be executed.
var ErrNotRecorded = engine.ErrNotRecorded

// ErrNotStored is returned in a strict replay by a completed call whose actor is NoStore. A
// strict replay does not execute such a call, so it does not know what the call returned.
var ErrNotStored = engine.ErrNotStored

// encodeError reports that an input or an output cannot be encoded. A retry would not help.
type encodeError struct {
	what, name string
	err        error
}

func (e *encodeError) Error() string       { return fmt.Sprintf("%s of %q: %v", e.what, e.name, e.err) }
func (e *encodeError) Unwrap() error       { return e.err }
func (e *encodeError) Class() record.Class { return record.ClassInvalid }
