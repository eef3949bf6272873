package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrInterrupted is found by errors.Is in every [InterruptedError].
var ErrInterrupted = errors.New("interrupted")

// InterruptReason is the reason why a call was interrupted.
type InterruptReason string

// The reasons that Reprise itself sets. Users may define more.
const (
	InterruptUser      InterruptReason = "user"           // a person interrupted the run
	InterruptCancel    InterruptReason = "cancel"         // a person ended the run for good: it is not resumed
	InterruptCrash     InterruptReason = "crash"          // the process ended without closing the run
	InterruptShutdown  InterruptReason = "shutdown"       // the process stops, and the next one continues the run
	InterruptCrashLoop InterruptReason = "crash_loop"     // the process ended repeatedly with the same calls running, or could not store their outcomes
	InterruptTimeout   InterruptReason = "timeout"        // the timeout of the run has passed
	InterruptContext   InterruptReason = "context"        // the context given to the run ended
	InterruptParent    InterruptReason = "parent_timeout" // the attempt of the caller timed out
	InterruptGroup     InterruptReason = "group"          // the group ended before the branch, because another branch failed or was enough, or because the group's time had passed
	InterruptClosed    InterruptReason = "closed"         // the run was closed
	InterruptAwait     InterruptReason = "awaiting"       // a call waits for an answer, a signal or a time
	InterruptReplay    InterruptReason = "replay"         // the records cannot be used, or a repair has lost some
	InterruptDiverge   InterruptReason = "divergence"     // the program differs from its records
	InterruptStore     InterruptReason = "store"          // the run could no longer be stored

	InterruptFork InterruptReason = "fork" // a fork begins with its parent's records up to this one

	InterruptRetry InterruptReason = "retry" // the run failed, and its failed calls are made again when it is next opened

	InterruptLeaseLost InterruptReason = "lease_lost" // the process may no longer own the run
)

// ContinuesByItself reports whether a runner continues a run that was interrupted for this reason,
// because nobody decided that the run should stop. It returns true for [InterruptCancel] too,
// because the calls of a cancelled run are compensated before the run ends.
func (r InterruptReason) ContinuesByItself() bool {
	switch r {
	case InterruptCrash, InterruptShutdown, InterruptClosed, InterruptContext, InterruptStore, InterruptLeaseLost, InterruptCancel:
		return true
	}
	return false
}

// An InterruptedError is the error of a call that stopped without an outcome, and that continues
// when its run is resumed. It is not a failure, and the call is not retried because of it.
type InterruptedError struct {
	Reason  InterruptReason
	Message string // the explanation that By gave
	By      string // who interrupted; empty for Reprise itself
	Cause   error  // the error that caused the interrupt, such as the error of a context that ended; nil if there is none

	Question string    // the ID of the question that the call waits for, or empty
	Awaits   AwaitKind // what the call waits for; 0 if it does not wait

	// Origin is the part of the run that ended, if only a part was interrupted: an attempt that
	// timed out, or a group that ended early. The calls around this part continue. Origin is nil if
	// the whole run was interrupted.
	Origin Origin
}

// An Origin is a part of a run. Its path is the address of a group, or the path of an attempt, such
// as "assistant@2", as it appears in the addresses of the attempt's calls. The path is empty if it
// was not recorded.
type Origin interface{ Path() string }

// Error returns a line such as `interrupted (user) by ops: deploy`. If the call waits for a
// question, the line contains the question's ID: `interrupted (awaiting agent/refund?1): …`.
func (e *InterruptedError) Error() string {
	text := "interrupted"
	switch {
	case e.Reason != "" && e.Question != "":
		text += fmt.Sprintf(" (%s %s)", e.Reason, e.Question)
	case e.Reason != "":
		text += fmt.Sprintf(" (%s)", e.Reason)
	}
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Cause == nil {
		return text
	}
	cause := e.Cause.Error()
	if e.Reason == InterruptAwait { // the text already says that the call awaits an answer
		cause = strings.TrimPrefix(strings.TrimPrefix(cause, "awaiting an answer"), ": ")
	}
	if cause = strings.TrimSpace(cause); cause != "" {
		text += ": " + cause
	}
	return text
}

// Is matches [ErrInterrupted]. It also matches [context.Canceled] if the context given to the run
// or the call was cancelled, whatever the context's cause is.
func (e *InterruptedError) Is(target error) bool {
	switch target {
	case ErrInterrupted:
		return true
	case context.Canceled:
		return e.Reason == InterruptContext && !errors.Is(e.Cause, context.DeadlineExceeded)
	}
	return false
}

// Recorded returns e in the form that a record keeps. If the text of the cause can change, the
// cause is replaced by the result of [ErrorOf].
func (e *InterruptedError) Recorded() *InterruptedError {
	if e == nil || e.Cause == nil || isConstant(e.Cause) {
		return e
	}
	kept := *e
	kept.Cause = ErrorOf(e.Cause)
	return &kept
}

// Frozen returns a form of e for a record in memory, in which the text of the cause can no longer
// change. errors.Is and errors.As find the same errors in it as in e.
func (e *InterruptedError) Frozen() *InterruptedError {
	if e == nil || e.Cause == nil || isConstant(e.Cause) {
		return e
	}
	kept := *e
	kept.Cause = &frozenError{text: fmt.Sprint(e.Cause), err: e.Cause}
	return &kept
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Cause }
