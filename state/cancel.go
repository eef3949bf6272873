package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Errors from cancelling a run and from resuming a cancelled run. Test for them with errors.Is.
var (
	// ErrCancelled is wrapped by the errors of functions that cannot continue or stop a run because
	// it was cancelled. errors.As finds the *[CancelledError].
	ErrCancelled = errors.New("state: the run was cancelled")

	// ErrEnded is wrapped by the error for a request that is refused because the run has completed
	// or failed. The requests are [Interrupt], [Cancel], [AwaitStop], [Signal], [Resume], [Retry]
	// of a run that has completed, and a root call that is not in the run's records.
	ErrEnded = errors.New("it has ended")
)

// A CancelledError reports that a run was cancelled. It wraps [ErrCancelled].
type CancelledError struct {
	RunID   string
	By      string // who cancelled it; empty if unknown
	Message string // why; empty if no reason was given
}

// Error returns a line such as `run r was cancelled by ops: wrong customer`.
func (e *CancelledError) Error() string {
	text := "run " + e.RunID + " was cancelled"
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap returns ErrCancelled.
func (e *CancelledError) Unwrap() error { return ErrCancelled }

// cancelCause wraps a CancelledError that is the cause of an interrupt. Its text is short because
// the interrupt's text already says who cancelled the run, and why.
type cancelCause struct{ cancelled CancelledError }

func (e *cancelCause) Error() string { return "the run was cancelled" }
func (e *cancelCause) Unwrap() error { return &e.cancelled }

func cancelledError(runID string, stop snapshot.Stop) *CancelledError {
	return &CancelledError{RunID: runID, By: stop.By, Message: stop.Message}
}

// Cancel ends the run for good. It interrupts the run as [ExecutionState.Interrupt] does, with the
// reason [record.InterruptCancel], even if the run was interrupted before. The errors of the run's
// calls then wrap [ErrCancelled], even if another process cancelled the run. After Close, the run's
// status is cancelled, and [Open] refuses it; its records are kept. Close compensates the calls
// that completed and the calls in doubt, if their actors have a compensation for that case: see
// [core.Definition.Compensate] and [core.Definition.CompensateInDoubt]. Cancel returns false if the
// run was cancelled before, if it had ended before it was opened, or if Close has begun. The reason
// in stop is ignored.
func (st *ExecutionState) Cancel(stop snapshot.Stop) bool {
	stop.Reason = record.InterruptCancel
	return st.Interrupt(stop)
}

// Cancel ends a stored run for good, from any process. The run's status becomes cancelled, and from
// then on [Open] refuses the run with [ErrCancelled]. stop says who cancels the run, and why; its
// reason is ignored. If a process has the run open, that process stops the run as for [Interrupt],
// and the run is cancelled when the process closes it. If the process ends without closing the run,
// the next opening cancels the run and is refused. Cancel returns when the request is durable.
// Cancelling twice is allowed; the second cancel has no effect.
//
// If calls of the run must be compensated, the run stays interrupted until it is opened by a runner
// or by a process that has their compensations (see [WithCompensations]). While a compensation
// waits for an answer or for a time, the run is paused.
//
// If the run has completed or failed, the error is [ErrEnded] with the run's status, and the run
// does not change.
func Cancel(ctx context.Context, store snapshot.Store, runID string, stop snapshot.Stop) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := cancel(ctx, store, runID, stop); err != nil {
		return fmt.Errorf("state: cancel run %s: %w", runID, err)
	}
	return nil
}

func cancel(ctx context.Context, store snapshot.Store, runID string, stop snapshot.Stop) error {
	found, err := store.Info(ctx, runID)
	if err != nil {
		return err
	}
	if found.Status == snapshot.StatusCancelled {
		return nil
	}
	if err := checkNotEnded(&found); err != nil {
		return err
	}
	stop.Reason = record.InterruptCancel
	e := interruptOf(stop)
	m := snapshot.Message{Record: record.Record{Time: now(), Kind: record.KindRun, Status: record.StatusCancelled, Err: e}}
	if err := store.Post(ctx, runID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
		return err
	}
	return settleCancel(ctx, store, runID)
}

// checkNotEnded returns an error for a run that has an outcome.
func checkNotEnded(found *snapshot.Info) error {
	if found.Status == snapshot.StatusCompleted || found.Status == snapshot.StatusFailed {
		return fmt.Errorf("%w: it is %s", ErrEnded, found.Status)
	}
	return nil
}

// alsoEnded returns err, the error with which a run refuses a request. If the run has ended, the
// result also wraps ErrEnded or ErrCancelled.
func alsoEnded(err error, found *snapshot.Info) error {
	if ended := refuseEnded(found); ended != nil {
		return &endedError{err, ended}
	}
	return err
}

type endedError struct{ err, ended error }

func (e *endedError) Error() string   { return e.err.Error() }
func (e *endedError) Unwrap() []error { return []error{e.err, e.ended} }

