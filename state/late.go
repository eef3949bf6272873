package state

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// stopTime is the longest time that AwaitStop waits.
const stopTime = time.Second

// AwaitStop waits up to a second until the process that has the run open closes it, after
// [Interrupt] or [Cancel] has asked it to stop. If the run has completed or failed instead, before
// its process read the request, the request came too late: the error is [ErrEnded]. If the handlers
// of the run take longer, AwaitStop returns nil.
func AwaitStop(ctx context.Context, store snapshot.Store, runID string) error {
	waiting, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for event, err := range store.Watch(waiting, snapshot.WatchOptions{RunID: runID}) {
		switch {
		case err != nil:
			return context.Cause(ctx) // the time has passed
		case event.Info.Open:
			continue
		case event.Info.Status == snapshot.StatusCompleted || event.Info.Status == snapshot.StatusFailed:
			return fmt.Errorf("state: stop run %s: %w: it is %s, and the request came too late", runID, ErrEnded, event.Info.Status)
		}
		return nil
	}
	return context.Cause(ctx)
}
