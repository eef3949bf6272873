package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// Compaction. The journals of a run become part of its snapshot:
//
//  1. journal n+1 is made, with a header and no records, and synced under its
//     name;
//  2. journal n is sealed: it is synced, and from then on n+1 is written to;
//  3. the snapshot and the journals up to n are read, and all their records are
//     written to snapshot n under a temporary name, which is synced; if a
//     record up to the last one of n is missing, the compaction fails;
//  4. it is renamed, and the directory is synced;
//  5. the journals up to n, and older snapshots, are removed.
//
// A crash after 1 leaves an empty journal, which adds nothing. During 2 no record can be appended.
// So if a record is on the disk in n+1, all earlier records are on the disk in n. A crash in 3
// leaves a file under a name that readers ignore. The rename in 4 makes the snapshot replace the
// older one and the journals up to its number; the directory is synced, so the snapshot is durable
// before 5 removes what it replaces. After 4, readers ignore these files whether they still exist
// or not.
//
// If a step fails and the journal itself is not broken, nothing has changed: all files are still
// there, the run continues, and the next attempt is made when the journals are twice as long. The
// snapshot of that attempt has another number.

// maybeCompact starts a compaction if the journals have outgrown the
// snapshot. j.mu is held.
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
		known := j.err != nil && errors.Is(err, j.err) // the callers of Append, Sync or Close get this error themselves
		j.mu.Unlock()
		if err != nil && !known {
			j.dir.store.warn(j.info.RunID, err)
		}
	})
}

// seal switches the run to its next journal. It returns the number of the sealed journal and the
// info of the run at the end of that journal.
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
	if j.err != nil { // also if the journal was closed: then Close does the compaction
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

// nextJournal makes the journal after this one. Its header covers the journals before oldest.
func (j *Journal) nextJournal() (*frameWriter, error) {
	j.mu.Lock()
	name, h := journalName(j.number+1), header{covers: j.oldest - 1, info: j.info} // the journals from oldest on still have records that the snapshot lacks
	j.mu.Unlock()
	w, err := createFrames(j.dir.disk, j.dir.path(name), false, &h)
	if err != nil {
		return nil, err
	}
	return w.publish(func() error { return j.dir.disk.SyncDir(j.dir.path()) })
}

// compact makes the journals up to a number part of the snapshot. Those journals must be sealed.
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
		return 0, fmt.Errorf("the files have %d records, and %d were appended", last, info.LastSeq)
	}
	run := *r.run
	run.Info = info
	return d.writeSnapshot(&run, number)
}

// writeSnapshot writes a snapshot, and makes its name durable.
func (d *runDir) writeSnapshot(run *snapshot.Run, number uint64) (size int64, err error) {
	name := d.path(snapshotName(number))
	return replace(d.disk, name+tmpSuffix, name, run)
}
