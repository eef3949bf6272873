package mark

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
