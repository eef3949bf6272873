package storekit

import (
	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
)

// Posted returns the error of Post for a message whose ID is taken. It is
// [snapshot.ErrPosted].
func Posted(runID, id string) error {
	return errkind.New(snapshot.ErrPosted, "snapshot: run %s: %s was posted before, and waits to be read", runID, id)
}
