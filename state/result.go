package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotEnded is wrapped by the error from [Result] if the run's last root call has no outcome yet.
var ErrNotEnded = errors.New("state: the run has not ended")

// A FailedError is the error of a stored run that failed. Its text explains how to continue the
// run.
type FailedError struct {
	RunID string
	Err   error // the error returned by the last root call
}

// Error returns the text of the call's error, followed by advice on what to do.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%v; %s", e.Err, howToRetry(e.RunID))
}

// howToRetry returns a hint on how to continue a failed run.
func howToRetry(runID string) string {
	return fmt.Sprintf("to make the failed calls again: reprise --dir DIR retry %s (state.Retry, state.WithRerunFailed)", runID)
}

// Unwrap returns the call's error.
func (e *FailedError) Unwrap() error { return e.Err }

// Result returns the outcome of a stored run's last root call: its output, or a [FailedError] that
// wraps the error that the call returned. If this call has no outcome, for example because the run
// is still running or waiting, the error is [ErrNotEnded]. If the run was cancelled, the error is
// [ErrCancelled]. If the run failed or was cancelled and some of its calls could not be
// compensated, errors.As also finds a *[core.CompensationError]. If the output does not fit T, the
// error names the field. Nothing is executed. The run may be open in another process: the result
// depends only on the records, so it is available as soon as a publisher has received the end of
// the run.
func Result[T any](ctx context.Context, store snapshot.Store, runID string) (T, error) {
	var output T
	found, last, err := lastRootCall(ctx, store, runID)
	if err != nil {
		return output, err
	}
	if err := cancellation(found); err != nil {
		failed, unread := failedCompensations(found, func(record.Address) bool { return true })
		return output, errors.Join(fmt.Errorf("state: result: %w", engine.WithUncompensated(err, failed)), unread)
	}
	switch {
	case last == nil || !last.IsOutcome():
		return output, fmt.Errorf("%w: run %s is %s", ErrNotEnded, runID, found.Status)
	case last.Status == record.StatusFailed:
		failure := engine.RecordedFailure(last)
		failed, err := failedCompensations(found, func(by record.Address) bool { return by == last.Address })
		if err != nil {
			return output, fmt.Errorf("state: result of run %s: %w", runID, err)
		}
		failure.Err = engine.WithUncompensated(failure.Err, failed)
		return output, &FailedError{runID, failure}
	}
	encoded := last.Encoded()
	if ref := last.Artifact(); ref != "" {
		if encoded, err = store.Get(ctx, ref); err != nil {
			return output, fmt.Errorf("state: result of run %s: %w", runID, err)
		}
	}
	if isNoStore(last) {
		return output, fmt.Errorf("state: result of run %s: %q is NoStore, so its output was not kept", runID, last.Name)
	}
	if err := record.Decode(encoded, &output); err != nil {
		return output, fmt.Errorf("state: result of run %s: %w", runID, err)
	}
	return output, nil
}

// Uncompensated returns the calls of a stored run whose compensations failed for good, in the order
// in which the compensations were made. These calls still have their effects. If the run was
// retried and has completed since, the effects are those of its restored calls. [Retry] describes
// how a failed run tries the compensations again. A cancelled run does not try them again, so its
// calls must be undone by hand.
func Uncompensated(ctx context.Context, store snapshot.Reader, runID string) ([]core.FailedCompensation, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	found, err := store.Load(ctx, runID)
	if err == nil {
		var failed []core.FailedCompensation
		if failed, err = failedCompensations(found, func(record.Address) bool { return true }); err == nil {
			return failed, nil
		}
	}
	return nil, fmt.Errorf("state: run %s: %w", runID, err)
}

// failedCompensations returns the run's compensations that failed for good. For each of them,
// isCause is called with the address of the call whose failure caused the compensation, or with the
// zero Address if the run was cancelled. If isCause returns false, the compensation is left out.
func failedCompensations(found *snapshot.Run, isCause func(by record.Address) bool) (failed []core.FailedCompensation, err error) {
	r, err := newRestoredRun(found)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(r.completed()) {
		undo := undoAddress(c.Address, c.Name, c.Nth)
		if !r.compensationFailed(c.Address, c.Name, c.Nth) || !isCause(c.By) {
			continue
		}
		outcome, err := found.Record(r.calls[undo].Last)
		if err != nil {
			return nil, err
		}
		failed = append(failed, core.FailedCompensation{Address: c.Address, Name: c.Name, Message: engine.RecordedFailure(&outcome).Error()})
	}
	return failed, nil
}

// Input returns the input of the last root call of a stored run.
func Input[T any](ctx context.Context, store snapshot.Store, runID string) (T, error) {
	var input T
	found, last, err := lastRootCall(ctx, store, runID)
	if err != nil {
		return input, err
	}
	if last == nil {
		return input, fmt.Errorf("state: input of run %s: no call was made in it", runID)
	}
	for r, err := range found.Records() {
		if err != nil {
			return input, err
		}
		if r.Address == last.Address && r.Kind.IsCall() && r.Detail != nil && len(r.Detail.Input) > 0 {
			if err := record.Decode(r.Detail.Input, &input); err != nil {
				return input, fmt.Errorf("state: input of run %s: %w", runID, err)
			}
			return input, nil
		}
	}
	return input, fmt.Errorf("state: input of run %s: no input of %s was recorded", runID, last.Address)
}

// cancellation returns the [CancelledError] of a cancelled run, or nil for any other run. Until the
// journal is closed, only the last record shows that the run was cancelled.
func cancellation(found *snapshot.Run) error {
	if found.Status == snapshot.StatusCancelled {
		return cancelledError(found.RunID, found.Stop)
	}
	if found.Len() == 0 {
		return nil
	}
	last, err := found.Record(found.LastSeq)
	var stopped *record.InterruptedError
	if err != nil || last.Kind != record.KindRun || last.Status != record.StatusCancelled || !errors.As(last.Err, &stopped) {
		return err
	}
	return cancelledError(found.RunID, stopOf(stopped))
}

// lastRootCall returns the run and the latest record of its last root call. The record is nil if no
// root call was made.
func lastRootCall(ctx context.Context, store snapshot.Store, runID string) (*snapshot.Run, *record.Record, error) {
	if err := checkStore(store); err != nil {
		return nil, nil, err
	}
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, nil, fmt.Errorf("state: run %s: %w", runID, err)
	}
	var last *record.Record
	for r, err := range found.Records() {
		if err != nil {
			return nil, nil, err
		}
		if r.Kind.IsCall() && r.Address.Scope() == "" {
			last = &r
		}
	}
	return found, last, nil
}
