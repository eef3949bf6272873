package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// Compaction merges the journals of a run into its snapshot, in five steps:
//
//  1. Create journal n+1, with a header and without records, and sync the file
//     and its name.
//  2. Seal journal n: sync it, and append all further records to journal n+1.
//  3. Read the snapshot and the journals up to n, write all their records to
//     snapshot n under a temporary name, and sync it. If a record up to the last
//     one in journal n is missing, the compaction fails.
//  4. Rename the new snapshot, and sync the directory.
//  5. Remove the journals up to n, and older snapshots.
//
// A crash after step 1 leaves an empty journal, which adds nothing. No record can be appended
// during step 2; so if journal n+1 has a record on disk, all earlier records are on disk in journal
// n. A crash in step 3 leaves a file whose name readers ignore. With the rename in step 4, the new
// snapshot replaces the old one and the journals up to n. Because the directory is synced, the new
// snapshot is durable before step 5 removes the files that it replaces. After step 4, readers
// ignore these files, whether or not they still exist.
//
// If a step fails and the journal is not broken, no data is lost: all files still exist, the run
// continues, and compaction is tried again when the journals are twice as large. That attempt
// writes its snapshot under another number.

// maybeCompact starts a compaction if the journals have outgrown the snapshot. The caller must hold
// j.mu.
func (j *Journal) maybeCompact() {
	if j.compacting || j.sealed+j.size <= j.compactAt {
		return
	}
	j.compacting = true
	j.wait.Go(func() {
		number, info, err := j.seal()
		if err == nil {
			err = j.compact(number, info)
		}
		j.mu.Lock()
		j.compacting = false
		j.compactAt = max(j.dir.store.compactFrom, 2*j.snapshotSize)
		if err != nil {
			j.compactAt = 2 * (j.sealed + j.size)
		}
		known := j.err != nil && errors.Is(err, j.err) // Append, Sync or Close returns this error anyway
		j.mu.Unlock()
		if err != nil && !known {
			j.dir.store.warn(j.info.RunID, err)
		}
	})
}

// seal switches the run to its next journal. It returns the number of the sealed journal, and the
// run's info at the end of that journal.
func (j *Journal) seal() (uint64, snapshot.Info, error) {
	next, err := j.nextJournal()
	if err != nil {
		return 0, snapshot.Info{}, fmt.Errorf("snapshot: run %s: %w", j.info.RunID, err)
	}
	j.mu.Lock()
	upTo := j.appended
	j.mu.Unlock()
	if err := j.Sync(context.Background(), upTo); err != nil { // so that the sync below is short
		_ = next.abandon(nil)
		return 0, snapshot.Info{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		_ = j.await(context.Background())
	}
	if j.err == nil && j.synced < j.appended {
		if err := j.syncFile(j.file, j.appended); err != nil { // j.mu is held, so no record can be appended
			_ = j.fail(err)
		} else {
			j.synced = j.appended
		}
	}
	if j.err != nil { // if the journal was closed, Close does the compaction
		_ = next.abandon(nil)
		return 0, snapshot.Info{}, j.err
	}
	old, number := j.file, j.number
	j.sealed += j.size
	j.file, j.number = next.file, number+1
	j.size, j.allocated, j.syncedTo = next.size, next.allocated, next.size
	info := j.info
	info.LastSeq = j.appended
	j.signal()
	_ = old.Close() // the file was synced
	return number, info, nil
}

// nextJournal creates the next journal. Its header covers the journals before j.oldest.
func (j *Journal) nextJournal() (*frameWriter, error) {
	j.mu.Lock()
	name, h := journalName(j.number+1), header{covers: j.oldest - 1, info: j.info} // the journals from oldest on contain records that are not in the snapshot
	j.mu.Unlock()
	w, err := createFrames(j.dir.disk, j.dir.path(name), false, &h)
	if err != nil {
		return nil, err
	}
	return w.publish(func() error { return j.dir.disk.SyncDir(j.dir.path()) })
}

// compact merges the journals up to the given number into the snapshot. No more records may be
// appended to these journals.
func (j *Journal) compact(number uint64, info snapshot.Info) error {
	size, err := j.snapshotUpTo(number, info)
	if err != nil {
		return fmt.Errorf("snapshot: compact run %s: %w", info.RunID, err)
	}
	j.dir.removeCovered(number)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.oldest, j.sealed, j.snapshotSize = number+1, 0, size
	return nil
}

// snapshotUpTo writes the snapshot that replaces the journals up to number.
func (j *Journal) snapshotUpTo(number uint64, info snapshot.Info) (int64, error) {
	d := j.dir
	l, err := d.listing()
	if err != nil {
		return 0, err
	}
	for i, n := range l.journals {
		if n > number {
			l.journals = l.journals[:i]
			break
		}
	}
	r, err := d.collect(context.Background(), l)
	if err != nil {
		return 0, err
	}
	switch last := uint64(r.run.Len()); {
	case r.damage != nil:
		return 0, r.damage
	case r.torn != nil:
		return 0, r.torn
	case last != info.LastSeq:
		return 0, fmt.Errorf("the files have %d records, but %d were appended", last, info.LastSeq)
	}
	run := *r.run
	run.Info = info
	return d.writeSnapshot(&run, number)
}

// writeSnapshot writes a snapshot, and makes both the snapshot and its name durable.
func (d *runDir) writeSnapshot(run *snapshot.Run, number uint64) (size int64, err error) {
	name := d.path(snapshotName(number))
	return replace(d.disk, name+tmpSuffix, name, run)
}
