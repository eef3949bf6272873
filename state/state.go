package state

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// An ExecutionState is one run: the execution of its root calls, with their history. It is safe for
// concurrent use. Create an ExecutionState with [New] or [Open], and close it after use. In a
// handler, [From] returns a [Handle] for the run.
type ExecutionState struct{ run *run }

// ErrClosed is returned by SetTimeout and Put after Close, and is wrapped by the
// *[core.InterruptedError] of a call that is made after Close.
var ErrClosed = errors.New("state: the run is closed")

// New begins a run in memory. It panics if an option is invalid.
func New(options ...Option) *ExecutionState {
	c, err := configure(options, inNew)
	if err != nil {
		panic(err) // a mistake in the program
	}
	r := newRun(c)
	r.begin(context.Background())
	return &ExecutionState{run: r}
}

// Context returns a context, derived from ctx, that contains the run. Calls made with this context,
// or with a context derived from it, belong to the run. When ctx ends, for whatever reason, these
// calls do not fail, but are interrupted. Root calls are numbered across all of the run's contexts.
// After an interrupt or Close, the returned context has ended.
//
// Context is for the program around the run. A handler makes its calls with the context that it was
// given.
func (st *ExecutionState) Context(ctx context.Context) context.Context { return st.run.context(ctx) }

// RunID returns the ID of the run.
func (st *ExecutionState) RunID() string {
	return st.run.settings.RunID
}

// Metadata returns the run's metadata. See [WithMetadata].
func (st *ExecutionState) Metadata() snapshot.Metadata {
	return st.run.config.metadata.Clone()
}

// Records returns the history so far, in sequence order and redacted as for publishers (see
// [WithRedaction]). A run with a store keeps little of its history in memory and reads the rest
// from the store. This works even after Close, as long as the store has the run. If reading fails,
// Records returns the error and the records that have not been stored yet.
func (st *ExecutionState) Records(ctx context.Context) ([]record.Record, error) {
	all, err := st.run.readRecords(ctx)
	if redact := st.run.config.redact; redact != nil {
		all = slices.Clone(all) // the store may share the slice
		for i := range all {
			all[i] = all[i].Redacted(redact)
		}
	}
	return all, err
}

// Status returns the status of the run: running until Close, and after that how it ended.
func (st *ExecutionState) Status() snapshot.Status {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	return st.run.status()
}

// Log records a line about the run itself. metadata may be nil; it is copied. After Close, the line
// is dropped. For lines that belong to calls, see [Handle.Log] and [NewLogHandler].
func (st *ExecutionState) Log(severity slog.Level, message string, metadata map[string]any) {
	st.run.log(nil, severity, message, metadata)
}

// Interrupt stops the run: it cancels the contexts of running handlers, with the interrupt as the
// cause, and ends the waits for retries. Calls return a *[core.InterruptedError] that contains the
// reason, who interrupted the run, and why. An empty reason means [record.InterruptUser]. Interrupt
// returns false and changes nothing if the run was already interrupted or Close has begun.
//
// After a cancel, an interrupt with the reason [record.InterruptShutdown] stops the compensations
// that Close makes. The cancel is not lost: the run stays interrupted, and the next opening makes
// the remaining compensations.
func (st *ExecutionState) Interrupt(stop snapshot.Stop) bool {
	return st.run.interrupt(interruptOf(stop))
}

// interruptOf returns the interrupt that a Stop asks for.
func interruptOf(stop snapshot.Stop) *core.InterruptedError {
	return &core.InterruptedError{Reason: cmp.Or(stop.Reason, record.InterruptUser), By: stop.By, Message: stop.Message}
}

// Interrupted returns the run's interrupt, or nil if there was none.
func (st *ExecutionState) Interrupted() *core.InterruptedError {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	return st.run.life.interrupted
}

// SetTimeout interrupts the run after d, counted from now, with the reason
// [record.InterruptTimeout]. It replaces an earlier timeout. d must be positive.
func (st *ExecutionState) SetTimeout(d time.Duration) error {
	return st.run.setTimeout(d)
}

// CancelTimeout removes the timeout set by SetTimeout. It reports whether there was a timeout that
// had not yet expired.
func (st *ExecutionState) CancelTimeout() bool {
	return st.run.cancelTimeout()
}

// Close ends the contexts that Context returned, waits up to a tenth of a second for calls that are
// still running, records the end of the run, and returns when everything has been published. If the
// run was cancelled, Close first compensates its calls, which may take longer; see
// [ExecutionState.Interrupt] for how to stop that. Later calls and records are refused with
// [ErrClosed]. Close leaves the publishers open. Closing twice is allowed. A publisher must not
// call Close.
//
// If all root calls of this opening have succeeded, the run is completed, even if the program would
// have made more root calls; see [WithFurtherCalls]. An error from Close means that records or the
// end of the run could not be stored. [ExecutionState.Status] tells how the run ended.
func (st *ExecutionState) Close() error {
	return st.run.close()
}
