package filestore

import (
	"context"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// begin begins the generation in a journal, and then makes the meta file say that the run
// is running. A crash between the two leaves the run as it was, or as interrupted if it was
// queued; see compareMeta.
func (j *Journal) begin(r *reading) error {
	j.changed, j.notify, j.lost = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	j.snapshotSize = r.snapshotSize
	j.compactAt = max(j.dir.store.compactFrom, 2*j.snapshotSize)
	j.info.LastSeq = uint64(r.run.Len())
	j.appended, j.synced = j.info.LastSeq, j.info.LastSeq
	if r.listing.unfinished {
		j.dir.removeLeftovers()
	}
	if r.last != nil {
		return j.continueLast(r)
	}
	return j.beginAnother(r)
}

// beginAnother begins the generation in a new journal.
func (j *Journal) beginAnother(r *reading) error {
	d := j.dir
	j.number = r.listing.newest() + 1
	j.oldest = j.number
	w, err := d.rewrite(r, &j.info)
	if err != nil {
		return err
	}
	if err := j.running(r); err != nil {
		if restored := d.restoreMeta(r); restored != nil && !r.found {
			_ = w.file.Close() // a meta file without a journal would be a damaged run: this one is empty
			return unavailable(err)
		}
		return w.abandon(err)
	}
	j.file, j.size, j.allocated, j.syncedTo = w.file, w.size, w.allocated, w.size
	if r.becomesCovered() {
		d.removeCovered(j.number - 1)
	}
	return nil
}

// rewrite writes a new journal with all records that the snapshot does not have. The old
// journals are not read again. The end of one may be torn; or a sync of it failed, and then
// it is unknown which of its bytes are on the disk, and another sync would not tell.
//
// The rename makes the journal valid, and the old ones invalid, since its header covers
// them. Before it, the run is as it was; after it, it makes no difference whether the old
// journals still exist.
func (d *runDir) rewrite(r *reading, info *snapshot.Info) (*frameWriter, error) {
	number, last := r.listing.newest()+1, uint64(r.run.Len())
	w, err := createFrames(d.disk, d.path(journalName(number)), &header{covers: number - 1, carried: last, info: *info})
	if err != nil {
		return nil, err
	}
	for seq := r.compacted + 1; seq <= last; seq++ {
		w.record(r.run.Encoded(seq))
	}
	if err := w.sync(); err != nil {
		return nil, w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return nil, w.abandon(err)
	}
	if err := d.syncDirs(); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

// settle rewrites a run that ended in a crash, so that its info is durable, and returns
// that info and where its journal ends. The run is locked. The caller removes the old
// journals once the meta file says the same.
func (d *runDir) settle() (snapshot.Info, closed, error) {
	r, err := d.readLocked()
	switch {
	case err != nil:
		return snapshot.Info{}, closed{}, err
	case r.damage != nil:
		return snapshot.Info{}, closed{}, advise(r.damage)
	}
	if r.torn != nil {
		d.store.warn(d.runID, r.torn)
	}
	info := r.run.Info
	if info.Status == snapshot.StatusRunning {
		info = storekit.Crashed(info)
	}
	info.LastSeq = uint64(r.run.Len())
	w, err := d.rewrite(r, &info)
	if err != nil {
		return snapshot.Info{}, closed{}, err
	}
	_ = w.file.Close() // it was synced
	return info, closed{r.listing.newest() + 1, w.size}, nil
}

// continueLast begins the generation in the journal of the previous one, which is on the
// disk as it was read: it appends one frame and renames nothing. If that fails, the frame
// is cut off, and the next Open begins another journal.
func (j *Journal) continueLast(r *reading) error {
	d := j.dir
	j.number = r.listing.newest()
	j.oldest = j.number
	f, err := d.disk.OpenToWrite(d.path(journalName(j.number)))
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
		_ = d.restoreMeta(r)
		return unavailable(err)
	}
	if r.hasCovered() {
		d.removeCovered(j.number - 1)
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

// running makes the meta file say that the generation runs, as the journal does. It syncs
// the file, because a power loss could bring back an older one, which would be believed if
// it says how the run ended.
func (j *Journal) running(r *reading) error {
	d := j.dir
	info, err := d.changeMeta(&j.info, func(meta *metaFile) (header, error) {
		return header{pid: os.Getpid(), info: meta.updates(j.info)}, nil
	})
	if err != nil {
		return err
	}
	j.info = info
	if !r.found || r.isQueued() {
		return nil
	}
	return d.syncMeta()
}

// restoreMeta restores the meta file after a generation could not begin, but not where the
// journal ends.
func (d *runDir) restoreMeta(r *reading) error {
	if !r.meta.ok {
		return remove(d.disk, d.path(metaName))
	}
	_, err := d.changeMeta(&r.recorded, func(meta *metaFile) (header, error) {
		return header{info: meta.updates(r.meta.info)}, nil
	})
	return err
}

// updates returns info with what Update may have changed since.
func (m *metaFile) updates(info snapshot.Info) snapshot.Info {
	if m.ok {
		return withUpdates(info, &m.info)
	}
	return info
}

// withUpdates returns info with the fields of meta that Update may change at any time.
func withUpdates(info snapshot.Info, meta *snapshot.Info) snapshot.Info {
	info.Metadata, info.Pinned, info.Expires = meta.Metadata, meta.Pinned, meta.Expires
	return info
}

// removeLeftovers removes unfinished files that a crash has left. The run is locked. It
// also takes the lock of the meta file, so that it does not remove one that is being
// written.
func (d *runDir) removeLeftovers() {
	l, err := d.lockMeta(context.Background())
	if err != nil {
		return
	} else if l != nil {
		defer l.release()
	}
	entries, _ := d.disk.ReadDir(d.path())
	for _, e := range entries {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = remove(d.disk, d.path(e.Name()))
		}
	}
}

// removeCovered removes the journals up to a number, which another file covers, and all
// snapshots but the newest. Readers ignore what could not be removed; the next call removes
// it.
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
