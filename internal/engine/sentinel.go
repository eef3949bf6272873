package engine

import (
	"errors"

	"github.com/reprise-go/reprise/record"
)

// If a call failed for a [record.Reason] that has an error of the same name, errors.Is finds that
// error in the call's error.
var (
	ErrPermanent         = errors.New("permanent error")
	ErrExhausted         = errors.New("attempts exhausted")
	ErrRetryTimeout      = errors.New("retry timeout")
	ErrDeadline          = errors.New("deadline of the call")
	ErrContextCanceled   = errors.New("context of the call canceled")
	ErrRetryAfterTooLong = errors.New("retry-after too long")
	ErrCondition         = errors.New("postcondition failed")
	ErrPrecondition      = errors.New("precondition failed")
	ErrPanic             = errors.New("panic")
	ErrBudget            = errors.New("budget used up")
	ErrInDoubt           = record.ErrInDoubt
	ErrDivergence        = errors.New("divergence from the record")
	ErrStorage           = errors.New("result not stored")
	ErrGroupTimeout      = errors.New("group timeout")
)

// sentinels maps reasons to their errors.
var sentinels = []error{
	record.ReasonPermanent:         ErrPermanent,
	record.ReasonExhausted:         ErrExhausted,
	record.ReasonRetryTimeout:      ErrRetryTimeout,
	record.ReasonDeadline:          ErrDeadline,
	record.ReasonContextCanceled:   ErrContextCanceled,
	record.ReasonRetryAfterTooLong: ErrRetryAfterTooLong,
	record.ReasonCondition:         ErrCondition,
	record.ReasonPrecondition:      ErrPrecondition,
	record.ReasonPanic:             ErrPanic,
	record.ReasonBudget:            ErrBudget,
	record.ReasonInDoubt:           ErrInDoubt,
	record.ReasonDivergence:        ErrDivergence,
	record.ReasonStorage:           ErrStorage,
	record.ReasonGroupTimeout:      ErrGroupTimeout,
}

// sentinelOf returns the error of the reason, or nil if it has none.
func sentinelOf(r record.Reason) error {
	if int(r) < len(sentinels) {
		return sentinels[r]
	}
	return nil
}

// Make errors.Is and errors.As find errors of this package in recorded
// errors too.
func init() {
	record.RegisterError("reprise.ErrAttemptOver", ErrAttemptOver)
	record.RegisterError("reprise.ErrNoRun", ErrNoRun)
	record.RegisterError("reprise.ErrAwaiting", ErrAwaiting)
	record.RegisterError("reprise.ErrNotRecorded", ErrNotRecorded)
	record.RegisterError("reprise.ErrNotStored", ErrNotStored)
	for reason, err := range sentinels {
		if err != nil {
			record.RegisterError("reprise."+record.Reason(reason).String(), err)
		}
	}
	record.RegisterError("reprise.ErrUnfit", ErrUnfit)
	record.RegisterError("reprise.errAnsweredFailed", errAnsweredFailed)
	record.RegisterErrorType[*CallError]("reprise.CallError")
	record.RegisterErrorType[*DivergenceError]("reprise.DivergenceError")
	record.RegisterErrorType[*PanicError]("reprise.PanicError")
	record.RegisterErrorType[*TimeoutError]("reprise.TimeoutError")
}
