package record

import (
	"github.com/reprise-go/reprise/internal/enum"
	"github.com/reprise-go/reprise/internal/mark"
)

// Reason is the reason why a call failed for good. Each reason for which a call can fail has an error
// with the same name in package core, such as core.ErrExhausted, and errors.Is finds it in the call's
// error.
//
// A started record may have a reason, too: ReasonLost, ReasonRetry, ReasonDivergence or
// ReasonInDoubt. In a started record, ReasonDivergence means that a recorded call is made again
// from the beginning because its input, or the input of an earlier call, has changed. ReasonInDoubt
// means that a compensation undoes a call in doubt.
type Reason uint8

// The reasons.
const (
	ReasonNone              Reason = iota
	ReasonPermanent                // the error is of a kind that is not retried
	ReasonExhausted                // the last attempt allowed by the configuration failed
	ReasonRetryTimeout             // RetryTimeout has passed, or would pass during the next wait
	ReasonDeadline                 // the deadline of the context given to this call has passed, or would pass before the next attempt
	ReasonContextCanceled          // the caller cancelled the context given to this call
	ReasonRetryAfterTooLong        // the service asked for a longer delay than is allowed
	ReasonCondition                // a postcondition does not hold, and the call is not retried
	ReasonPrecondition             // a precondition does not hold
	ReasonPanic                    // a handler or a condition panicked
	ReasonBudget                   // a retry budget is used up
	ReasonInDoubt                  // it is not known whether the call took effect, usually after a crash
	ReasonDivergence               // the code made a call that differs from the recorded one
	ReasonStorage                  // the result could not be stored
	ReasonGroupTimeout             // a group's time limit passed before all its branches had ended
	ReasonLost                     // in a started record: the process ended during this attempt, which is made again
	ReasonRetry                    // in a started record: a call that had failed for good is tried again on request
	reasonEnd
)

var reasonNames = [reasonEnd]string{
	ReasonNone: "", ReasonPermanent: "permanent", ReasonExhausted: "exhausted", ReasonRetryTimeout: "retry_timeout",
	ReasonDeadline: "deadline", ReasonContextCanceled: "context_canceled", ReasonRetryAfterTooLong: "retry_after_too_long",
	ReasonCondition: "condition", ReasonPrecondition: "precondition", ReasonPanic: "panic", ReasonBudget: "budget",
	ReasonInDoubt: "in_doubt", ReasonDivergence: "divergence", ReasonStorage: "storage",
	ReasonGroupTimeout: "group_timeout", ReasonLost: "lost",
	ReasonRetry: "retry",
}

// ErrInDoubt is the error that errors.Is finds in a call's error if it is unknown whether the call
// took effect.
var ErrInDoubt = mark.ErrInDoubt

// String returns the wire name, such as "retry_timeout", or an empty string for ReasonNone.
func (r Reason) String() string {
	return enum.Name(reasonNames[:], uint8(r), "reason")
}

// IsExhaustion reports whether a call failed because there were no attempts, no time or no retry
// budget left.
func (r Reason) IsExhaustion() bool {
	return r == ReasonExhausted || r == ReasonRetryTimeout || r == ReasonBudget
}

// MarshalText returns the wire name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses a name that MarshalText returned.
func (r *Reason) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = ReasonNone
		return nil
	}
	return enum.Parse(reasonNames[:], text, "reason", (*uint8)(r))
}
