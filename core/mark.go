package core

import (
	"time"

	"github.com/reprise-go/reprise/internal/mark"
	"github.com/reprise-go/reprise/record"
)

// Permanent marks err so that it is never retried, regardless of the retry configuration. errors.Is
// and errors.As still find err, and its text stays the same. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &mark.Permanent{Err: err}
}

// Retryable marks err so that it is retried regardless of its class, unless the retry configuration
// says otherwise. The mark also means that the attempt had no effect that must not be repeated: see
// [InDoubtPolicy]. Retryable(nil) is nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &mark.Retryable{Err: err}
}

// InDoubt marks err as the error of an attempt that may or may not have taken effect, such as a
// request whose connection was lost before a response arrived. The actor's [InDoubtPolicy] decides
// what happens next, as if the process had ended during the attempt:
//
//	InDoubtRetry  the attempt has failed, and is retried as a Retryable error is,
//	              unless the retry configuration says otherwise
//	InDoubtFail   the call fails with ErrInDoubt
//	InDoubtAsk    the call waits for an answer, and its run pauses. Outside a run,
//	              where nobody can answer, it fails with ErrInDoubt
//
// Before a call fails or waits, its outcome is looked up, if the actor has a LookUp. errors.Is
// finds [ErrInDoubt] in the result, as well as everything that it finds in err; the text stays the
// same. The mark applies only to the call whose handler returns it: if a surrounding call fails
// with the same error, that call has failed and is not in doubt. Agents, groups and branches are
// never in doubt. InDoubt(nil) is nil.
func InDoubt(err error) error {
	if err == nil {
		return nil
	}
	return &mark.InDoubt{Err: err}
}

// WithRetryAfter adds to err the delay that a service requested. The next attempt begins no earlier
// than after this delay; no jitter is added, and MaxDelay does not limit it. WithRetryAfter does
// not make err retryable. WithRetryAfter(nil, d) is nil.
func WithRetryAfter(err error, d time.Duration) error {
	if err == nil || d <= 0 {
		return err
	}
	return &retryAfterError{err, d}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e *retryAfterError) Unwrap() error             { return e.error }
func (e *retryAfterError) RetryAfter() time.Duration { return e.after }

// RetryAfter returns the delay that a service requested. It calls the method RetryAfter()
// time.Duration of the first error in err's tree that has this method. It returns false if there is
// no such error, or if the delay is zero or less.
func RetryAfter(err error) (time.Duration, bool) {
	after := record.Inspect(err).RetryAfter
	return after, after > 0
}
