package snapshot

import (
	"errors"
	"fmt"
	"os"
)

// Compaction. The journals of a run become part of its snapshot:
//
//  1. journal n+1 is made, with a header and no records, and synced under its
//     name;
//  2. journal n is sealed: it is synced, and from then on n+1 is written to;
//  3. the snapshot and the journals up to n are written to a new snapshot
//     under a temporary name, which is synced;
//  4. it is renamed to be the snapshot, and the directory is synced;
//  5. the journals up to n are removed.
//
// A crash after 1 leaves an empty journal, which adds nothing. In 2 nobody can
// append, so that no record is ever in n+1, on the disk, while one before it
// is still on its way there in n. What a crash in 3 leaves has no name that
// anybody reads. The renaming in 4 is the one instant at which the new
// snapshot takes the place of the old one and of the journals that it covers;
// with the directory synced, it is on the disk before 5 removes what it
// replaces. After 4 the journals are passed over whether they are there or
// not.
//
// If a step fails and the journal is not what failed, nothing has changed: the
// run goes on, and the next attempt comes when the journals are twice as long.

// maybeCompact starts a compaction if the journals have outgrown the
// snapshot. j.mu is held.
func (j *FileJournal) maybeCompact() {
	if j.compacting || j.sealed+j.size <= j.compactAt {
		return
	}
	j.compacting = true
	j.wait.Go(func() {
		err := j.sealAndCompact()
		j.mu.Lock()
		j.compacting = false
		j.compactAt = max(j.store.compactFrom, 2*j.snapshotSize)
		if err != nil {
			j.compactAt = 2 * (j.sealed + j.size)
		}
		known := j.err != nil && errors.Is(err, j.err) // by those who append, sync or close
		j.mu.Unlock()
		if err != nil && !known {
			j.store.warn(j.info.RunID, err)
		}
	})
}

func (j *FileJournal) sealAndCompact() error {
	number, info, err := j.seal()
	if err != nil {
		return err
	}
	return j.compact(number, info)
}

// seal goes on in the next journal and returns the number of the sealed one,
// and what is known of the run at its end.
func (j *FileJournal) seal() (uint64, Info, error) {
	next, err := j.nextJournal()
	if err != nil {
		return 0, Info{}, fmt.Errorf("snapshot: run %s: %w", j.info.RunID, err)
	}
	if err := j.Sync(j.lastAppended()); err != nil { // so that the sync below is short
		_ = next.file.Close()
		return 0, Info{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.cond.Wait()
	}
	if j.err == nil && j.synced < j.appended {
		j.didSync(j.appended, j.file.Sync())
	}
	if j.err != nil { // also if it was closed: then Close compacts
		_ = next.file.Close()
		return 0, Info{}, j.err
	}
	old, number := j.file, j.number
	j.sealed += j.size
	j.file, j.number, j.size = next.file, number+1, next.size
	info := j.info
	info.LastSeq, info.Updated = j.appended, j.updated
	_ = old.Close() // it was synced
	return number, info, nil
}

func (j *FileJournal) lastAppended() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.appended
}

// nextJournal makes the journal after this one. Its header covers what that of
// the first journal of this generation does.
func (j *FileJournal) nextJournal() (*frameWriter, error) {
	j.mu.Lock()
	number := j.number + 1
	j.mu.Unlock()
	w, err := j.createJournal(number, j.oldest-1)
	if err != nil {
		return nil, err
	}
	if err := w.sync(); err != nil {
		return nil, w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return nil, w.abandon(err)
	}
	if err := j.store.disk.SyncDir(j.store.run(j.info.RunID)); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

// compact makes the journals up to a number, which nobody writes to any more,
// part of the snapshot.
func (j *FileJournal) compact(number uint64, info Info) error {
	w, err := createFrames(j.store.disk, j.path(snapshotName))
	if err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, err)
	}
	if err := j.writeSnapshot(w, number, info); err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, w.abandon(err))
	}
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, w.abandon(err))
	}
	if err := w.rename(); err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, w.abandon(err))
	}
	if err := j.store.disk.SyncDir(j.store.run(info.RunID)); err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, err)
	}
	j.removeJournals(number)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.oldest, j.sealed, j.snapshotSize = number+1, 0, w.size
	return nil
}

// writeSnapshot copies records without decoding them.
func (j *FileJournal) writeSnapshot(w *frameWriter, number uint64, info Info) error {
	w.frame(frameHeader, header{Format: FormatVersion, Covers: number, Info: info})
	names := []string{snapshotName}
	for n := j.oldest; n <= number; n++ {
		names = append(names, fmt.Sprintf(journalName, n))
	}
	for _, name := range names {
		data, err := os.ReadFile(j.path(name))
		if name == snapshotName && os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		p, err := split(info.RunID, name, data)
		if err != nil {
			return err
		}
		if p.damage != nil || p.torn != nil {
			return &CorruptError{RunID: info.RunID, File: name, Err: errNoFrame}
		}
		for i := range p.frames {
			if f := &p.frames[i]; f.kind == frameRecords {
				w.records(f.body)
			}
		}
	}
	w.frame(frameEnd, info)
	return w.sync()
}
