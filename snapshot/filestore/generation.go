package filestore

import (
	"context"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/snapshot"
)

// begin begins the generation in a journal, and then has the meta file say that
// the run is running. A crash between the two leaves the run as it was, or as
// interrupted if it was queued; see compareMeta.
func (j *Journal) begin(r *reading) error {
	j.changed, j.notify = make(chan struct{}), make(chan struct{}, 1)
	j.snapshotSize = r.snapshotSize
	j.compactAt = max(j.store.compactFrom, 2*j.snapshotSize)
	j.info.LastSeq = uint64(r.run.Len())
	j.appended, j.synced = j.info.LastSeq, j.info.LastSeq
	if r.unfinished {
		j.store.removeLeftovers(j.info.RunID)
	}
	if r.last != nil {
		return j.goOn(r)
	}
	return j.beginAnother(r)
}

// beginAnother begins the generation in a new journal. It takes over all that the
// snapshot does not have: the old journals are read for the last time here,
// also one whose end a crash has torn, or whose last sync failed, so that
// nobody knows which of what the system shows for it is on the disk. Now it
// is written again and synced before anybody builds on it.
//
// The journal becomes valid by its renaming, and with it the old ones become
// invalid, for its header covers them. Before that the run is as it was;
// after it, whether the old journals are still there makes no difference.
func (j *Journal) beginAnother(r *reading) error {
	s, id := j.store, j.info.RunID
	j.number = r.newest + 1
	j.oldest = j.number
	w, err := j.createJournal(j.number, j.number-1)
	if err != nil {
		return err
	}
	for seq := r.compacted + 1; seq <= j.info.LastSeq; seq++ {
		w.record(r.run.Encoded(seq))
	}
	if err := w.sync(); err != nil {
		return w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return w.abandon(err)
	}
	if err := s.syncDirs(id); err != nil {
		return w.abandon(err)
	}
	if err := j.running(r); err != nil {
		if restored := s.restoreMeta(id, r); restored != nil && !r.found {
			_ = w.file.Close() // a meta file without a journal would be a damaged run: this one is empty
			return unavailable(err)
		}
		return w.abandon(err)
	}
	j.file, j.size, j.allocated, j.syncedTo = w.file, w.size, w.allocated, w.size
	if r.covered {
		s.removeCovered(id, j.number-1)
	}
	return nil
}

// goOn begins the generation in the journal of the one before, which is on the
// disk as it was read: a frame says so, and nothing gets another name. If that
// fails, the frame is cut off, and the next Open begins another journal.
func (j *Journal) goOn(r *reading) error {
	s, id := j.store, j.info.RunID
	j.number = r.newest
	j.oldest = j.number
	f, err := s.disk.OpenToWrite(s.run(id, journalName(j.number)))
	if err != nil {
		return unavailable(err)
	}
	j.file, j.size, j.allocated, j.syncedTo = f, r.last.end, r.last.size, r.last.end
	if err = j.beginAtEnd(); err == nil {
		err = j.running(r)
	}
	if err != nil {
		_ = f.Truncate(r.last.end)
		_ = f.Close()
		_ = s.restoreMeta(id, r)
		return unavailable(err)
	}
	if r.hasCovered() {
		s.removeCovered(id, j.number-1)
	}
	return nil
}

// beginAtEnd appends the frame that begins the generation, and syncs.
func (j *Journal) beginAtEnd() error {
	buf, err := snapshot.AppendInfo(beginFrame(nil, frameInfo), &j.info)
	if err != nil {
		return err
	}
	if buf, err = endFrame(buf, 0, j.size, j.syncedTo); err != nil {
		return err
	}
	if err := j.write(buf); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.syncedTo, j.buf = j.size, buf
	return nil
}

// running has the meta file say that the generation runs, as the journal does.
// An older file, which a loss of power may bring back, would be believed if it
// says how the run ended: so the new one is synced.
func (j *Journal) running(r *reading) error {
	s, id := j.store, j.info.RunID
	info, err := s.changeMeta(id, &j.info, func(meta *metaFile) (header, error) {
		return header{pid: os.Getpid(), info: meta.updates(j.info)}, nil
	})
	if err != nil {
		return err
	}
	j.info = info
	if !r.found || r.waits() {
		return nil
	}
	return s.syncMeta(id)
}

// restoreMeta has the meta file say again how the run stood before a generation
// that could not begin, but not where its journal ends.
func (s *Store) restoreMeta(runID string, r *reading) error {
	if !r.meta.ok {
		return remove(s.disk, s.run(runID, metaName))
	}
	_, err := s.changeMeta(runID, &r.recorded, func(meta *metaFile) (header, error) {
		return header{info: meta.updates(r.meta.info)}, nil
	})
	return err
}

// updates is info with what Update may have changed since.
func (m *metaFile) updates(info snapshot.Info) snapshot.Info {
	if m.ok {
		return withUpdates(info, &m.info)
	}
	return info
}

// withUpdates is info with what Update changes at any time.
func withUpdates(info snapshot.Info, meta *snapshot.Info) snapshot.Info {
	info.Metadata, info.Pinned, info.Expires = meta.Metadata, meta.Pinned, meta.Expires
	return info
}

// removeLeftovers removes what a crash has left of files that were not
// finished. The run is locked, and here also those who write the meta file are: what
// they have not finished is none of a crash.
func (s *Store) removeLeftovers(runID string) {
	l, err := s.lockMeta(context.Background(), runID)
	if err != nil {
		return
	} else if l != nil {
		defer l.release()
	}
	entries, _ := s.disk.ReadDir(s.run(runID))
	for _, e := range entries {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = remove(s.disk, s.run(runID, e.Name()))
		}
	}
}

// removeCovered removes the journals up to a number, which another file
// covers, and all snapshots but the newest. What stays is passed over by
// readers and removed the next time.
func (s *Store) removeCovered(runID string, upTo uint64) {
	l, err := s.listing(runID)
	if err != nil {
		return
	}
	for _, n := range l.journals {
		if n <= upTo {
			_ = remove(s.disk, s.run(runID, journalName(n)))
		}
	}
	for i, n := range l.snapshots {
		if i < len(l.snapshots)-1 {
			_ = remove(s.disk, s.run(runID, snapshotName(n)))
		}
	}
}

// createJournal begins the file of a journal, under a temporary name.
func (j *Journal) createJournal(number, covers uint64) (*frameWriter, error) {
	j.mu.Lock()
	h := header{covers: covers, carried: j.appended, info: j.info}
	j.mu.Unlock()
	if number != j.oldest {
		h.carried = 0 // the records are in the journals before it
	}
	return createFrames(j.store.disk, j.store.run(j.info.RunID, journalName(number)), &h)
}
