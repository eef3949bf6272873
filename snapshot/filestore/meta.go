package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The meta file of a run is an index: its Info in one frame, which lists read instead of the run.
// It is derived from the journals, the snapshot and the update file, is written after them, and is
// never synced. A crash may leave an older meta file, a part of one, or none. So a reader uses it
// only if the other files have not changed since; otherwise it reads those.
//
// Before a new generation of a run begins, its meta file gets the status running. If a reader finds
// this status, and no process has the run open, it reads the journals instead. So readers do not
// trust an outdated meta file, no matter when a crash comes.

// metaWait is how long a process waits for the lock of a meta file.
const metaWait = 20 * time.Second

// maxMeta is the maximum size of a meta file.
const maxMeta = 16 << 20

// The size of a meta file is a multiple of metaBlock, so that writing it seldom changes its size.
const metaBlock = 512

// A metaFile is the content of a meta file, and of the update file.
type metaFile struct {
	header
	isWhole bool // the file exists and can be read
	ok      bool // isWhole is true, and the other files have not changed since this one was written

	update  update
	damaged error // why the update file cannot be used; nil if it can
}

// isClosed reports whether the file says how the run was closed, and is up to date.
func (m *metaFile) isClosed() bool { return m.ok && m.info.Status != snapshot.StatusRunning }

// isUnchangedSince reports whether an earlier file agrees about the run and its generation, about
// whether it is running, and about whether the file is up to date.
func (m *metaFile) isUnchangedSince(other *metaFile) bool {
	running := snapshot.StatusRunning
	return m.ok == other.ok && m.info.Created.Equal(other.info.Created) && m.info.Generation == other.info.Generation &&
		(m.info.Status == running) == (other.info.Status == running)
}

// meta reads the meta file and the update file, and checks whether the other files have changed
// since the meta file was written.
func (d *runDir) meta() (metaFile, error) {
	m, err := d.metaAndUpdate()
	if err == nil {
		m.ok, err = d.isUpToDate(&m)
	}
	return m, err
}

// metaAndUpdate reads the meta file and the update file.
func (d *runDir) metaAndUpdate() (metaFile, error) {
	m, err := d.readMeta()
	if err != nil {
		return m, err
	}
	if m.update, err = d.readUpdate(); isContentError(err) {
		m.damaged, err = err, nil
	}
	return m, err
}

// isUpToDate reports whether the other files have not changed since the meta file was written. It
// does not check the journals of a run that is running: they change all the time.
func (d *runDir) isUpToDate(m *metaFile) (bool, error) {
	switch u := &m.update; {
	case !m.isWhole, m.damaged != nil, u.isOf(&m.info) && u.info.Updated.After(m.info.Updated):
		return false, nil
	case m.info.Status == snapshot.StatusRunning:
		return true, nil
	}
	return d.endsAt(m.closed)
}

// endsAt reports whether nothing was written to a run after it was closed.
func (d *runDir) endsAt(c closedEnd) (bool, error) {
	l, err := d.listing()
	switch {
	case err != nil:
		return false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	case l.newest() > c.journal:
		return false, nil
	case c.end == 0: // the journal was compacted
		return slices.Contains(l.snapshots, c.journal), nil
	}
	f, _, err := d.disk.Open(d.path(journalName(c.journal)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, frameHead)
	n, err := f.ReadAt(head, c.end)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	return isZero(head[:n]), nil
}

// metaReads is how many times an invalid meta file is read: another process may be writing it.
const metaReads = 3

// readMeta reads the meta file of a run. If the file does not exist or is not valid, isWhole of the
// result is false. An error means that the disk could not be read.
func (d *runDir) readMeta() (m metaFile, err error) {
	for range metaReads {
		data, err := readFile(d.disk, d.path(metaName), maxMeta)
		if err = unavailable(err); errors.Is(err, snapshot.ErrUnavailable) {
			return metaFile{}, fmt.Errorf("snapshot: run %s: %w", d.runID, err)
		} else if err != nil || len(data) == 0 {
			return metaFile{}, nil
		}
		h, _, err := frameReaderOf(metaName, data).header(d.runID)
		if err == nil {
			return metaFile{header: h, isWhole: true}, nil
		}
	}
	return metaFile{}, nil
}

// A metaLock is the lock of a meta file, which is open for writing.
type metaLock struct {
	*fileLock
	file diskFile
}

// lockMeta opens and locks the meta file, and waits for the lock if necessary. A process holds this
// lock while it writes the meta file. If it reads the update file in order to write its content
// elsewhere, it holds the lock from the read until the write is done. A caller that has locked the
// run sets create, to create a missing meta file. Without create, lockMeta returns nil if the meta
// file is missing.
//
// A process of Reprise holds the lock only for a few syncs. If the lock is held for longer than
// metaWait, another program holds it.
func (d *runDir) lockMeta(ctx context.Context, create bool) (*metaLock, error) {
	name := d.path(metaName)
	isMissing := func(err error) bool {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) || errors.Is(err, errNoFile)
	}
	var f diskFile
	open := func() (_ lockable, err error) {
		if f, err = d.disk.OpenToWrite(name); create && isMissing(err) {
			f, err = d.disk.Create(name)
		}
		return f, err
	}
	l, err := exclusive(ctx, name, metaWait, open)
	switch {
	case err == nil:
		return &metaLock{l, f}, nil
	case errors.Is(err, errHeld) && ctx.Err() == nil:
		err = fmt.Errorf("%w: another program has the lock on %s", snapshot.ErrUnavailable, name)
	case !create && isMissing(err):
		err = checkDir(d.path())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, storekit.NotFoundError(d.runID) // the run was deleted
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	return nil, nil
}

// write writes the locked meta file. If the file no longer has its name, it is no longer the meta
// file of the run, and writing to it does no harm.
func (l *metaLock) write(h *header) error {
	data, err := appendHeader(make([]byte, 0, 2*metaBlock), h)
	if err != nil {
		return err
	}
	data = append(data, make([]byte, -len(data)&(metaBlock-1))...)
	return writeAt(l.file, data, 0)
}

// writeClosedMeta writes the meta file of a run that is closed. The caller has locked the run.
// The info and the journal up to end are durable already.
func (d *runDir) writeClosedMeta(info snapshot.Info, end closedEnd) error {
	l, err := d.lockMeta(context.Background(), true)
	if err != nil {
		return err
	}
	defer l.release()
	u, err := d.readUpdate()
	if err != nil {
		return err
	}
	if err := l.write(&header{closed: end, info: u.apply(info)}); err != nil {
		return fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	return nil
}
