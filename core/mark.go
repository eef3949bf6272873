package core

import (
	"time"

	"github.com/reprise-go/reprise/internal/mark"
	"github.com/reprise-go/reprise/record"
)

// Permanent marks err so that it is never retried, whatever the retry
// configuration says. Callers still find err with errors.Is and errors.As,
// and read its own text. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &mark.Permanent{Err: err}
}

// Retryable marks err so that it is retried where the retry configuration
// does not say otherwise, although its class would not be. Retryable(nil) is
// nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &mark.Retryable{Err: err}
}

// WithRetryAfter gives err the time that a service asked to be left alone
// for: a floor under the delay before the next attempt, neither jittered nor
// clipped to MaxDelay. It does not make err retryable. A nil err stays nil.
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

// RetryAfter finds the delay that a service asked for in an error: the first
// in its chain that has a method RetryAfter() time.Duration. What is not
// above zero counts as nothing asked.
func RetryAfter(err error) (time.Duration, bool) {
	after := record.Inspect(err).RetryAfter
	return after, after > 0
}
