package filestore

import (
	"context"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/snapshot"
)

// begin writes the beginning of a generation to the journal. If the run exists, begin writes the
// run's meta file twice. Before writing the journal, it sets the status in the meta file to running
// but keeps the number of the previous generation, so that readers no longer trust the meta file. A
// crash at this point leaves the run unchanged. Once the journal is synced, begin writes the number
// of the new generation to the meta file.
//
// begin also copies changes from the update file into the journal. Meanwhile, it holds the lock on
// the meta file, so that no Update changes the info.
func (j *Journal) begin(r *reading) error {
	d := j.dir
	l, err := d.lockMeta(context.Background(), true)
	if err != nil {
		return err
	}
	defer l.release()
	u, err := d.readUpdate()
	if err != nil {
		return err
	}
	if u.isOf(&r.recorded) {
		j.info, j.restored.Info = u.withMetadata(j.info), u.withMetadata(j.restored.Info)
	}
	j.changed, j.notify, j.lost = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	j.snapshotSize = r.snapshotSize
	j.compactAt = max(d.store.compactFrom, 2*j.snapshotSize)
	j.info.LastSeq = uint64(r.run.Len())
	j.appended, j.synced = j.info.LastSeq, j.info.LastSeq
	if r.listing.unfinished {
		d.removeLeftovers()
	}
	running := header{pid: os.Getpid(), info: j.restored.Info}
	if r.found {
		running.info.Status, running.info.Generation = snapshot.StatusRunning, r.recorded.Generation
		running.info.LastSeq = r.meta.info.LastSeq // later records may not be on disk yet
		if err := l.write(&running); err != nil {
			return unavailable(err)
		}
	}
	if err := j.beginJournal(r); err != nil {
		return err
	}
	running.info = j.info
	if err := l.write(&running); err != nil {
		d.store.warn(d.runID, err)
	}
	if u.exists() {
		_ = remove(d.disk, d.path(updateName)) // its changes are now in the journal
	}
	return nil
}

func (j *Journal) beginJournal(r *reading) error {
	if r.last != nil {
		return j.continueLast(r)
	}
	d := j.dir
	j.number = r.listing.newest() + 1
	j.oldest = j.number
	w, err := d.rewrite(r, &j.info)
	if err != nil {
		return err
	}
	j.file, j.size, j.allocated, j.syncedTo = w.file, w.size, w.allocated, w.size
	if r.willHaveCovered() {
		d.removeCovered(j.number - 1)
	}
	return nil
}

// rewrite writes a new journal with all records that are not in the snapshot. From then on, the old
// journals are no longer read. This is needed because the last one may have a torn end, or syncing
// it may have failed: it is then unknown which of its bytes are on the disk, and another sync would
// not reveal it.
//
// The rename of the new journal makes it valid and makes the old journals invalid, since its header
// covers them. Before the rename, the run is unchanged. After the rename, it makes no difference
// whether the old journals still exist.
func (d *runDir) rewrite(r *reading, info *snapshot.Info) (*frameWriter, error) {
	number, last := r.listing.newest()+1, uint64(r.run.Len())
	w, err := createFrames(d.disk, d.path(journalName(number)), false, &header{covers: number - 1, carried: last, info: *info})
	if err != nil {
		return nil, err
	}
	for seq := r.compacted + 1; seq <= last; seq++ {
		w.record(r.run.Encoded(seq))
	}
	return w.publish(d.syncDirs)
}

// settle rewrites a run whose process has ended, so that the run's info and all of its records are
// durable. It returns where the new journal ends. The caller must have locked the run, and must
// then write the meta file and remove the old journals.
func (d *runDir) settle(r *reading, info *snapshot.Info) (closedEnd, error) {
	if r.torn != nil {
		d.store.warn(d.runID, r.torn)
	}
	w, err := d.rewrite(r, info)
	if err != nil {
		return closedEnd{}, err
	}
	_ = w.file.Close() // the file was synced
	return closedEnd{r.listing.newest() + 1, w.size}, nil
}

// continueLast begins the generation in the previous generation's journal, all of which is on the
// disk. It appends one frame and renames nothing. If that fails, it cuts the frame off, and the next
// Open begins another journal.
func (j *Journal) continueLast(r *reading) error {
	d := j.dir
	j.number = r.last.number
	j.oldest = j.number
	f, err := d.disk.OpenToWrite(d.path(journalName(j.number)))
	if err != nil {
		return unavailable(err)
	}
	j.file, j.size, j.allocated, j.syncedTo = f, r.last.end, r.last.size, r.last.end
	if err = j.beginAtEnd(); err != nil {
		_ = f.Truncate(r.last.end)
		_ = f.Close()
		return unavailable(err)
	}
	if r.hasCovered() {
		d.removeCovered(j.number - 1)
	}
	return nil
}

// beginAtEnd appends the frame that begins the generation, and syncs it.
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

// removeLeftovers removes unfinished files left behind by a crash. The caller has locked the run
// and the meta file, so no other process is writing such a file.
func (d *runDir) removeLeftovers() {
	entries, _ := d.disk.ReadDir(d.path())
	for _, e := range entries {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = remove(d.disk, d.path(e.Name()))
		}
	}
}

// removeCovered removes the journals up to the given number, which are covered by another file, and
// all snapshots except the newest. If a file cannot be removed, readers ignore it, and the next
// call tries again.
func (d *runDir) removeCovered(upTo uint64) {
	l, err := d.listing()
	if err != nil {
		return
	}
	for _, n := range l.journals {
		if n <= upTo {
			_ = remove(d.disk, d.path(journalName(n)))
		}
	}
	for i, n := range l.snapshots {
		if i < len(l.snapshots)-1 {
			_ = remove(d.disk, d.path(snapshotName(n)))
		}
	}
}
