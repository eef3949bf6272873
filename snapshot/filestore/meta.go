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

// The meta file of a run is one frame with its Info, and with the end of its journal if the
// run was closed. List reads it, and Update writes it. It is written after the records up
// to LastSeq are durable, so a run with fewer has lost records.

// metaWait is how long to wait for the lock of a meta file.
const metaWait = 20 * time.Second

// maxMeta is the size that a meta file may have.
const maxMeta = 16 << 20

// meta reads the meta file and checks that it is not out of date: if it says that the run
// is queued, but the journal continues after that, it cannot be trusted.
func (d *runDir) meta() (metaFile, error) {
	m, err := d.readMeta()
	if err != nil || !m.isQueued() {
		return m, err
	}
	m.begun, err = d.isExtended(m.closed)
	m.ok = err == nil && !m.begun
	return m, err
}

// isExtended reports whether anything was written to a journal after it was closed.
func (d *runDir) isExtended(c closed) (bool, error) {
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

// A metaFile is the content of a meta file.
type metaFile struct {
	header
	ok    bool // it can be trusted
	begun bool // it cannot: it says that the run is queued, but the run has begun
	size  int64
}

// isQueued reports whether the run is queued, and it is known where its journal ends. A
// power loss may bring back such a file after the run has begun, so the journal is checked,
// too.
func (h *header) isQueued() bool {
	return h.info.Status == snapshot.StatusQueued && h.closed.journal > 0
}

// isAs reports whether both are of the same run, and of the same part of its life: a
// generation that runs, or the time after it.
func (m *metaFile) isAs(other *metaFile) bool {
	running := snapshot.StatusRunning
	return m.ok == other.ok && m.begun == other.begun && m.info.Created.Equal(other.info.Created) && m.info.Generation == other.info.Generation &&
		(m.info.Status == running) == (other.info.Status == running)
}

// metaReads is how often a meta file is read that is not valid: it may be in the middle of
// a write.
const metaReads = 3

// readMeta reads the meta file of a run. It is not ok if it does not exist or is not valid.
// An error says nothing about the file.
func (d *runDir) readMeta() (m metaFile, err error) {
	for range metaReads {
		data, err := readFile(d.disk, d.path(metaName), maxMeta)
		if err = unavailable(err); errors.Is(err, snapshot.ErrUnavailable) {
			return metaFile{}, fmt.Errorf("snapshot: run %s: %w", d.runID, err)
		} else if err != nil {
			return metaFile{}, nil
		}
		h, _, err := framesOf(metaName, data).header(d.runID)
		if err == nil {
			return metaFile{header: h, ok: true, size: int64(len(data))}, nil
		}
	}
	return metaFile{}, nil
}

// lockMeta waits for the lock of the meta file, which every writer of the file takes. It
// returns nil if the file does not exist or is not a file: only a process that has locked
// the run makes it. A writer holds the lock for one sync; whoever holds it longer than
// metaWait is not one.
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

// holds reports whether recorded, which is durable in the journals or the snapshot,
// contains all that the meta file says: then nothing is lost with that file.
func holds(recorded, meta *snapshot.Info) bool {
	updated := recorded.Pinned == meta.Pinned && recorded.Expires.Equal(meta.Expires) && reflect.DeepEqual(recorded.Metadata, meta.Metadata)
	if meta.Status == snapshot.StatusRunning || meta.Generation < recorded.Generation {
		return updated // the rest changes only while nobody has the run
	}
	return updated && !storekit.OwnedChanged(recorded, meta)
}

// changeMeta changes the meta file as change says. Several processes may do so, one at a
// time. The caller has locked the run, or the file exists.
//
// The new file is durable when changeMeta returns, unless recorded, which is durable
// elsewhere, contains all of the old file. Then the file is overwritten, and a power loss
// may leave the old file, the new one or an invalid one. If the old one says that the run
// is running, readers read the records; if it says that the run is queued, they check
// whether its journal continues; any other is believed, see syncMeta. Recorded is nil if
// nothing is durable elsewhere.
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

// The size of a meta file is a multiple of metaBlock, so that it seldom changes. Zeros
// follow the frame.
const metaBlock = 512

// writeMeta writes the meta file. The lock l is nil if there was no file.
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
	} // a reader may find a part of it, and then reads the records
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

// replace writes a file, which replaces another of its name. When it returns, the file is
// durable, but not its name.
func replace(d disk, name string, data []byte) error {
	if err := writeSynced(d, name+tmpSuffix, data); err != nil {
		return err
	}
	if err := d.Rename(name+tmpSuffix, name); err != nil {
		return errors.Join(err, remove(d, name+tmpSuffix))
	}
	return nil
}
