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

// The meta file of a run is an index. It contains the run's Info in one frame, and lists read it
// instead of the whole run. It is derived from the journals, the snapshot and the update file, is
// written after them, and is never synced. A crash may therefore leave an older meta file, only
// part of one, or none. A reader uses the meta file only if the other files have not changed since
// it was written; otherwise it reads the other files.
//
// Before a new generation begins, the status in the run's meta file is set to running. If a reader
// finds this status although no process has the run open, it reads the journals instead. So no
// reader trusts an outdated meta file, no matter when a crash happens.

// metaWait is how long a process waits for the lock on a meta file.
const metaWait = 20 * time.Second

// maxMeta is the maximum size of a meta file.
const maxMeta = 16 << 20

// The size of a meta file is a multiple of metaBlock, so that writing it seldom changes its size.
const metaBlock = 512

// A metaFile holds the contents of a run's meta file and update file.
type metaFile struct {
	header
	isWhole bool // the file exists and is valid
	ok      bool // isWhole is true, and the other files have not changed since this one was written

	update  update
	damaged error // why the update file cannot be used; nil if it can be used
}

// isClosed reports whether the meta file is up to date and describes a run that was closed.
func (m *metaFile) isClosed() bool { return m.ok && m.info.Status != snapshot.StatusRunning }

// isUnchangedSince reports whether m and an earlier version of the file describe the same run and
// generation, and agree on whether the run is running and whether the file is up to date.
func (m *metaFile) isUnchangedSince(other *metaFile) bool {
	running := snapshot.StatusRunning
	return m.ok == other.ok && m.info.Created.Equal(other.info.Created) && m.info.Generation == other.info.Generation &&
		(m.info.Status == running) == (other.info.Status == running)
}

// meta reads the meta file and the update file. It also checks whether the other files have changed
// since the meta file was written, and sets ok accordingly.
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
// does not check the journals of a running run, since they change all the time.
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

// metaReads is how many times a meta file is read before it counts as invalid. A file may look
// invalid because another process is writing it.
const metaReads = 3

// readMeta reads the meta file of a run. If the file does not exist or is not valid, isWhole is
// false in the result. An error means that the disk could not be read.
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

// A metaLock is a lock on a meta file that is open for writing.
type metaLock struct {
	*fileLock
	file diskFile
}

// lockMeta opens and locks the meta file. If necessary, it waits for the lock. A process holds this
// lock while it writes the meta file. A process that copies the content of the update file
// elsewhere takes the lock before it reads that file, and holds it until the copy is written. If
// the meta file is missing, lockMeta creates it if create is set, and returns nil otherwise. Only a
// caller that has locked the run may set create.
//
// A process that uses Reprise holds the lock only for as long as a few syncs take. If the lock is
// held for longer than metaWait, another program holds it.
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
	l, err := exclusive(ctx, name, func(waited time.Duration) bool { return waited < metaWait }, open)
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

// write writes h to the locked meta file. If the file was renamed or removed in the meantime, it
// is no longer the run's meta file, and writing to it does no harm.
func (l *metaLock) write(h *header) error {
	data, err := appendHeader(make([]byte, 0, 2*metaBlock), h)
	if err != nil {
		return err
	}
	data = append(data, make([]byte, -len(data)&(metaBlock-1))...)
	return writeAt(l.file, data, 0)
}

// writeClosedMeta writes the meta file of a closed run, which the caller has locked. The info and
// the journal up to end are already durable.
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
