package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The update file of a run contains the changes that Update has made since the run was last opened.
// It is separate from the journal, because only the process that has the run open may write to the
// journal, while any process may change the run's metadata and how long the run is kept. The file
// consists of one frame and is replaced as a whole. The next opening of the run starts with the
// changed info.

// An update is the content of an update file. The zero update means that there is no file.
type update struct {
	// info is the run's info with the changes. If its status is running, the run was open when it
	// was changed, and only the fields that withMetadata copies count.
	info snapshot.Info
}

func (u *update) exists() bool { return u.info.RunID != "" }

// isOf reports whether the update belongs to the same run and generation as info, which is from
// the journals.
func (u *update) isOf(info *snapshot.Info) bool {
	return u.info.RunID == info.RunID && u.info.Created.Equal(info.Created) && u.info.Generation == info.Generation
}

// apply applies the update to the info from the journals, and returns the result.
func (u *update) apply(info snapshot.Info) snapshot.Info {
	if !u.isOf(&info) {
		return info
	}
	isLater := u.info.Updated.After(info.Updated)
	if isLater && u.isWhole() {
		after := u.info.Clone()
		after.LastSeq = info.LastSeq
		return after
	}
	info = u.withMetadata(info)
	if isLater {
		info.Updated = u.info.Updated
	}
	return info
}

// isWhole reports whether all fields of the info count. They do if no process had the run open.
func (u *update) isWhole() bool { return u.info.Status != snapshot.StatusRunning }

// withMetadata returns info with the values from u in those fields that Update may change at any
// time.
func (u *update) withMetadata(info snapshot.Info) snapshot.Info {
	info.Metadata, info.Pinned, info.Expires = u.info.Metadata.Clone(), u.info.Pinned, u.info.Expires
	return info
}

// readUpdate reads the update file. The error is ErrCorrupt if the file is damaged.
func (d *runDir) readUpdate() (update, error) {
	data, err := readFile(d.disk, d.path(updateName), maxMeta)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return update{}, nil
	case errors.Is(unavailable(err), snapshot.ErrUnavailable):
		return update{}, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	var h header
	if err == nil {
		h, _, err = frameReaderOf(updateName, data).header(d.runID)
	}
	switch {
	case errors.Is(err, snapshot.ErrFormat):
		return update{}, fmt.Errorf("snapshot: run %s: %s: %w", d.runID, updateName, err)
	case err != nil:
		return update{}, &snapshot.CorruptError{RunID: d.runID, File: updateName, Err: err}
	}
	return update{h.info}, nil
}

// writeUpdate replaces the update file durably.
func (d *runDir) writeUpdate(u *update) error {
	data, err := appendHeader(nil, &header{info: u.info})
	if err != nil {
		return err
	}
	name := d.path(updateName)
	_, err = replace(d.disk, name+tmpSuffix, name, bytes.NewReader(data))
	return err
}

// Update implements [snapshot.Store].
func (s *Store) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	defer s.index.change(runID)
	l, err := d.lock(ctx, false, false)
	if errors.Is(err, snapshot.ErrLocked) {
		return d.updateOpen(ctx, change)
	} else if err != nil {
		return snapshot.Info{}, err
	}
	defer l.release()
	return d.locked(l).updateClosed(ctx, change)
}

// updateOpen updates a run that is locked. Either another Update is running, or a process has the run
// open or is opening or closing it.
func (d *runDir) updateOpen(ctx context.Context, change func(*snapshot.Info) error) (snapshot.Info, error) {
	l, err := d.lockMeta(ctx, false)
	switch {
	case err != nil:
		return snapshot.Info{}, err
	case l == nil:
		return snapshot.Info{}, d.lockedError() // the generation is just beginning
	}
	defer l.release()
	d = d.locked(l.fileLock)
	u, err := d.readUpdate()
	if err != nil {
		return snapshot.Info{}, err
	}
	recorded, err := d.end(ctx, time.Time{})
	if err != nil {
		return snapshot.Info{}, err
	}
	before := u.apply(recorded)
	before.Open = true
	isWhole := u.isOf(&recorded) && u.isWhole()
	after, err := storekit.UpdatedInfo(before, change)
	if err != nil {
		return snapshot.Info{}, err
	}
	u.info = after.Clone()
	if u.info.LastSeq = 0; !isWhole { // the records and the status may not be on the disk yet
		u.info.Status = snapshot.StatusRunning
	}
	if err := d.writeUpdate(&u); err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, unavailable(err))
	}
	meta, err := d.readMeta()
	if err == nil && meta.isWhole {
		meta.info = u.apply(meta.info)
		err = l.write(&meta.header)
	}
	if err != nil {
		d.store.warn(d.runID, err)
	}
	return after, nil
}

// updateClosed updates a run that the caller has locked.
func (d *runDir) updateClosed(ctx context.Context, change func(*snapshot.Info) error) (snapshot.Info, error) {
	if there, err := d.exists(); err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, unavailable(err))
	} else if !there {
		return snapshot.Info{}, storekit.NotFoundError(d.runID)
	}
	l, err := d.lockMeta(ctx, true)
	if err != nil {
		return snapshot.Info{}, err
	}
	defer l.release()
	meta, err := d.meta()
	if err != nil {
		return snapshot.Info{}, err
	}
	before, end := meta.info, meta.closed
	var r *reading // nil if the meta file says enough about the run
	if !meta.isClosed() {
		if r, err = d.readLocked(); err != nil {
			return snapshot.Info{}, err
		}
		if before, err = r.crashedInfo(); err != nil {
			return snapshot.Info{}, err
		}
	}
	after, err := storekit.UpdatedInfo(before, change)
	if err != nil {
		return snapshot.Info{}, err
	}
	if r != nil {
		end, err = d.settle(r, &before)
	} else { // the meta file's new time makes an index read the run again, even if this process ends before the write below
		err = l.write(&meta.header)
	}
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, unavailable(err))
	}
	u := update{after.Clone()}
	u.info.LastSeq = 0
	if err := d.writeUpdate(&u); err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, unavailable(err))
	}
	if err := l.write(&header{closed: end, info: after}); err != nil {
		d.store.warn(d.runID, err)
	}
	if r != nil {
		d.removeCovered(end.journal - 1)
	}
	return after, nil
}
