package storekit

import (
	"errors"

	"github.com/reprise-go/reprise/snapshot"
)

// ReadAll calls read with the ID of each run that list returns. It is for the garbage collection of
// artifacts, which must not miss a reference. If read returns an error that matches
// [snapshot.ErrNotFound], the run was deleted meanwhile. A fork of that run may have been created
// since the runs were listed, and may refer to its artifacts. ReadAll then lists the runs again,
// and reads the new ones. It returns the first other error from list or read.
func ReadAll(list func() (runIDs []string, err error), read func(runID string) error) error {
	isRead := make(map[string]bool)
	missing := make(map[string]bool) // at the last reading; a run with the same ID may have been created since
	for again := true; again; {
		again = false
		runIDs, err := list()
		if err != nil {
			return err
		}
		for _, id := range runIDs {
			if isRead[id] {
				continue
			}
			switch err := read(id); {
			case err == nil:
				isRead[id] = true
			case errors.Is(err, snapshot.ErrNotFound):
				again = again || !missing[id]
				missing[id] = true
			default:
				return err
			}
		}
	}
	return nil
}
