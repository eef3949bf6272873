package core

import "errors"

// Reason says why a call failed for good. It is in the record, and each has a
// sentinel that errors.Is finds in the returned error. In the record of a call
// that was started, ReasonDivergence says that it begins anew, although it was
// recorded, because it or a call before it has another input.
type Reason uint8

// The reasons.
const (
	ReasonNone              Reason = iota
	ReasonPermanent                // the error is not of the kind that is retried
	ReasonExhausted                // the last attempt that the configuration allows failed
	ReasonRetryTimeout             // RetryTimeout is used up, or would be by the next wait
	ReasonDeadline                 // the deadline of the context given to this call
	ReasonCanceled                 // the caller cancelled the context given to this call
	ReasonRetryAfterTooLong        // the service asked for a longer wait than is allowed
	ReasonCondition                // a postcondition does not hold, and no retry is left or wanted
	ReasonPrecondition             // a precondition does not hold
	ReasonPanic                    // a handler or a condition panicked
	ReasonBudget                   // a budget is used up
	ReasonInDoubt                  // a crash left it unknown whether the call took place
	ReasonDivergence               // the code made another call than the one recorded
	ReasonStorage                  // the result could not be stored
	reasonEnd
)

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

var reasons = [reasonEnd]struct {
	name string
	err  error
}{
	ReasonPermanent:         {"permanent", ErrPermanent},
	ReasonExhausted:         {"exhausted", ErrExhausted},
	ReasonRetryTimeout:      {"retry_timeout", ErrRetryTimeout},
	ReasonDeadline:          {"deadline", ErrDeadline},
	ReasonCanceled:          {"canceled", ErrCanceled},
	ReasonRetryAfterTooLong: {"retry_after_too_long", ErrRetryAfterTooLong},
	ReasonCondition:         {"condition", ErrCondition},
	ReasonPrecondition:      {"precondition", ErrPrecondition},
	ReasonPanic:             {"panic", ErrPanic},
	ReasonBudget:            {"budget", ErrBudget},
	ReasonInDoubt:           {"in_doubt", ErrInDoubt},
	ReasonDivergence:        {"divergence", ErrDivergence},
	ReasonStorage:           {"storage", ErrStorage},
}

// String is the name on the wire, such as "retry_timeout"; empty for
// ReasonNone.
func (r Reason) String() string {
	if r < reasonEnd {
		return reasons[r].name
	}
	return nameOf(nil, uint8(r), "reason")
}

// MarshalText writes the name on the wire.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// sentinel is the error that errors.Is matches the reason with.
func (r Reason) sentinel() error {
	if r < reasonEnd {
		return reasons[r].err
	}
	return nil
}
