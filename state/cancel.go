package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Errors of cancelling a run, and of resuming a cancelled one, found by
// errors.Is.
var (
	// ErrCancelled is found in the error of functions that would continue or stop a run
	// that was cancelled. errors.As finds the *[CancelledError].
	ErrCancelled = errors.New("state: the run was cancelled")

	// ErrEnded is found in the error of a request that a run refuses because it has completed or
	// failed: [Interrupt], [Cancel], [AwaitStop], [Signal], [Resume], [Retry] of a run that has
	// completed, or a root call that is not in its records.
	ErrEnded = errors.New("it has ended")
)

// A CancelledError says that a run was cancelled. It is [ErrCancelled].
type CancelledError struct {
	RunID   string
	By      string // who cancelled it; empty if it is not known
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

// cancelCause is a CancelledError as the cause of an interrupt. The text of the interrupt already
// says who cancelled the run, and why.
type cancelCause struct{ cancelled CancelledError }

func (e *cancelCause) Error() string { return "the run was cancelled" }
func (e *cancelCause) Unwrap() error { return &e.cancelled }

func cancelledError(runID string, stop snapshot.Stop) *CancelledError {
	return &CancelledError{RunID: runID, By: stop.By, Message: stop.Message}
}

// Cancel ends the run for good. It interrupts the run as [ExecutionState.Interrupt] does, with the
// reason [record.InterruptCancel], even if it was interrupted before. errors.Is finds
// [ErrCancelled] in the errors of its calls, even if another process cancelled the run. After Close
// the status is cancelled, and [Open] refuses the run. Its records stay. Close compensates the
// calls that completed, and the calls in doubt whose actors have a compensation for that: see
// [core.Definition.Compensate] and [core.Definition.CompensateInDoubt]. Cancel reports whether it
// was the first to cancel the run, and came before Close. The reason of the Stop is ignored.
func (st *ExecutionState) Cancel(stop snapshot.Stop) bool {
	stop.Reason = record.InterruptCancel
	return st.Interrupt(stop)
}

// Cancel ends a stored run for good, from any process: its status is cancelled, and [Open] refuses
// it with [ErrCancelled] from then on. The Stop says who cancels the run, and why; its reason is
// ignored. If a process has the run open, it stops the run as for [Interrupt], and the run is
// cancelled when that process closes it. If the process ends without closing it, the next opening
// cancels the run and is refused. Cancel returns when the request is durable. Cancelling twice is
// allowed; the first counts.
//
// A run with calls that are to be compensated stays interrupted until a process that has their
// compensations (see [WithCompensations]), or a runner, opens it.
//
// For a run that has completed or failed, the error is [ErrEnded] with its status, and the run
// does not change.
func Cancel(ctx context.Context, store snapshot.Store, runID string, stop snapshot.Stop) error {
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

// alsoEnded returns err, with which a run refuses a request. If the run has ended, errors.Is also finds
// ErrEnded or ErrCancelled in it.
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
// Otherwise its owner does that: when it reads its inbox, or after it has closed the run.
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
	switch {
	case errors.Is(err, errUncompensated): // a process that knows the actors cancels it
		return journal.Close(ctx, snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptCancel}})
	case errors.As(err, &cancelled):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(checkNotEnded(&found.Info), giveBack(ctx, journal)) // the run was not cancelled before its outcome
}

// refuseCancelled closes the journal of a run that was cancelled, or for which a cancel is waiting,
// and returns the *CancelledError. A cancel that came after the outcome of the run is removed.
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
			return errUncompensated // the journal stays open
		}
		if err := endCancelled(ctx, store, journal, cancel); err != nil {
			return err
		}
		err = cancelledError(found.RunID, stopOf(cancel.Record.Interrupt()))
	}
	if cancel != nil {
		err = errors.Join(err, store.Remove(ctx, found.RunID, cancel.ID()))
	}
	return err
}

// endCancelled records that the run was cancelled, and closes it. If the run that called it cannot be
// told because the store cannot be reached, the run stays as it is. If it cannot be told for another
// reason, such as damaged records, the run is cancelled, and the error returned.
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
	return errors.Join(journal.Close(ctx, end), untold)
}

// errors.Is finds these in recorded errors of calls, too.
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
	record.RegisterError("state.ErrChoice", ErrSelection) // its name in stored records
	record.RegisterError("state.ErrNotFailed", ErrNotFailed)
	record.RegisterError("state.ErrNotInterrupted", ErrNotInterrupted)
	record.RegisterError("state.ErrNoProgram", ErrNoProgram)
	record.RegisterErrorType[*CancelledError]("state.CancelledError")
	record.RegisterError("state.ErrEffects", ErrEffects)
	record.RegisterErrorType[*EffectsError]("state.EffectsError")
	record.RegisterErrorType[*FailedError]("state.FailedError")
}
