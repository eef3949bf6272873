package mark

import "errors"

// Permanent wraps an error that is never retried. Its text equals the wrapped error's text.
type Permanent struct{ Err error }

// Error returns the text of the wrapped error.
func (e *Permanent) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Permanent) Unwrap() error { return e.Err }

// Retryable wraps an error that is retried regardless of its class. Its text equals the wrapped
// error's text.
type Retryable struct{ Err error }

// Error returns the text of the wrapped error.
func (e *Retryable) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Retryable) Unwrap() error { return e.Err }

// Is matches [ErrRetryable].
func (e *Retryable) Is(target error) bool { return target == ErrRetryable }

// ErrRetryable is a target for errors.Is, which finds it in every error marked as retryable,
// including errors read from records. It is never returned as an error itself.
var ErrRetryable = errors.New("retryable")

// InDoubt wraps the error of a handler that does not know whether its attempt took effect. Its text
// equals the wrapped error's text.
type InDoubt struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InDoubt) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InDoubt) Unwrap() error { return e.Err }

// Is matches [ErrInDoubt].
func (e *InDoubt) Is(target error) bool { return target == ErrInDoubt }

// ErrInDoubt is record.ErrInDoubt.
var ErrInDoubt = errors.New("call in doubt")
