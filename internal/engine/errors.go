package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/mark"
	"github.com/reprise-go/reprise/record"
)

// A CallError reports that a call failed. errors.Is matches it with the sentinel of its Reason
// (such as [ErrExhausted]), and with everything that the handler's last error matches. errors.As
// finds in it whatever it would find in the handler's last error.
//
// The text of a CallError contains at most 4,000 characters ([record.MessageLimit]) of Err's text,
// both live and after a resume. The records contain the same part of Err's text. They also contain
// the values in Err whose types are in the standard library or were registered with
// [record.RegisterErrorType]. A value of more than 64 KB is left out, and a warning is recorded
// (see [record.Error]).
//
// If a failed run is opened again and its last root call returns the recorded failure, the text
// also says so, and explains how to make the failed calls again. No record contains this addition.
type CallError struct {
	Address  record.Address // zero outside a run
	Name     string         // of the actor
	Stage    record.Stage   // where the last attempt failed
	Attempts int            // number of attempts made
	Reason   record.Reason
	Detail   string // the limit that the call reached; usually empty
	Err      error  // the last error of the handler, a condition or the storage; never nil

	note string // what a person must know about an error from a resumed run; never recorded
}

// Error returns a line such as `assistant/fetch: exhausted after 3 attempts: connection refused`.
// If a call is allowed only one attempt, the line does not say "exhausted". If a call failed
// because a call inside it failed, the line is that of the inner call, so that nothing is repeated.
// If the run had already failed when it was opened, the line ends by saying how to make the failed
// calls again.
func (e *CallError) Error() string {
	if e.note != "" {
		return e.text() + " " + e.note
	}
	return e.text()
}

// text returns the text that the error had when the call failed.
func (e *CallError) text() string {
	text := record.Truncate(fmt.Sprint(e.Err), record.MessageLimit)
	reason := strings.ReplaceAll(e.Reason.String(), "_", " ")
	isOnly := e.Attempts <= 1 && (e.Reason == record.ReasonExhausted || e.isReasonInside())
	omitsReason := isOnly || e.Reason == record.ReasonPanic || beginsWith(text, reason) || e.isOpenInside()
	if omitsReason && e.isCallInside(text) {
		return text
	}
	var b strings.Builder
	if e.Address.IsZero() {
		b.WriteString(e.Name)
	} else {
		b.Write(e.Address.AppendTo(nil))
	}
	if !omitsReason {
		b.WriteString(": " + reason)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " after %d attempts", e.Attempts)
	}
	if e.namesStage() {
		fmt.Fprintf(&b, " (%s)", e.Stage)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	b.WriteString(": " + text)
	return b.String()
}

// beginsWith reports whether text equals words, or begins with words followed by a comma, a colon
// or a semicolon.
func beginsWith(text, words string) bool {
	rest, ok := strings.CutPrefix(text, words)
	return ok && (rest == "" || strings.ContainsRune(",:;", rune(rest[0])))
}

// isReasonInside reports whether e.Err is the failure of another call for the same reason. If so,
// the text of e.Err already names the reason.
func (e *CallError) isReasonInside() (is bool) {
	defer func() { _ = recover() }() // a method of the user's errors may panic
	var inside *CallError
	return errors.As(e.Err, &inside) && inside != nil && inside.Reason == e.Reason
}

// isOpenInside reports whether the error says that a call inside is in doubt or was not executed.
// In that case, the word "permanent" would be misleading.
func (e *CallError) isOpenInside() bool {
	return e.Reason == record.ReasonPermanent && (safeIs(e.Err, ErrInDoubt) || safeIs(e.Err, ErrNotRecorded) || safeIs(e.Err, ErrNotStored))
}

// isCallInside reports whether text, the text of Err, begins with the address of a
// call inside this one, and there is nothing to add about this call.
func (e *CallError) isCallInside(text string) bool {
	if e.Address.IsZero() || e.Attempts > 1 || e.namesStage() || e.Detail != "" {
		return false
	}
	rest, ok := strings.CutPrefix(text, e.Address.String())
	return ok && strings.HasPrefix(rest, "/")
}

// namesStage reports whether the text must name the stage because the reason does
// not imply it.
func (e *CallError) namesStage() bool {
	switch e.Stage {
	case record.StageNone, record.StageEntry, record.StageHandler:
		return false
	}
	return e.Reason != record.ReasonPrecondition && e.Reason != record.ReasonCondition
}

// Unwrap returns the last error of the attempt.
func (e *CallError) Unwrap() error { return e.Err }

