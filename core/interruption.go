package core

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/record"
)

// IsSuspension reports whether err is that of a call that stopped without an
// outcome, rather than of one that failed. It is errors.Is for
// [ErrInterrupted], and false for an error whose own methods panic.
func IsSuspension(err error) bool { return is(err, ErrInterrupted) }

// is is errors.Is for errors of users: one with a nil pointer in it, whose
// methods panic, must cost its call and not the process.
func is(err, target error) (found bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// interruption is what the end of a context means to the calls inside it: the
// interrupt that was its cause, or else the end itself.
func interruption(ctx context.Context) *InterruptedError {
	cause := context.Cause(ctx)
	if e, ok := cause.(*InterruptedError); ok { //nolint:errorlint // the cause itself
		return e
	}
	return &InterruptedError{Reason: record.InterruptContext, Cause: cause}
}
