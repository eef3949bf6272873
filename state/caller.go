package state

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/snapshot"
)

// tellCancelled tells the caller of a run that was cancelled. It does nothing for a caller that has
// ended or was deleted.
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
