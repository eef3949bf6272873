package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotRunning is found in the error of interrupting a run that no process has
// open.
var ErrNotRunning = errors.New("nobody is running it")

// Interrupt asks the process that has a stored run open to interrupt it, as by
// [ExecutionState.Interrupt] with the reason user. By is who interrupts, and
// message is why. Interrupt returns when the request is durable. The request
// reaches the owner within a tenth of a second, also during a wait; calls end
// as soon as their handlers honour their context. Interrupting twice is
// allowed; the first counts.
//
// For a run that no process has open the error is [ErrNotRunning] with its
// status, and its next opening is not interrupted.
func Interrupt(ctx context.Context, store snapshot.Store, runID, by, message string) error {
	if err := interrupt(ctx, store, runID, by, message); err != nil {
		return fmt.Errorf("state: interrupt run %s: %w", runID, err)
	}
	return nil
}

func interrupt(ctx context.Context, store snapshot.Store, runID, by, message string) error {
	found, err := store.Info(ctx, runID)
	if err != nil {
		return err
	}
	if found.Status != StatusRunning {
		return notRunning(found)
	}
	e := &core.InterruptedError{Reason: record.InterruptUser, Message: message, By: by}
	m := snapshot.Message{Generation: found.Generation, Record: record.Record{
		Time: now(), Kind: record.KindRun, Status: record.StatusInterrupted, Err: e,
	}}
	if err := store.Post(ctx, runID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
		return err
	}
	// It may have been closed in the meantime.
	now, err := store.Info(ctx, runID)
	if err != nil {
		return fmt.Errorf("it was posted, but whether the run was still open is not known: %w", err)
	}
	if now.Status == StatusRunning && now.Generation == found.Generation {
		return nil
	}
	return takeBack(ctx, store, now, m.ID())
}

// takeBack removes an interrupt that was not read.
func takeBack(ctx context.Context, store snapshot.Store, found snapshot.Info, id string) error {
	waiting, err := store.Messages(ctx, found.RunID)
	if err != nil {
		return err
	}
	for i := range waiting {
		if waiting[i].ID() == id {
			return errors.Join(notRunning(found), store.Remove(ctx, found.RunID, id))
		}
	}
	return nil // it was read
}

func notRunning(found snapshot.Info) error {
	return fmt.Errorf("%w: it is %s", ErrNotRunning, found.Status)
}

// AwaitAnswers returns when a stored run can continue: no process has it open,
// and every question that it asked has an answer. It is for a program that
// opens a run again when it was answered:
//
//	for {
//		st, err := state.Open(ctx, store, runID, state.WithWait())
//		…
//		if err := st.Close(); st.Status() != state.StatusPaused {
//			return err
//		}
//		if err := state.AwaitAnswers(ctx, store, runID); err != nil {
//			return err
//		}
//	}
//
// A run that sleeps can continue when the time has passed, and a run with a
// question that has a default when the default is due. AwaitAnswers returns an
// error when ctx ends, and [ErrCancelled] when the run was cancelled.
func AwaitAnswers(ctx context.Context, store snapshot.Store, runID string) error {
	if err := awaitAnswers(ctx, store, runID); err != nil {
		return fmt.Errorf("state: await answers to run %s: %w", runID, err)
	}
	return nil
}

func awaitAnswers(ctx context.Context, store snapshot.Store, runID string) error {
	for {
		ready, due, err := canGoOn(ctx, store, runID)
		if ready || err != nil {
			return err
		}
		if err := awaitChange(ctx, store, runID, due); err != nil {
			return err
		}
	}
}

// errDue is the cause of the end of a wait when the run is due.
var errDue = errors.New("state: the run is due")

// awaitChange returns when the run can continue, has another due time, or is
// due.
func awaitChange(ctx context.Context, store snapshot.Store, runID string, due time.Time) error {
	watch, cancel := ctx, context.CancelFunc(func() {})
	if !due.IsZero() {
		watch, cancel = context.WithDeadlineCause(ctx, due, errDue)
	}
	defer cancel()
	for _, err := range store.Watch(watch, snapshot.WatchOptions{RunID: runID}) {
		if err != nil && errors.Is(context.Cause(watch), errDue) {
			return nil
		} else if err != nil {
			return err
		}
		ready, now, err := canGoOn(ctx, store, runID)
		if ready || err != nil || !now.Equal(due) {
			return err
		}
	}
	return context.Cause(ctx)
}

// canGoOn reports whether the run can continue, and when it can without an
// answer.
func canGoOn(ctx context.Context, store snapshot.Store, runID string) (bool, time.Time, error) {
	found, err := load(ctx, store, runID)
	switch {
	case err != nil || found.Open:
		return false, time.Time{}, err
	case found.Status == StatusCancelled:
		return false, time.Time{}, cancelledError(found.RunID, found.Stop)
	case !found.Due.IsZero() && !time.Now().Before(found.Due):
		return true, found.Due, nil
	}
	open, err := unanswered(ctx, store, found)
	return len(open) == 0 && found.Due.IsZero(), found.Due, err
}
