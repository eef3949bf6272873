package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotRunning is wrapped by the error from [Interrupt] if no process has the run open.
var ErrNotRunning = errors.New("no process is running it")

// Interrupt asks the process that has a stored run open to interrupt the run, as
// [ExecutionState.Interrupt] does with the reason user. stop tells who interrupts the run, and why;
// its reason is ignored. Interrupt returns when the request is durable. The request reaches the
// process within a tenth of a second, even during a wait; calls end as soon as their handlers
// honour their context. Interrupting twice is allowed, but the second interrupt has no effect. If
// the process closes the run before it has read the request, the run is interrupted at that point,
// unless it has ended.
//
// If no process has the run open, the error is [ErrNotRunning] with the run's status, and the next
// opening is not interrupted. If the run has ended, the error also wraps [ErrEnded] or
// [ErrCancelled].
func Interrupt(ctx context.Context, store snapshot.Store, runID string, stop snapshot.Stop) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := interrupt(ctx, store, runID, stop); err != nil {
		return fmt.Errorf("state: interrupt run %s: %w", runID, err)
	}
	return nil
}

func interrupt(ctx context.Context, store snapshot.Store, runID string, stop snapshot.Stop) error {
	found, err := store.Info(ctx, runID)
	if err != nil {
		return err
	}
	if found.Status != snapshot.StatusRunning {
		return notRunning(found)
	}
	stop.Reason = record.InterruptUser
	e := interruptOf(stop)
	m := snapshot.Message{Generation: found.Generation, Record: record.Record{
		Time: now(), Kind: record.KindRun, Status: record.StatusInterrupted, Err: e,
	}}
	if err := store.Post(ctx, runID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
		return err
	}
	return settleInterrupt(ctx, store, runID, &m) // the run may have been closed in the meantime
}

// errChanged is returned if a run has changed since its Info was read.
var errChanged = errors.New("other processes keep opening and closing the run")

