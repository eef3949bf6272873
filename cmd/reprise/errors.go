package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Exit codes. The code for an interrupt is the one that shells use for Ctrl-C.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// A usageError reports invalid arguments or flags.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// An outputError reports output that could not be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return fmt.Sprintf("write the output: %v", e.err) }

func (e *outputError) Unwrap() error { return e.err }

// errReported makes the command fail without an error message, because its output already
// describes the problem.
var errReported = errors.New("reported")

// A hintError is an error with a hint about what to do.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return message(e.err) + "; " + e.hint }

func (e *hintError) Unwrap() error { return e.err }

// report writes err to stderr, unless it has been reported, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	code := a.exitCode(ctx, err)
	switch {
	case err == nil, errors.Is(err, errReported), isClosedOutput(err):
		return code
	case code == exitInterrupted:
		err = errors.New("interrupted")
	}
	a.printError(code, err)
	return code
}

// printError writes err to stderr. code is the exit code for err.
func (a *app) printError(code int, err error) {
	text := printable(oneLine(message(err)))
	if !a.json {
		fmt.Fprintf(a.stderr, "reprise: %s\n", text)
		return
	}
	report := struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{text, kindOf(code, err)}
	data, err := json.Marshal(report)
	if err == nil {
		fmt.Fprintf(a.stderr, "%s\n", data)
	}
}

func (a *app) exitCode(ctx context.Context, err error) int {
	var (
		usage  *usageError
		output *outputError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &output):
		return exitFailure
	case !a.parsed, errors.As(err, &usage):
		return exitUsage
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))):
		return exitInterrupted
	}
	return exitFailure
}

// isClosedOutput reports whether the reader of the output has closed it, as head does once
// it has read enough lines. That is not a failure.
func isClosedOutput(err error) bool {
	var output *outputError
	return errors.As(err, &output) && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EBADF))
}

// message returns the text of an error without package prefixes. It also removes the prefixes of
// the errors that err wraps or joins.
func message(err error) string {
	text := err.Error()
	for _, prefix := range []string{"snapshot: ", "state: ", "core: "} {
		text = strings.TrimPrefix(text, prefix)
		for _, before := range []string{": ", "; ", "\n"} {
			text = strings.ReplaceAll(text, before+prefix, before)
		}
	}
	return text
}

// flagMessage returns the text of an error about a flag, without the names of Go functions.
func flagMessage(err error) string {
	text := message(err)
	for function, want := range map[string]string{"strconv.ParseInt": "want a whole number", "strconv.ParseBool": "want true or false"} {
		if before, rest, found := strings.Cut(text, ": "+function+": "); found {
			if strings.HasSuffix(rest, "value out of range") {
				want = "the number is too large or too small"
			}
			return before + ": " + want
		}
	}
	return strings.Replace(text, ": time: ", ": ", 1)
}

// oneLine returns text as a single line. Joined errors and cobra's suggestions have several lines.
func oneLine(text string) string {
	if text, names, ok := strings.Cut(text, "\n\nDid you mean this?\n"); ok {
		return text + "; did you mean " + strings.Join(strings.Fields(names), " or ") + "?"
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// kindOf returns the code that identifies an error in JSON.
func kindOf(code int, err error) string {
	var lost *lostError
	switch {
	case code == exitUsage:
		return "usage"
	case code == exitInterrupted:
		return "interrupted"
	case errors.Is(err, snapshot.ErrNotFound):
		return "not_found"
	case errors.Is(err, snapshot.ErrLocked):
		return "locked"
	case errors.Is(err, snapshot.ErrCorrupt):
		return "damaged"
	case errors.Is(err, snapshot.ErrFormat):
		return "format"
	case errors.Is(err, state.ErrEnded):
		return "ended"
	case errors.Is(err, state.ErrCancelled):
		return "cancelled"
	case errors.Is(err, state.ErrNotRunning):
		return "not_running"
	case errors.As(err, &lost):
		return "lost"
	}
	return "failure"
}

// explain adds a hint to an error about a run.
func (a *app) explain(runID string, err error) error {
	var (
		locked *snapshot.LockedError
		damage *snapshot.CorruptError
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTDIR) && isFile(filepath.Join(a.runsDir(), runID)):
		return fmt.Errorf("%s in %s is not a stored run", runID, a.runsDir())
	case errors.Is(err, snapshot.ErrNotFound):
		return &notFoundError{runID, a.dir, a.command}
	case errors.As(err, &locked):
		return &hintError{locked, fmt.Sprintf("it can still be read; to change it, wait until that program has closed it, or stop it with `%s interrupt %s`", a.command, runID)}
	case errors.As(err, &damage):
		return &hintError{damage, fmt.Sprintf("`%s repair %s` saves what can be read", a.command, runID)}
	}
	return err
}

func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && !info.IsDir()
}

// damageOf returns the [snapshot.CorruptError] in err, or err itself if there is none. It leaves
// out the library's advice, which is meant for programs.
func damageOf(err error) error {
	var damage *snapshot.CorruptError
	if errors.As(err, &damage) {
		return damage
	}
	return err
}

// A notFoundError reports a run that is not in the store.
type notFoundError struct{ runID, dir, command string }

func (e *notFoundError) Error() string {
	return fmt.Sprintf("there is no run %s in %s; `%s runs` lists the runs", e.runID, e.dir, e.command)
}

func (e *notFoundError) Unwrap() error { return snapshot.ErrNotFound }
