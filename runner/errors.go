package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Errors of runners, found by errors.Is.
var (
	// ErrNotRegistered is returned if a program, or the requested version of it, is not registered.
	// errors.As finds a *[NotRegisteredError] in the error.
	ErrNotRegistered = errors.New("runner: the program is not registered")

	// ErrInput is returned if an input does not fit its program. errors.As finds an *[InputError]
	// in the error.
	ErrInput = errors.New("runner: the input does not fit the program")

	// ErrStarted is returned if a run with the same ID was started before with another program or
	// another input.
	ErrStarted = errors.New("runner: another run with that ID was started")

	// ErrCrashLoop is returned by Wait and Result if the run was set aside because its process
	// crashed repeatedly, or because its records could not be stored. The run continues when it
	// is resumed.
	ErrCrashLoop = errors.New("runner: the run was set aside after crashes")

	// ErrTooMany is returned for a start that would exceed Options.MaxQueued or
	// MaxQueuedPerPrincipal. Nothing is stored; the start can be tried again later.
	ErrTooMany = errors.New("runner: too many runs wait")

	// ErrStopping is returned for a start after the context of Serve has ended. From then on,
	// errors.Is also finds it in the error of [Runner.Ready].
	ErrStopping = errors.New("runner: the runner is stopping")

	// ErrQueueClosed is returned by a [Queue] that can hand out no more runs, such as a queue whose
	// connection was closed for good. It is then also returned by Serve, which stops. A supervisor
	// should restart the process.
	ErrQueueClosed = errors.New("runner: the queue is closed")

	// ErrNotStopped is returned by Serve if some runs did not stop when they were interrupted.
	ErrNotStopped = errors.New("runner: runs did not stop when they were interrupted")
)

// A NotRegisteredError reports that a program is not registered. It matches ErrNotRegistered.
type NotRegisteredError struct {
	Program, Version string   // an empty version stands for the current version
	Registered       []string // names and versions
}

// Error returns a message that lists the registered programs.
func (e *NotRegisteredError) Error() string {
	what := fmt.Sprintf("program %q", e.Program)
	if e.Version != "" {
		what += fmt.Sprintf(", version %q,", e.Version)
	}
	if len(e.Registered) == 0 {
		return "runner: " + what + " is not registered; no program is"
	}
	return "runner: " + what + " is not registered; want one of " + strings.Join(e.Registered, ", ")
}

// Unwrap returns ErrNotRegistered.
func (e *NotRegisteredError) Unwrap() error { return ErrNotRegistered }

// An InputError reports that an input does not fit its program. It matches ErrInput.
type InputError struct {
	Program, Version string
	Err              error // names the field if it is known
}

// Error returns a message that says what is wrong.
func (e *InputError) Error() string {
	return fmt.Sprintf("runner: the input does not fit program %q, version %s: %v", e.Program, e.Version, e.Err)
}

// Unwrap returns ErrInput and e.Err.
func (e *InputError) Unwrap() []error { return []error{ErrInput, e.Err} }

// Let errors.Is and errors.As find these errors in an error that was restored from a record.
func init() {
	record.RegisterError("runner.ErrNotRegistered", ErrNotRegistered)
	record.RegisterError("runner.ErrInput", ErrInput)
	record.RegisterError("runner.ErrStarted", ErrStarted)
	record.RegisterError("runner.ErrCrashLoop", ErrCrashLoop)
	record.RegisterError("runner.ErrNotStopped", ErrNotStopped)
	record.RegisterError("runner.ErrTooMany", ErrTooMany)
	record.RegisterError("runner.ErrStopping", ErrStopping)
	record.RegisterError("runner.ErrQueueClosed", ErrQueueClosed)
	record.RegisterError("runner.ErrNotReady", ErrNotReady)
	record.RegisterError("runner.ErrClock", ErrClock)
	record.RegisterErrorType[*NotRegisteredError]("runner.NotRegisteredError")
	record.RegisterErrorType[*InputError]("runner.InputError")
}

// uncompensatedError says which calls of a run still have their effects because their compensations
// failed. Its text does not say why they failed, since the reasons may have to be redacted.
type uncompensatedError struct{ failed *core.CompensationError }

func (e *uncompensatedError) Error() string {
	calls := make([]string, len(e.failed.Failed))
	for i, f := range e.failed.Failed {
		calls[i] = f.Address.String()
	}
	return "runner: not compensated: " + strings.Join(calls, ", ") + "; the effects of these calls remain"
}

func (e *uncompensatedError) Unwrap() error { return e.failed }