// settleInterrupt removes the message from a closed run. If the run has not read the message and
// might continue by itself, settleInterrupt also interrupts the run. It is called both by the
// process that posted the message and by the process that closed the run, because neither knows
// whether the message was posted before the run was closed.
func settleInterrupt(ctx context.Context, store snapshot.Store, runID string, m *snapshot.Message) error {
	e := m.Record.Interrupt()
	for range settleTries {
		found, err := store.Info(ctx, runID)
		if err != nil {
			return fmt.Errorf("the request was posted, but it is not known whether the run was still open: %w", err)
		}
		if found.Status == snapshot.StatusRunning && found.Generation == m.Generation {
			return nil // the owner reads it, or settles it when it closes the run
		}
		switch {
		case found.Status == snapshot.StatusRunning: // reopened by a process that does not know about the message
			return errors.Join(interrupt(ctx, store, runID, stopOf(e)), store.Remove(ctx, runID, m.ID()))
		case found.Status == snapshot.StatusInterrupted && found.Stop.Reason == record.InterruptUser: // the message was read
			return store.Remove(ctx, runID, m.ID())
		case found.Generation == m.Generation:
			if posted, err := isPosted(ctx, store, runID, m); err != nil || !posted {
				return err // the message is settled
			}
		}
		if err = interruptClosed(ctx, store, &found, e); !errors.Is(err, errChanged) {
			return errors.Join(err, store.Remove(ctx, runID, m.ID()))
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errChanged
}

// settleTries is how often settleInterrupt tries while other processes open and close the run.
// settlePause is about the time that such a process needs. All pauses together are longer than the
// time between the end of a run and the release of its lock.
const (
	settleTries = 200
	settlePause = 10 * time.Millisecond
)

// pause waits for another process to finish opening or closing a run.
func pause(ctx context.Context) error {
	timer := time.NewTimer(settlePause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func isPosted(ctx context.Context, store snapshot.Store, runID string, m *snapshot.Message) (bool, error) {
	waiting, err := store.Messages(ctx, runID)
	return slices.ContainsFunc(waiting, func(w snapshot.Message) bool { return w.ID() == m.ID() }), err
}

// interruptClosed interrupts a closed run, unless it has changed since found was read.
func interruptClosed(ctx context.Context, store snapshot.Store, found *snapshot.Info, e *core.InterruptedError) error {
	_, err := store.Update(ctx, found.RunID, func(i *snapshot.Info) error {
		switch {
		case i.Open || i.Generation != found.Generation || !i.Updated.Equal(found.Updated):
			return errChanged
		case i.Status == snapshot.StatusInterrupted && i.Stop.Reason == record.InterruptUser:
			return nil // the message was read
		case !mayContinue(i):
			return notRunning(*i)
		}
		i.Status, i.Due, i.Stop = snapshot.StatusInterrupted, time.Time{}, stopOf(e)
		return nil
	})
	if errors.Is(err, snapshot.ErrLocked) {
		return errChanged
	}
	return err
}

// mayContinue reports whether a closed run may continue without a person's decision.
func mayContinue(i *snapshot.Info) bool {
	switch i.Status {
	case snapshot.StatusQueued:
		return true
	case snapshot.StatusPaused:
		return i.Stop.Reason != record.InterruptCancel
	case snapshot.StatusInterrupted:
		return i.Stop.Reason.ContinuesByItself() && i.Stop.Reason != record.InterruptCancel
	}
	return false
}

func notRunning(found snapshot.Info) error {
	return alsoEnded(fmt.Errorf("%w: it is %s", ErrNotRunning, found.Status), &found)
}

// AwaitAnswers waits until a stored run can continue, that is, until no process has it open and
// every question that it asked has an answer. It is for programs that reopen a run once its
// questions have been answered:
//
//	for {
//		st, err := state.Open(ctx, store, runID, state.WithWait())
//		…
//		if err := st.Close(); st.Status() != snapshot.StatusPaused {
//			return err
//		}
//		if err := state.AwaitAnswers(ctx, store, runID); err != nil {
//			return err
//		}
//	}
//
// A run that waits for a signal can continue once the signal has been sent, a sleeping run once its
// time is up, and a run whose question has a default answer once that answer is due. AwaitAnswers
// returns an error if ctx ends, and [ErrCancelled] if the run was cancelled.
func AwaitAnswers(ctx context.Context, store snapshot.Store, runID string) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := awaitAnswers(ctx, store, runID); err != nil {
		return fmt.Errorf("state: await answers to run %s: %w", runID, err)
	}
	return nil
}

func awaitAnswers(ctx context.Context, store snapshot.Store, runID string) error {
	for {
		ready, due, err := canContinue(ctx, store, runID)
		if ready || err != nil {
			return err
		}
		if err := awaitChange(ctx, store, runID, due); err != nil {
			return err
		}
	}
}

// errDue is the cause with which a wait ends when the run is due.
var errDue = errors.New("state: the run is due")

// awaitChange waits until the due time is reached or changes, or until the run can continue for
// another reason.
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
		ready, now, err := canContinue(ctx, store, runID)
		if ready || err != nil || !now.Equal(due) {
			return err
		}
	}
	return context.Cause(ctx)
}

// canContinue reports whether the run can continue, and when it can continue without an answer.
func canContinue(ctx context.Context, store snapshot.Store, runID string) (bool, time.Time, error) {
	found, waiting, err := loadWithMessages(ctx, store, runID)
	switch {
	case err != nil || found.Open:
		return false, time.Time{}, err
	case found.Status == snapshot.StatusCancelled:
		return false, time.Time{}, cancelledError(found.RunID, found.Stop)
	case !found.Due.IsZero() && !time.Now().Before(found.Due):
		return true, found.Due, nil
	}
	ready := awaitsSignalOf(found, waiting) || len(unansweredQuestions(found, waiting)) == 0 && found.Due.IsZero() && !awaitsAny(found, waiting)
	return ready, found.Due, nil
}
