package state

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// An ExecutionState is one run: the execution of its root calls, with their
// history. It is safe for many goroutines. Make one with [New] or [Open], and
// close it. A handler has its run from [From].
type ExecutionState struct{ run *run }

// ErrClosed is returned for what comes after Close.
var ErrClosed = errors.New("state: the run is closed")

// New begins a run in memory. It panics if an option is invalid, and says what
// is allowed.
func New(options ...Option) *ExecutionState {
	c := configure(options)
	c.must(c.check(inNew))
	return &ExecutionState{run: newRun(c)}
}

// Context returns ctx with the run in it: calls that get the result, or what
// is derived from it, belong to the run. When ctx ends, for whatever reason,
// its calls are interrupted, not failed. Root calls are numbered over all
// contexts of the run. After an interrupt or Close the result has ended.
//
// It is for the program around the run; a handler makes its calls with the
// context that it was given.
func (st *ExecutionState) Context(ctx context.Context) context.Context { return st.run.context(ctx) }

// RunID identifies the run.
func (st *ExecutionState) RunID() string {
	return st.run.settings.RunID
}

// Metadata is what the run was given by [WithMetadata].
func (st *ExecutionState) Metadata() Metadata {
	return st.run.metadata.Clone()
}

// Records returns the history so far, in sequence order, as publishers get it
// (see [WithRedaction]). A run with a store keeps little of it in memory and
// reads it from there, also after Close, for as long as the store has the run.
// Where that fails, it returns the records that the store was not given yet, and
// the error.
func (st *ExecutionState) Records(ctx context.Context) ([]record.Record, error) {
	all, err := st.run.readRecords(ctx)
	if redact := st.run.redact; redact != nil {
		all = slices.Clone(all) // which the store may have too
		for i := range all {
			all[i] = all[i].Redacted(redact)
		}
	}
	return all, err
}

// Status says how the run stands: running until Close, and then what became
// of it.
func (st *ExecutionState) Status() Status {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	return st.run.status()
}

// Stats counts what is not in the records.
func (st *ExecutionState) Stats() Stats {
	return st.run.stats()
}

// Stats counts what is not in the records of a run.
type Stats struct {
	Records         uint64 // the Seq of the last record
	Abandoned       int64  // attempts that did not return when their time was over
	LateReturns     int64  // those of them that returned after all, to nobody
	PublisherPanics int64  // panics of publishers, which the run ignores
}

// Log records a line about the run itself. Metadata may be nil; it is copied.
// After Close the line is dropped. See [Handle.Log] and [NewLogHandler] for
// lines of calls.
func (st *ExecutionState) Log(severity slog.Level, message string, metadata map[string]any) {
	st.run.log(nil, severity, message, metadata)
}

// Interrupt stops the run: it cancels the contexts of running handlers, with
// the interrupt as their cause, and wakes every waiting retry. Calls return a
// *[core.InterruptedError] with what is given here: the reason, who asks, and
// why in their words. It reports whether it was the first to interrupt; later
// ones change nothing.
func (st *ExecutionState) Interrupt(reason record.InterruptReason, by, message string) bool {
	return st.run.interrupt(&core.InterruptedError{Reason: reason, Message: message, By: by})
}

// Interrupted returns the interrupt of the run, nil while there was none.
func (st *ExecutionState) Interrupted() *core.InterruptedError {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	return st.run.interrupted
}

// SetTimeout interrupts the run with reason [record.InterruptTimeout] after d,
// counted from now. It replaces a timeout that was set before. d must be above
// zero.
func (st *ExecutionState) SetTimeout(d time.Duration) error {
	return st.run.setTimeout(d)
}

// CancelTimeout takes back SetTimeout. It reports whether it came in time.
func (st *ExecutionState) CancelTimeout() bool {
	return st.run.cancelTimeout()
}

// Close ends what Context derived, gives calls that are still under way a
// tenth of a second to end, records the end of the run, and returns when
// everything is published. Later calls and records are refused with
// [ErrClosed]. It leaves the publishers open. Closing twice is fine. It must
// not be called by a publisher.
func (st *ExecutionState) Close() error {
	return st.run.close()
}
