package storekit

import (
	"errors"

	"github.com/reprise-go/reprise/snapshot"
)

// ReadAll calls read with the ID of each run that list returns, once. It is for the GC of artifacts,
// which must not miss a reference. If read returns an error that matches [snapshot.ErrNotFound], the
// run was deleted meanwhile. A fork of that run may have been created since the runs were listed, and
// may refer to its artifacts; ReadAll then lists the runs again and reads those that are new. It returns
// the first other error of list or read.
func ReadAll(list func() (runIDs []string, err error), read func(runID string) error) error {
	known := make(map[string]bool)
	for isMissing := true; isMissing; {
		isMissing = false
		runIDs, err := list()
		if err != nil {
			return err
		}
		for _, id := range runIDs {
			if known[id] {
				continue
			}
			known[id] = true
			switch err := read(id); {
			case errors.Is(err, snapshot.ErrNotFound):
				isMissing = true
			case err != nil:
				return err
			}
		}
	}
	return nil
}
