package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotRunning is found in the error of interrupting a run that nobody has
// open.
var ErrNotRunning = errors.New("nobody is running it")

// Interrupt asks whoever runs a stored run, in whichever process, to stop: for
// them it is [ExecutionState.Interrupt] with the reason user. By says who asks,
// and message why. It returns when they were told, which reaches them within
// a tenth of a second also in the middle of a wait; calls end as soon as their
// handlers listen. Interrupting twice is fine, and the first counts.
//
// A run that nobody has open is [ErrNotRunning] with its status, and stays as
// it is: the next one who opens it is not interrupted. The store must be a
// snapshot.Inbox; otherwise the error is errors.ErrUnsupported.
func Interrupt(ctx context.Context, store snapshot.Store, runID, by, message string) error {
	inbox, ok := store.(snapshot.Inbox)
	if !ok {
		return fmt.Errorf("state: interrupt run %s: %w", runID, errNoInbox(store))
	}
	if err := interrupt(ctx, store, inbox, runID, by, message); err != nil {
		return fmt.Errorf("state: interrupt run %s: %w", runID, err)
	}
	return nil
}

func interrupt(ctx context.Context, store snapshot.Store, inbox snapshot.Inbox, runID, by, message string) error {
	found, err := store.Load(ctx, runID)
	if err != nil {
		return err
	}
	if found.Status != StatusRunning {
		return notRunning(found)
	}
	e := &core.InterruptedError{Reason: core.InterruptUser, Message: message, By: by}
	m := snapshot.Message{Generation: found.Generation, Record: core.Record{
		Time: now(), Kind: core.KindRun, Status: core.StatusInterrupted, Err: e,
	}}
	if err := inbox.Post(ctx, runID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
		return err
	}
	// It may have been closed in the meantime.
	now, err := store.Load(ctx, runID)
	if err != nil {
		return fmt.Errorf("it was told, but whether it was still running is not known: %w", err)
	}
	if now.Status == StatusRunning && now.Generation == found.Generation {
		return nil
	}
	return takeBack(ctx, inbox, now, m.ID())
}

// takeBack removes an interrupt that nobody has read.
func takeBack(ctx context.Context, inbox snapshot.Inbox, found *snapshot.Snapshot, id string) error {
	waiting, err := inbox.Messages(ctx, found.RunID)
	if err != nil {
		return err
	}
	for i := range waiting {
		if waiting[i].ID() == id {
			return errors.Join(notRunning(found), inbox.Remove(ctx, found.RunID, id))
		}
	}
	return nil // it was read
}

func notRunning(found *snapshot.Snapshot) error {
	return fmt.Errorf("%w: it is %s", ErrNotRunning, found.Status)
}

// AwaitAnswers returns when a stored run can go on: nobody has it open, and
// every question that it asked has an answer. A run that asks nothing is
// waited for until it is closed. It is for a program that opens a run again
// when it was answered:
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
// It ends with an error when ctx does. The store must be a snapshot.Inbox;
// otherwise the error is errors.ErrUnsupported.
func AwaitAnswers(ctx context.Context, store snapshot.Store, runID string) error {
	inbox, ok := store.(snapshot.Inbox)
	if !ok {
		return fmt.Errorf("state: await answers to run %s: %w", runID, errNoInbox(store))
	}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := inbox.Watch(watching, runID, func() {
		ready, err := canGoOn(ctx, store, runID)
		if err != nil {
			stop(err)
		} else if ready {
			stop(errReady)
		}
	})
	if errors.Is(err, errReady) {
		return nil
	}
	return fmt.Errorf("state: await answers to run %s: %w", runID, err)
}

var errReady = errors.New("the run can go on")

func canGoOn(ctx context.Context, store snapshot.Store, runID string) (bool, error) {
	found, err := store.Load(ctx, runID)
	if err != nil || found.Status == StatusRunning {
		return false, err
	}
	open, err := unanswered(ctx, store, found)
	return len(open) == 0, err
}
