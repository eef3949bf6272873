package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotEnded is found in the error of [Result] for a run whose last root call
// has no outcome yet.
var ErrNotEnded = errors.New("state: the run has not ended")

// A FailedError is the error of a stored run that failed. Its text says how to continue.
type FailedError struct {
	RunID string
	Err   error // as the last root call returned it
}

// Error returns the error of the call, and then what to do.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%v; to make the failed calls again: reprise --dir DIR retry %s (state.Retry, state.WithRerunFailed)", e.Err, e.RunID)
}

// Unwrap returns the error of the call.
func (e *FailedError) Unwrap() error { return e.Err }

// Result returns the outcome of the last root call of a stored run: its output, or a [FailedError]
// with its error as the call returned it. If this call has no outcome, for example because the run
// is still running or waits, the error is [ErrNotEnded]; if the run was cancelled, it is
// [ErrCancelled]. If the output does not fit T, the error names the field. Nothing is executed. The
// run may be open elsewhere: the records decide, so the result is available as soon as a publisher
// has received the end of the run.
func Result[T any](ctx context.Context, store snapshot.Store, runID string) (T, error) {
	var output T
	found, last, err := lastRootCall(ctx, store, runID)
	if err != nil {
		return output, err
	}
	if err := cancellation(found); err != nil {
		return output, fmt.Errorf("state: result: %w", err)
	}
	switch {
	case last == nil || !last.IsOutcome():
		return output, fmt.Errorf("%w: run %s is %s", ErrNotEnded, runID, found.Status)
	case last.Status == record.StatusFailed:
		return output, &FailedError{runID, &core.CallError{
			Address: last.Address, Name: last.Name, Stage: last.Stage, Attempts: last.TotalAttempts(),
			Reason: last.Reason, Detail: last.Message(), Err: last.Err,
		}}
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
	return input, fmt.Errorf("state: input of run %s: %s has none on record", runID, last.Address)
}

// cancellation returns the [CancelledError] of a run that was cancelled, nil
// for any other. The last record shows it before the journal is closed.
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

// lastRootCall returns the latest record of the last root call, nil if there
// was none.
func lastRootCall(ctx context.Context, store snapshot.Store, runID string) (*snapshot.Run, *record.Record, error) {
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
