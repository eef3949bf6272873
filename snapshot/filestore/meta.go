package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The meta file of a run is one frame with its Info, and with where its journal
// ends if it was closed. It is what List reads, and the truth of what Update
// changes. It is written after the records up to LastSeq are durable, so a run with fewer
// has lost records.

// metaWait bounds the wait for the lock of a meta file.
const metaWait = 20 * time.Second

// metaMax is how long a meta file may be.
const metaMax = 16 << 20

// meta reads the meta file and checks that it is not out of date: if it says that the run
// is queued, and the journal goes on, it cannot be trusted.
func (d *runDir) meta() (metaFile, error) {
	m, err := d.readMeta()
	if err != nil || !m.waits() {
		return m, err
	}
	m.begun, err = d.goesOn(m.closed)
	m.ok = err == nil && !m.begun
	return m, err
}

// goesOn reports whether anything was written to a journal after it was closed.
func (d *runDir) goesOn(c closed) (bool, error) {
	f, err := d.disk.Open(d.path(journalName(c.journal)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it is in the snapshot
	} else if err != nil {
		return false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, frameHead)
	n, err := f.ReadAt(head, c.end)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	}
	return slices.ContainsFunc(head[:n], func(b byte) bool { return b != 0 }), nil
}

// A metaFile is what was read of one.
type metaFile struct {
	header
	ok    bool // it can be trusted
	begun bool // it cannot: it says that the run is queued, which has begun
	size  int64
}

// waits reports whether the run is queued, and it is known where its journal ends.
// The file that says so may still be found when the run has begun, so its journal
// is looked at too.
func (h *header) waits() bool {
	return h.info.Status == snapshot.StatusQueued && h.closed.journal > 0
}

// isAs reports whether both are of one run, and of one stretch of its life: of a
// generation that runs, or of the time after it.
func (m *metaFile) isAs(other *metaFile) bool {
	running := snapshot.StatusRunning
	return m.ok == other.ok && m.begun == other.begun && m.info.Created.Equal(other.info.Created) && m.info.Generation == other.info.Generation &&
		(m.info.Status == running) == (other.info.Status == running)
}

// metaReads is how often a meta file is read that cannot be trusted: it may have
// been read in the middle of a write.
const metaReads = 3

// readMeta reads the meta file of a run. It is not ok if there is none, or none that
// is whole. An error says nothing about it.
func (d *runDir) readMeta() (m metaFile, err error) {
	for range metaReads {
		data, err := readFile(d.disk, d.path(metaName), metaMax)
		if err = unavailable(err); errors.Is(err, snapshot.ErrUnavailable) {
			return metaFile{}, fmt.Errorf("snapshot: run %s: %w", d.runID, err)
		} else if err != nil {
			return metaFile{}, nil
		}
		h, _, err := newFrameReader(metaName, bytesSource(data), int64(len(data))).header(d.runID)
		if err == nil {
			return metaFile{header: h, ok: true, size: int64(len(data))}, nil
		}
	}
	return metaFile{}, nil
}

// lockMeta waits for the lock of the meta file, without which nobody writes it. It
// returns nil if there is no such file, or something else of its name: only the one
// who has locked the run makes the file. A writer has the lock for as long as one sync
// takes; who has it longer than metaWait is none.
func (d *runDir) lockMeta(ctx context.Context) (*fileLock, error) {
	name := d.path(metaName)
	exists := func() error {
		_, err := os.Lstat(name)
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, metaWait, fmt.Errorf("%w: another program has the lock on %s", snapshot.ErrUnavailable, name))
	defer cancel()
	l, err := exclusive(ctx, name, true, exists, func(name string) (*os.File, error) { return openAs(name, os.O_RDWR) })
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) || errors.Is(err, errNoFile) {
		return nil, isDir(d.path())
	}
	return l, err
}

// holds reports whether recorded, which the journals or the snapshot have on the
// disk, says all that the meta file does: nothing is lost with that file.
func holds(recorded, meta *snapshot.Info) bool {
	updated := recorded.Pinned == meta.Pinned && recorded.Expires.Equal(meta.Expires) && reflect.DeepEqual(recorded.Metadata, meta.Metadata)
	if meta.Status == snapshot.StatusRunning || meta.Generation < recorded.Generation {
		return updated // the rest changes only while nobody has the run
	}
	return updated && !storekit.OwnedChanged(recorded, meta)
}

// changeMeta changes the meta file to what change makes of it. Several processes
// do so one after the other. The caller has locked the run, or the file is there.
//
// The new file is on the disk when changeMeta returns, unless what recorded says
// is there already and holds all of the old file. Then it is written in place,
// and a loss of power may leave the old file, the new one or one that cannot be
// read. If the old one says that the run is running, readers read the records; if
// it says that the run is queued, they look whether its journal goes on; any other
// is believed, see syncMeta. Nil stands for nothing that is recorded.
func (d *runDir) changeMeta(recorded *snapshot.Info, change func(before *metaFile) (header, error)) (snapshot.Info, error) {
	l, err := d.lockMeta(context.Background())
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, noRun(d.runID) // it was deleted
	} else if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, err)
	}
	if l != nil {
		defer l.release()
	}
	before, err := d.readMeta()
	if err != nil {
		return snapshot.Info{}, err
	}
	after, err := change(&before)
	if err != nil {
		return snapshot.Info{}, err
	}
	if err := d.writeMeta(l, &before, &after, recorded); err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", d.runID, err)
	}
	return after.info, nil
}

