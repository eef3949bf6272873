package state

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/snapshot"
)

// tellCancelled signals to the caller of an open run that the run ends as cancelled. It is called
// before the run is closed, so that a crash cannot prevent the signal: after a crash, the next
// opening cancels the run and sends the signal again. tellCancelled does nothing if the caller has
// ended or was deleted.
func tellCancelled(ctx context.Context, store snapshot.Store, found *snapshot.Info) error {
	c, ok := caller.Of(&found.Metadata)
	if !ok {
		return nil
	}
	err := Signal(ctx, store, c.RunID, c.Signal, nil, SignalOptions{ID: caller.SignalID(found.RunID, found.Generation)})
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrCancelled) || errors.Is(err, snapshot.ErrNotFound) {
		return nil
	}
	return err
}
