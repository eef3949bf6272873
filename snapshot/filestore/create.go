package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/internal/errkind"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Create implements [snapshot.Store]. The run exists as soon as one file, a journal or a snapshot,
// contains all of its records and has its final name.
func (s *Store) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	d, err := s.checkedDir(ctx, run.RunID)
	if err != nil {
		return snapshot.Info{}, err
	}
	defer s.index.change(run.RunID)
	info, err := storekit.CreatedInfo(run.Info)
	if err != nil {
		return snapshot.Info{}, err
	}
	created, _, err := run.Extend()
	if err != nil {
		return snapshot.Info{}, err
	}
	info.LastSeq = created.LastSeq
	created.Info = info
	l, err := d.lock(ctx, false, true)
	if errors.Is(err, snapshot.ErrLocked) {
		return snapshot.Info{}, existsError(run.RunID)
	} else if err != nil {
		return snapshot.Info{}, err
	}
	defer l.release()
	d = d.locked(l)
	r, err := d.readLocked()
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: create run %s: %w", run.RunID, err)
	} else if r.found {
		return snapshot.Info{}, existsError(run.RunID)
	}
	if err := d.create(created, r.listing.newest()); err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: create run %s: %w", run.RunID, unavailable(err))
	}
	return info, nil
}

// create writes a run. A crash may have left an incomplete journal with the number newest, which
// does not count as a run; see reading.cut. That journal is replaced, or covered by the snapshot.
func (d *runDir) create(run *snapshot.Run, newest uint64) error {
	var end closedEnd
	var err error
	if d.store.isShort(run) {
		end, err = d.createAsJournal(run)
	} else {
		end.journal = newest
		if _, err = d.writeSnapshot(run, newest); err == nil {
			err = d.store.syncRuns()
		}
	}
	if err != nil {
		return err
	}
	if err := d.writeClosedMeta(run.Info, end); err != nil {
		d.store.warn(d.runID, err)
	}
	return nil
}

// isShort reports whether a run is so short that Journal.Close would not compact its
// journal.
func (s *Store) isShort(run *snapshot.Run) bool {
	size := int64(0)
	for seq := range uint64(run.Len()) {
		if size += int64(len(run.Encoded(seq + 1))); size > s.compactAtClose {
			return false
		}
	}
	return true
}

// createAsJournal writes a run as a journal, to which the run's first generation continues to
// append. The file has its final name from the beginning, because a rename would cost the file
// system another commit. If a crash leaves only part of the file, that part does not count as a
// run; see reading.cut. Therefore the name and the content can become durable in any order, and a
// single sync can be enough for both.
func (d *runDir) createAsJournal(run *snapshot.Run) (closedEnd, error) {
	w, err := createFrames(d.disk, d.path(journalName(firstJournal)), true, &header{carried: run.LastSeq, info: run.Info})
	if err != nil {
		return closedEnd{}, err
	}
	for seq := range run.LastSeq {
		w.record(run.Encoded(seq + 1))
	}
	if err := w.fill(); err != nil {
		return closedEnd{}, w.abandon(err)
	}
	if !d.disk.SyncTogether(w.file) {
		if err := w.sync(); err != nil {
			return closedEnd{}, w.abandon(err)
		}
		err = d.syncDirs()
	}
	_ = w.file.Close() // the file was synced
	return closedEnd{firstJournal, w.size}, err
}

func existsError(runID string) error {
	return errkind.New(snapshot.ErrExists, "snapshot: run %s already exists", runID)
}

// syncDirs makes the names in a run's directory durable, and the name of the directory itself. This
// is needed even if nothing was created, since a crash may have left names that were never synced.
func (d *runDir) syncDirs() error {
	if err := d.disk.SyncDir(d.path()); err != nil {
		return err
	}
	return d.store.syncRuns()
}

// syncRuns makes the names of all run directories durable. Callers that arrive during a sync share
// the next one. The name of the directory that contains them was already synced by New.
func (s *Store) syncRuns() error {
	return s.runs.do(func() error { return s.disk.SyncDir(s.path("runs")) })
}