// metaBlock is what the size of a meta file is a multiple of, so that it mostly
// keeps its size. Zeros follow the frame.
const metaBlock = 512

// writeMeta writes the meta file, of which l is the lock; nil if there was none.
func (d *runDir) writeMeta(l *fileLock, before *metaFile, after *header, recorded *snapshot.Info) error {
	data, err := appendHeader(make([]byte, 0, 2*metaBlock), after)
	if err != nil {
		return err
	}
	data = append(data, make([]byte, -len(data)&(metaBlock-1))...)
	name := d.path(metaName)
	named := d.disk
	if l != nil {
		named = d.locked(l).disk
	}
	switch {
	case recorded == nil || before.ok && !holds(recorded, &before.info):
		if err := replace(named, name, data); err != nil {
			return err
		}
		return d.disk.SyncDir(d.path())
	case before.ok:
		data = append(data, make([]byte, max(0, before.size-int64(len(data))))...)
		return overwrite(named, name, data)
	} // a reader may find less than all of it, and then reads the records
	return write(named, name, data, func(diskFile) error { return nil })
}

// overwrite writes the beginning of a file.
func overwrite(d disk, name string, data []byte) error {
	f, err := d.OpenToWrite(name)
	if err != nil {
		return err
	}
	return errors.Join(writeAt(f, data, 0), f.Close())
}

// syncMeta syncs the meta file.
func (d *runDir) syncMeta() error {
	f, err := d.disk.OpenToWrite(d.path(metaName))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// replace writes a file that takes the place of another, if there is one. It is on
// the disk when it returns, though its name is not.
func replace(d disk, name string, data []byte) error {
	if err := writeSynced(d, name+tmpSuffix, data); err != nil {
		return err
	}
	if err := d.Rename(name+tmpSuffix, name); err != nil {
		return errors.Join(err, remove(d, name+tmpSuffix))
	}
	return nil
}

// Info implements [snapshot.Reader]. Of a run that is open it counts the records,
// and of one that was open when its process ended it reads them.
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	if err := s.check(ctx, runID); err != nil {
		return snapshot.Info{}, err
	}
	return s.dir(runID).info(ctx, false)
}

// info is Info. Locked says that the caller holds the lock of the run, so that
// nobody has it open. What is counted is of the generation that the meta file has
// before and after.
func (d *runDir) info(ctx context.Context, locked bool) (snapshot.Info, error) {
	before, err := d.meta()
	for err == nil && before.ok {
		if before.info.Status != snapshot.StatusRunning {
			return before.info, nil
		}
		if held, err := isHeld(d.path(lockName)); locked || err != nil || !held {
			break
		}
		read, readErr := d.end(ctx, before.info.Created)
		meta, err := d.meta()
		if err != nil {
			return snapshot.Info{}, err
		}
		if meta.isAs(&before) {
			info := meta.info
			info.Open, info.LastSeq = true, max(read.LastSeq, info.LastSeq)
			if read.Generation == info.Generation {
				info = endedAs(info, &read)
			}
			return info, readErr
		}
		before = meta
	}
	if err != nil {
		return snapshot.Info{}, err
	}
	run, err := d.store.Load(ctx, d.runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	return run.Info, nil
}

// endedAs is what is known of a run that may have ended as the journal says, and the
// meta file does not say so: its process ended before, or the power was lost.
func endedAs(meta snapshot.Info, journal *snapshot.Info) snapshot.Info {
	if journal.Status != snapshot.StatusRunning {
		meta.Status, meta.Stop, meta.Due, meta.Usage = journal.Status, journal.Stop, journal.Due, journal.Usage
		if journal.Updated.After(meta.Updated) {
			meta.Updated = journal.Updated
		}
	}
	return meta
}

// glance is what the meta file says of a run. It is rough if that may not be
// how the run stands now, for nobody has closed it.
func (d *runDir) glance() (info snapshot.Info, rough bool, err error) {
	m, err := d.meta()
	for err == nil && m.ok && m.info.Status == snapshot.StatusRunning {
		before := m
		if m.info.Open, err = isHeld(d.path(lockName)); err != nil || !m.info.Open {
			return m.info, true, err // it was closed since, or its process has ended
		}
		open := m.info
		if m, err = d.meta(); err == nil && m.isAs(&before) {
			return open, false, nil
		} // somebody has opened it since, or a namesake
	}
	switch {
	case err != nil:
		return snapshot.Info{}, false, err
	case !m.ok:
		return snapshot.Info{RunID: d.runID}, true, nil
	}
	return m.info, false, nil
}

// about is what is known of a run, without reading its records if it was
// closed, or is open.
func (d *runDir) about(ctx context.Context) (snapshot.Info, error) {
	info, rough, err := d.glance()
	if err == nil && rough {
		info, err = d.store.slowly(ctx, info)
	}
	if errors.Is(err, snapshot.ErrCorrupt) || errors.Is(err, snapshot.ErrFormat) {
		err = nil // info says as much as is known
	}
	return info, err
}
