package state

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/snapshot"
)

// tellCancelled signals to the caller of a run that the run was cancelled. It does nothing if the
// caller has ended or was deleted.
func tellCancelled(ctx context.Context, store snapshot.Store, found *snapshot.Info) error {
	c, ok := caller.Of(&found.Metadata)
	if !ok {
		return nil
	}
	err := Signal(ctx, store, c.RunID, c.Signal, nil, SignalOptions{ID: found.RunID + " was cancelled"})
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrCancelled) || errors.Is(err, snapshot.ErrNotFound) {
		return nil
	}
	return err
}
