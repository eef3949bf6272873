package core

import (
	"context"
	"errors"
	"fmt"
)

// ErrInterrupted is found by errors.Is in every [InterruptedError].
var ErrInterrupted = errors.New("interrupted")

// InterruptReason says why a call was interrupted.
type InterruptReason string

// The reasons for an interrupt that Reprise itself gives. Users may have more.
const (
	InterruptUser      InterruptReason = "user"           // somebody asked for it
	InterruptCancel    InterruptReason = "cancel"         // somebody ended the run for good: it is not resumed
	InterruptCrash     InterruptReason = "crash"          // the process ended without closing the run
	InterruptShutdown  InterruptReason = "shutdown"       // the process stops, and the run goes on in the next
	InterruptCrashLoop InterruptReason = "crash_loop"     // the process ended each time that the run was started
	InterruptTimeout   InterruptReason = "timeout"        // the run's own time is over
	InterruptContext   InterruptReason = "context"        // the context given to the run ended
	InterruptParent    InterruptReason = "parent_timeout" // the attempt of the caller timed out
	InterruptGroup     InterruptReason = "group"          // another branch of the group failed
	InterruptClosed    InterruptReason = "closed"         // the run was closed
	InterruptAwait     InterruptReason = "awaiting"       // a call waits for an answer
	InterruptReplay    InterruptReason = "replay"         // what was recorded cannot be used
	InterruptDiverge   InterruptReason = "divergence"     // the program differs from what it recorded
	InterruptStore     InterruptReason = "store"          // the run could not be stored any more

	InterruptLeaseLost InterruptReason = "lease_lost" // the process may not own the run any more
)

// An InterruptedError is returned by a call that stopped without an outcome,
// and goes on when its run is resumed. It is no failure: it is not retried.
type InterruptedError struct {
	Reason  InterruptReason
	Message string // in the words of whoever interrupted
	By      string // who that was; empty for Reprise itself
	Cause   error  // what ended the context, nil for an interrupt

	Question string // the ID of the question that is waited for; empty otherwise

	// origin is the scope whose end this is: it and those around it were not
	// interrupted. Nil if the whole run was.
	origin *Scope
	local  bool   // of one that was restored, where origin is nil
	path   string // the origin of one that was restored
}

// Local reports whether only a part of the run was interrupted: the inside of
// an attempt that timed out, or of a group that failed fast. What is around it
// goes on.
func (e *InterruptedError) Local() bool { return e.origin != nil || e.local }

// Origin is what ended, where that is only a part of the run: the address of a
// group, or an attempt as it stands before the calls it made ("assistant@2").
// It is empty otherwise, and for one that was restored from a file that does
// not tell.
func (e *InterruptedError) Origin() string {
	if e.origin != nil {
		return e.origin.Path()
	}
	return e.path
}

// AsLocal returns a copy that is Local, with the origin: one that is restored
// from where it was stored.
func (e *InterruptedError) AsLocal(origin string) *InterruptedError {
	local := *e
	local.local, local.path = true, origin
	return &local
}

// Error is a line such as `interrupted (user) by ops: deploy`.
func (e *InterruptedError) Error() string {
	text := "interrupted"
	if e.Reason != "" {
		text += fmt.Sprintf(" (%s)", e.Reason)
	}
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is matches [ErrInterrupted], and [context.Canceled] where the context given
// to the run or the call was cancelled, whatever the cause.
func (e *InterruptedError) Is(target error) bool {
	switch target {
	case ErrInterrupted:
		return true
	case context.Canceled:
		return e.Reason == InterruptContext && !errors.Is(e.Cause, context.DeadlineExceeded)
	}
	return false
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Cause }

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
	if e, ok := cause.(*InterruptedError); ok {
		return e
	}
	return &InterruptedError{Reason: InterruptContext, Cause: cause}
}
