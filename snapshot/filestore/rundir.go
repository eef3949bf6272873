package filestore

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/errkind"

	"github.com/reprise-go/reprise/snapshot"
)

// A runDir is the directory of a run. If it was returned by locked, its disk refuses to change
// anything by name once the lock is lost, and never changes a directory that has taken the place of the
// locked one.
type runDir struct {
	store *Store
	disk  disk
	runID string
	name  string // the directory's path
}

// dir returns the directory of a run that the caller has not locked.
func (s *Store) dir(runID string) *runDir {
	return &runDir{s, s.disk, runID, s.path("runs", dirName(runID))}
}

// locked returns the directory for a caller that holds l, the lock of the directory. The lock is
// lost if the directory is removed, moved or replaced: the files under its name then belong to
// another process.
func (d *runDir) locked(l *fileLock) *runDir {
	files := d.disk
	if o, ok := files.(dirOpener); ok {
		files = o.In(l.dir, d.name)
	}
	return &runDir{d.store, fencedDisk{files, func() error { return d.checkHeld(l) }}, d.runID, d.name}
}

// path returns the path of a file in the directory or, without elements, the path of the
// directory.
func (d *runDir) path(elem ...string) string { return join(d.name, elem) }

// checkHeld returns ErrFenced if the file that l has locked no longer has its name. Another process
// may then lock a new file with that name.
func (d *runDir) checkHeld(l *fileLock) error {
	switch named, err := l.isNamed(); {
	case err != nil:
		return fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
	case !named:
		return d.fencedError()
	}
	return nil
}

func (d *runDir) fencedError() error {
	return errkind.New(snapshot.ErrFenced, "snapshot: run %s: its directory was removed, moved or replaced while it was in use", d.runID)
}

// A fencedDisk does not create, rename, remove or sync anything by name while fence returns an
// error. Files can still be read by name, and open files can still be written. Mkdir and Link need
// no fence, since no caller that holds a lock uses them.
type fencedDisk struct {
	disk
	fence func() error
}

func (d fencedDisk) Create(name string) (diskFile, error) {
	if err := d.fence(); err != nil {
		return nil, err
	}
	return d.disk.Create(name)
}

func (d fencedDisk) OpenToWrite(name string) (diskFile, error) {
	if err := d.fence(); err != nil {
		return nil, err
	}
	return d.disk.OpenToWrite(name)
}

func (d fencedDisk) Rename(from, to string) error {
	if err := d.fence(); err != nil {
		return err
	}
	return d.disk.Rename(from, to)
}

func (d fencedDisk) Remove(name string) error {
	if err := d.fence(); err != nil {
		return err
	}
	return d.disk.Remove(name)
}

func (d fencedDisk) SyncDir(name string) error {
	if err := d.fence(); err != nil {
		return err
	}
	return d.disk.SyncDir(name)
}

func (d fencedDisk) SyncTogether(f diskFile) bool {
	return d.fence() == nil && d.disk.SyncTogether(f)
}
