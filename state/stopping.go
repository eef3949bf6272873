package state

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// AwaitStop waits, after [Interrupt] or [Cancel] has asked a run to stop, until the process that
// has the run open closes it. It reports whether the run is closed. If ctx ends first, AwaitStop
// returns false and no error: the request stays, and the run stops once its calls notice it. If the
// run completed or failed before its process read the request, the error is [ErrEnded]. If there is
// no such run, the error is snapshot.ErrNotFound.
func AwaitStop(ctx context.Context, store snapshot.Store, runID string) (stopped bool, err error) {
	if err := checkStore(store); err != nil {
		return false, err
	}
	wrap := func(err error) error {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("state: stop run %s: %w", runID, err)
	}
	if _, err := store.Info(ctx, runID); err != nil { // otherwise Watch waits until the run is created
		return false, wrap(err)
	}
	for event, err := range store.Watch(ctx, snapshot.WatchOptions{RunID: runID}) {
		switch {
		case err != nil:
			return false, wrap(err)
		case event.Deleted:
			return false, wrap(snapshot.ErrNotFound)
		case event.Info.Open:
			continue
		case event.Info.Status == snapshot.StatusCompleted || event.Info.Status == snapshot.StatusFailed:
			return false, fmt.Errorf("state: stop run %s: %w: it is %s, and the request came too late", runID, ErrEnded, event.Info.Status)
		}
		return true, nil
	}
	return false, nil // ctx has ended
}

// Stopping returns the stop that [Interrupt] or [Cancel] has requested for an open run, if the
// process that has the run open has not completed the stop yet. The reason is
// [record.InterruptUser] or [record.InterruptCancel]. It also returns the cancel of a run that is
// not open but whose calls must still be compensated; see [Cancel]. For any other run, Stopping
// returns nil.
func Stopping(ctx context.Context, inbox snapshot.Inbox, found *snapshot.Info) (*snapshot.Stop, error) {
	uncompensated := found.Stop.Reason == record.InterruptCancel && found.Status != snapshot.StatusCancelled
	if !found.Open && !uncompensated {
		return nil, nil
	}
	waiting, err := inbox.Messages(ctx, found.RunID)
	if err != nil {
		return nil, fmt.Errorf("state: stop of run %s: %w", found.RunID, err)
	}
	var asked *snapshot.Stop
	for i := range waiting {
		m := &waiting[i]
		e := m.Record.Interrupt()
		switch {
		case e == nil:
		case m.IsCancel():
			return &snapshot.Stop{Reason: record.InterruptCancel, By: e.By, Message: e.Message}, nil
		case found.Open && m.Generation == found.Generation:
			asked = &snapshot.Stop{Reason: record.InterruptUser, By: e.By, Message: e.Message}
		}
	}
	return asked, nil
}
