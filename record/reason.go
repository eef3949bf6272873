package record

import "github.com/reprise-go/reprise/internal/enum"

// Reason says why a call failed for good. Each has an error of the same name in
// package core, such as core.ErrExhausted, that errors.Is finds in what the
// call returns. In the record of a call
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
	ReasonGroupTimeout             // the time of a group passed before all its branches had ended
	reasonEnd
)

var reasonNames = [reasonEnd]string{
	ReasonNone: "", ReasonPermanent: "permanent", ReasonExhausted: "exhausted", ReasonRetryTimeout: "retry_timeout",
	ReasonDeadline: "deadline", ReasonCanceled: "canceled", ReasonRetryAfterTooLong: "retry_after_too_long",
	ReasonCondition: "condition", ReasonPrecondition: "precondition", ReasonPanic: "panic", ReasonBudget: "budget",
	ReasonInDoubt: "in_doubt", ReasonDivergence: "divergence", ReasonStorage: "storage",
	ReasonGroupTimeout: "group_timeout",
}

// String is the name on the wire, such as "retry_timeout"; empty for
// ReasonNone.
func (r Reason) String() string {
	return enum.Name(reasonNames[:], uint8(r), "reason")
}

// IsExhaustion reports whether a call failed because no attempt, no time or no
// retry budget was left.
func (r Reason) IsExhaustion() bool {
	return r == ReasonExhausted || r == ReasonRetryTimeout || r == ReasonBudget
}

// MarshalText writes the name on the wire.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (r *Reason) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = ReasonNone
		return nil
	}
	return enum.Parse(reasonNames[:], text, "reason", (*uint8)(r))
}
