package storekit

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
)

// A Store implements, on top of a [Backend], the parts that all stores have in common: the methods
// of [snapshot.Store], except those for artifacts. [New] returns a Store.
type Store struct {
	backend Backend
	options Options

	mu          sync.Mutex
	open        map[string]*openRun      // the open journals of this Store, by run ID
	openings    map[string]bool          // tokens of the runs that are being opened
	waiting     map[string]chan struct{} // closed when the run with this ID has changed or, for "", when any run has
	openWatcher *openWatcher             // watches the runs in open; nil if there are none or Options.Poll is 0
}

// New returns a store that uses a backend.
func New(b Backend, o Options) *Store {
	return &Store{backend: b, options: o, open: make(map[string]*openRun), openings: make(map[string]bool), waiting: make(map[string]chan struct{})}
}

// Check returns an error if runID is not a valid run ID. Otherwise, it returns the cause of ctx if
// ctx has ended. Every method of a store calls it first.
func Check(ctx context.Context, runID string) error {
	if err := snapshot.CheckRunID(runID); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// NotFoundError returns the error for a run that does not exist. It wraps snapshot.ErrNotFound.
func NotFoundError(runID string) error {
	return errkind.New(snapshot.ErrNotFound, "snapshot: no run %s", runID)
}

// head returns a run's head as stores report it: if the process that had the run open has crashed,
// the status is interrupted.
func (s *Store) head(ctx context.Context, runID string) (Head, error) {
	if err := Check(ctx, runID); err != nil {
		return Head{}, err
	}
	s.flush(ctx, runID)
	h, err := s.find(ctx, runID)
	return h.reported(), err
}

// find returns a run's head as it is stored. The error is snapshot.ErrNotFound if the run does not
// exist.
func (s *Store) find(ctx context.Context, runID string) (Head, error) {
	heads, err := Retry(ctx, func() ([]Head, error) { return s.backend.Find(ctx, runID) })
	switch {
	case err != nil:
		return Head{}, err
	case len(heads) == 0:
		return Head{}, NotFoundError(runID)
	}
	return heads[0], nil
}

// ReportedInfo returns a run's info as stores report it: if the process that had the run open has
// crashed, the status is interrupted.
func ReportedInfo(h Head) snapshot.Info { return h.reported().Info }

func (h Head) reported() Head {
	if h.Info.Status == snapshot.StatusRunning && !h.Info.Open {
		h.Info = CrashedInfo(h.Info)
	}
	return h
}

// Create implements snapshot.Store.
func (s *Store) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if err := Check(ctx, run.RunID); err != nil {
		return snapshot.Info{}, err
	}
	info, err := CreatedInfo(run.Info)
	if err != nil {
		return snapshot.Info{}, err
	}
	after := Head{Info: info, UID: rand.Text()}
	after.Info.LastSeq = uint64(run.Len())
	all := Batch{RunID: info.RunID, UID: after.UID, Last: after.Info.LastSeq}
	for seq := range all.Last {
		all.Data = append(all.Data, run.Encoded(seq+1)...)
	}
	swapped, err := s.swap(ctx, Head{}, &after, all)
	switch {
	case err != nil:
		return snapshot.Info{}, fmt.Errorf("snapshot: create run %s: %w", info.RunID, err)
	case !swapped:
		return snapshot.Info{}, errkind.New(snapshot.ErrExists, "snapshot: run %s already exists", info.RunID)
	}
	return after.Info, nil
}

// Update implements snapshot.Store.
func (s *Store) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	for {
		before, err := s.head(ctx, runID)
		if err != nil {
			return snapshot.Info{}, err
		}
		after := before
		if after.Info, err = UpdatedInfo(before.Info, change); err != nil {
			return snapshot.Info{}, err
		}
		if !before.Info.Open {
			after.Opening = "" // the process that had the run open has ended
		}
		swapped, err := s.swap(ctx, before, &after, Batch{})
		if err != nil {
			return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", runID, err)
		} else if swapped {
			return after.Info, nil
		}
	}
}

// Delete implements snapshot.Store.
func (s *Store) Delete(ctx context.Context, runID string) error {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return err
		} else if h.Info.Open {
			return &snapshot.LockedError{RunID: runID, Owner: h.Info.Owner}
		}
		swapped, err := s.swap(ctx, h, new(Head), Batch{})
		if err != nil {
			return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
		} else if swapped {
			return nil
		}
	}
}
