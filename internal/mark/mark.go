package mark

import "errors"

// Permanent marks an error that is never retried. It reads as the error in it.
type Permanent struct{ Err error }

// Error is the text of the error in it.
func (e *Permanent) Error() string { return e.Err.Error() }

// Unwrap returns the error in it.
func (e *Permanent) Unwrap() error { return e.Err }

// Retryable marks an error that is retried although its class would not be. It
// reads as the error in it.
type Retryable struct{ Err error }

// Error is the text of the error in it.
func (e *Retryable) Error() string { return e.Err.Error() }

// Unwrap returns the error in it.
func (e *Retryable) Unwrap() error { return e.Err }

// Is matches [ErrRetryable].
func (e *Retryable) Is(target error) bool { return target == ErrRetryable }

// ErrRetryable is what errors.Is finds in an error that is marked as retryable, also
// when it was recorded. It is not an error by itself.
var ErrRetryable = errors.New("retryable")

// InDoubt marks the error of a handler that does not know whether its attempt took
// effect. It reads as the error in it.
type InDoubt struct{ Err error }

// Error is the text of the error in it.
func (e *InDoubt) Error() string { return e.Err.Error() }

// Unwrap returns the error in it.
func (e *InDoubt) Unwrap() error { return e.Err }

// Is matches [ErrInDoubt].
func (e *InDoubt) Is(target error) bool { return target == ErrInDoubt }

// ErrInDoubt is record.ErrInDoubt.
var ErrInDoubt = errors.New("call in doubt")