// Is matches the sentinels of the reason and of the stage, and the context
// error that corresponds to a deadline or a cancellation.
func (e *CallError) Is(target error) bool {
	switch target {
	case nil:
		return false
	case sentinelOf(e.Reason):
		return true
	case context.DeadlineExceeded:
		return e.Reason == record.ReasonDeadline || e.Reason == record.ReasonRetryTimeout
	case context.Canceled:
		return e.Reason == record.ReasonContextCanceled
	case ErrCondition:
		return e.Stage == record.StagePostcondition
	case ErrStorage:
		return e.Stage == record.StageArtifact
	}
	return false
}

// newAfterError adds to err the earlier error before, which may be nil. errors.Is and errors.As
// find both.
func newAfterError(err, before error) error {
	if before == nil {
		return err
	}
	return &afterError{err, before}
}

type afterError struct{ err, before error }

func (e *afterError) Error() string { return fmt.Sprintf("%v; before that: %v", e.err, e.before) }

func (e *afterError) Unwrap() []error { return []error{e.err, e.before} }

// addBranchErrors adds the error of a group's handler, which contains the errors of the branches, to
// the failure that is recorded for the group.
func (e *CallError) addBranchErrors(err error) {
	if e.Reason == record.ReasonDeadline || e.Reason == record.ReasonContextCanceled {
		// The group was ended by a context that the program derived. When the run is resumed, that
		// context may end at another time or not at all, so the handler's own error may differ.
		err = &branchesError{recorded: e.Err, branches: err}
	}
	e.Err = err
}

// branchesError is a recorded error that also wraps the errors of the branches.
type branchesError struct{ recorded, branches error }

func (e *branchesError) Error() string { return e.recorded.Error() }

func (e *branchesError) Unwrap() []error { return []error{e.recorded, e.branches} }

// A PanicError is the error that results from a panic in a handler or a condition. It is never
// retried.
type PanicError struct {
	Value any    // after a resume, its text, unless it is a number or a bool
	Stack []byte `json:"-"` // stack of the goroutine at the panic; not recorded
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Class returns [record.ClassPanic].
func (e *PanicError) Class() record.Class { return record.ClassPanic }

// Is matches [ErrPanic].
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// A TimeoutError is the error of an attempt that took longer than its limit.
type TimeoutError struct {
	Limit time.Duration // timeout of the attempt
	Err   error         // error returned by the handler; nil if the attempt was abandoned
}

// Error returns a line with the limit and the handler's error. It leaves out an error that only
// reports the end of the context.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("attempt timed out after %v", e.Limit)
	if e.Err != nil && !errors.Is(e.Err, context.DeadlineExceeded) {
		text += fmt.Sprint(": ", e.Err)
	}
	return text
}

// Unwrap returns the handler's error.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Is matches context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Class returns [record.ClassTimeout].
func (e *TimeoutError) Class() record.Class { return record.ClassTimeout }

// Timeout returns true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// settledError is the error of a failed attempt whose handler returned an error that is marked with
// core.InDoubt, or that comes from a suspended call inside the attempt. It has the same text, but
// it is not a suspension, and the mark does not affect the surrounding calls: errors.Is never finds
// ErrInterrupted in a failure.
type settledError struct{ err error }

func (e *settledError) Error() string { return e.err.Error() }

func (e *settledError) Is(target error) bool {
	return target != record.ErrInterrupted && errors.Is(e.err, target)
}

func (e *settledError) As(target any) bool {
	_, suspension := target.(**InterruptedError)
	return !suspension && errors.As(e.err, target)
}

// classedError is an error with an explicit class.
type classedError struct {
	error
	class record.Class
}

func (e *classedError) Unwrap() error       { return e.error }
func (e *classedError) Class() record.Class { return e.class }

// markPermanent marks err so that it is never retried.
func markPermanent(err error) error { return &mark.Permanent{Err: err} }

// ErrAttemptOver is returned to code that is still running inside an attempt after its handler has
// returned or was abandoned. Such code can no longer make calls, or record or store anything.
var ErrAttemptOver = errors.New("core: the attempt is over")

// ErrNoRun is returned if a run is required but the context has none.
var ErrNoRun = errors.New("core: the context does not belong to a run; create one with st := state.New(), and use st.Context(ctx)")

var (
	// errGoexit is the error reported if a handler calls runtime.Goexit.
	errGoexit = errors.New("the handler ended its goroutine without returning (runtime.Goexit, or t.FailNow outside the test's goroutine)")

	// errGoexitInError reports that a method of the handler's error called runtime.Goexit.
	errGoexitInError = errors.New("a method of the error that the handler returned ended the goroutine (runtime.Goexit, or t.FailNow outside the test's goroutine)")
)

// errUnsatisfied is the failure of an attempt that succeeded, but for which RetryWhen returned
// true.
var errUnsatisfied = errors.New("RetryWhen asks for another attempt")
