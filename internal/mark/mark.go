package mark

import "errors"

// Permanent marks an error that is never retried. Its text is that of the wrapped
// error.
type Permanent struct{ Err error }

// Error returns the text of the wrapped error.
func (e *Permanent) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Permanent) Unwrap() error { return e.Err }

// Retryable marks an error that is retried regardless of its class. Its text is that
// of the wrapped error.
type Retryable struct{ Err error }

// Error returns the text of the wrapped error.
func (e *Retryable) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Retryable) Unwrap() error { return e.Err }

// Is matches [ErrRetryable].
func (e *Retryable) Is(target error) bool { return target == ErrRetryable }

// ErrRetryable is found by errors.Is in an error that is marked as retryable,
// including a recorded one. It is not used as an error itself.
var ErrRetryable = errors.New("retryable")

// InDoubt marks the error of a handler that does not know whether its attempt took
// effect. Its text is that of the wrapped error.
type InDoubt struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InDoubt) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InDoubt) Unwrap() error { return e.Err }

// Is matches [ErrInDoubt].
func (e *InDoubt) Is(target error) bool { return target == ErrInDoubt }

// ErrInDoubt is record.ErrInDoubt.
var ErrInDoubt = errors.New("call in doubt")