// settleCancel marks a run as cancelled after a cancel was posted, if no process has the run open.
// Otherwise the process that has the run open does that, when it reads the inbox or after it has
// closed the run.
func settleCancel(ctx context.Context, store snapshot.Store, runID string) error {
	journal, err := store.Open(ctx, runID, snapshot.OpenOptions{})
	if errors.Is(err, snapshot.ErrLocked) {
		return nil
	} else if err != nil {
		return err
	}
	found := journal.Restored()
	err = refuseCancelled(ctx, store, journal)
	var cancelled *CancelledError
	var uncompensated *uncompensatedError
	switch {
	case errors.As(err, &uncompensated) && found.Stop.Reason == record.InterruptCancel: // a compensation waits
		return giveBack(ctx, journal)
	case errors.As(err, &uncompensated): // a process that has the compensations cancels the run
		summary := found.Summary
		summary.Asking, summary.Questions = 0, nil
		return closeJournal(ctx, journal, snapshot.End{Status: snapshot.StatusInterrupted, Stop: uncompensated.cancel, Usage: found.Usage, Summary: summary})
	case errors.As(err, &cancelled):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(checkNotEnded(&found.Info), giveBack(ctx, journal)) // the run ended before the cancel
}

// refuseCancelled closes the journal and returns the *CancelledError if the run was cancelled or a
// cancellation is pending. If calls must be compensated first, it returns an *uncompensatedError, and
// the journal stays open. A cancellation that arrived after the run's outcome is removed.
func refuseCancelled(ctx context.Context, store snapshot.Store, journal snapshot.Journal) error {
	found := journal.Restored()
	restoreOutcome(found)
	waiting, err := store.Messages(ctx, found.RunID)
	if err != nil {
		waiting = nil // the run opens without its inbox, and reads it later
	}
	var cancel *snapshot.Message
	for i := range waiting {
		if waiting[i].IsCancel() {
			cancel = &waiting[i]
		}
	}
	switch {
	case found.Status == snapshot.StatusCancelled:
		err = errors.Join(cancelledError(found.RunID, found.Stop), giveBack(ctx, journal))
	case cancel == nil:
		return nil
	case checkNotEnded(&found.Info) == nil:
		if undone, err := isCompensated(found); err != nil {
			return errors.Join(err, giveBack(ctx, journal))
		} else if !undone {
			return &uncompensatedError{stopOf(cancel.Record.Interrupt())} // the journal stays open
		}
		if err := endCancelled(ctx, store, journal, cancel); err != nil {
			return err
		}
		err = cancelledError(found.RunID, stopOf(cancel.Record.Interrupt()))
	}
	if cancel != nil {
		err = errors.Join(err, store.Remove(context.WithoutCancel(ctx), found.RunID, cancel.ID()))
	}
	return err
}

// dropMoot removes from the summary of a cancelled run the questions that no longer need an answer.
func dropMoot(s *snapshot.Summary, l *record.Ledger) {
	s.Asking, s.Questions = 0, slices.DeleteFunc(s.Questions, func(q snapshot.OpenQuestion) bool { return !isOfCompensation(q.ID) })
	for _, q := range l.Questions(false) {
		if isOfCompensation(q.ID) {
			s.Asking++
		}
	}
}

// isOfCompensation reports whether a compensation, or a call inside a compensation, asked the
// question.
func isOfCompensation(question string) bool { return strings.Contains(question, "@undo/") }

// endCancelled records that the run was cancelled, and closes the run. If the signal to the run's
// caller cannot be sent because the store is unreachable, the run does not change. If it cannot be
// sent for another reason, such as damaged records, the run is cancelled all the same, and the
// error is returned.
func endCancelled(ctx context.Context, store snapshot.Store, journal snapshot.Journal, m *snapshot.Message) error {
	found := journal.Restored()
	untold := tellCancelled(ctx, store, &found.Info)
	if snapshot.IsTemporary(untold) {
		return errors.Join(untold, giveBack(ctx, journal))
	}
	rec := m.Record
	rec.RunID, rec.Seq, rec.Generation = found.RunID, uint64(found.Len())+1, found.Generation
	rec.Name = found.Metadata.Pipeline
	if err := journal.Append(rec); err != nil {
		return errors.Join(err, giveBack(ctx, journal))
	}
	usage, summary := found.Usage, found.Summary
	if whole, err := found.Snapshot(); err == nil { // after a crash, the records are more complete than the Info
		l := ledgerOf(whole.Records)
		usage, summary = l.Counts().Usage, snapshot.SummaryOf(l)
	}
	summary.Asking, summary.Questions = 0, nil // a cancelled run waits for no answer
	end := snapshot.End{Status: snapshot.StatusCancelled, Stop: stopOf(rec.Interrupt()), Usage: usage, Summary: summary}
	return errors.Join(closeJournal(ctx, journal, end), untold)
}

// errors.Is also finds these errors in the errors that were recorded for calls.
func init() {
	record.RegisterError("state.ErrCompensated", ErrCompensated)
	record.RegisterError("state.ErrCancelled", ErrCancelled)
	record.RegisterError("state.ErrEnded", ErrEnded)
	record.RegisterError("state.ErrNotAsked", ErrNotAsked)
	record.RegisterError("state.ErrAnswered", ErrAnswered)
	record.RegisterError("state.ErrStore", ErrStore)
	record.RegisterError("state.ErrNotRunning", ErrNotRunning)
	record.RegisterError("state.ErrClosed", ErrClosed)
	record.RegisterError("state.ErrNotEnded", ErrNotEnded)
	record.RegisterError("state.ErrChoice", ErrSelection) // the name that stored records contain
	record.RegisterError("state.ErrNotFailed", ErrNotFailed)
	record.RegisterError("state.ErrNotInterrupted", ErrNotInterrupted)
	record.RegisterError("state.ErrNoProgram", ErrNoProgram)
	record.RegisterErrorType[*CancelledError]("state.CancelledError")
	record.RegisterError("state.ErrEffects", ErrEffects)
	record.RegisterErrorType[*EffectsError]("state.EffectsError")
	record.RegisterErrorType[*FailedError]("state.FailedError")
}
