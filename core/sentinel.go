package core

import "errors"

// Each of these is found by errors.Is in the error of a call that failed for
// the [Reason] of the same name.
var (
	ErrPermanent         = errors.New("permanent error")
	ErrExhausted         = errors.New("attempts exhausted")
	ErrRetryTimeout      = errors.New("retry timeout")
	ErrDeadline          = errors.New("deadline of the call")
	ErrCanceled          = errors.New("call canceled by its caller")
	ErrRetryAfterTooLong = errors.New("retry-after too long")
	ErrCondition         = errors.New("postcondition failed")
	ErrPrecondition      = errors.New("precondition failed")
	ErrPanic             = errors.New("panic")
	ErrBudget            = errors.New("budget used up")
	ErrInDoubt           = errors.New("call in doubt")
	ErrDivergence        = errors.New("divergence from the record")
	ErrStorage           = errors.New("result not stored")
)

// sentinels are the errors that errors.Is matches reasons with.
var sentinels = []error{
	ReasonPermanent:         ErrPermanent,
	ReasonExhausted:         ErrExhausted,
	ReasonRetryTimeout:      ErrRetryTimeout,
	ReasonDeadline:          ErrDeadline,
	ReasonCanceled:          ErrCanceled,
	ReasonRetryAfterTooLong: ErrRetryAfterTooLong,
	ReasonCondition:         ErrCondition,
	ReasonPrecondition:      ErrPrecondition,
	ReasonPanic:             ErrPanic,
	ReasonBudget:            ErrBudget,
	ReasonInDoubt:           ErrInDoubt,
	ReasonDivergence:        ErrDivergence,
	ReasonStorage:           ErrStorage,
}

// sentinelOf is the error of the reason, nil if it has none.
func sentinelOf(r Reason) error {
	if int(r) < len(sentinels) {
		return sentinels[r]
	}
	return nil
}

// Errors of this package are found in recorded ones too.
func init() {
	RegisterError("reprise.ErrAttemptOver", ErrAttemptOver)
	RegisterError("reprise.ErrNoRun", ErrNoRun)
	RegisterError("reprise.ErrAwaiting", ErrAwaiting)
	RegisterError("reprise.ErrNotRecorded", ErrNotRecorded)
	RegisterError("reprise.ErrNotStored", ErrNotStored)
	for reason, err := range sentinels {
		if err != nil {
			RegisterError("reprise."+Reason(reason).String(), err)
		}
	}
	RegisterErrorType[*DivergenceError]("reprise.DivergenceError")
}
