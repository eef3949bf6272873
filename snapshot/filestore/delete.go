package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Delete implements [snapshot.Store]. It first moves the run to the trash, so that the run is gone
// at once, and then removes the files. If the process ends before they are removed, a later Delete
// of any run removes them once they have been in the trash for more than an hour.
func (s *Store) Delete(ctx context.Context, runID string) error {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return err
	}
	defer s.index.change(runID)
	l, err := d.lock(ctx, false, false)
	if err != nil {
		return err
	}
	defer l.release()
	d = d.locked(l)
	if there, err := d.exists(); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	} else if !there {
		return storekit.NotFoundError(runID)
	}
	// An update writes to the directory, so it must end before the rename or begin after it. If the
	// meta file is missing or cannot be locked, no update is running.
	if meta, err := d.lockMeta(ctx, false); meta != nil {
		defer meta.release()
	} else if err != nil && ctx.Err() != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, context.Cause(ctx))
	}
	if err := d.discard(l); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	}
	return nil
}

// exists reports whether the directory contains files of the run, damaged or not.
func (d *runDir) exists() (bool, error) {
	entries, err := d.disk.ReadDir(d.path())
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockName, name == inboxName, filepath.Ext(name) == tmpSuffix: // files that a crash left behind
		case name == metaName:
			if m, err := d.readMeta(); err != nil || m.isWhole {
				return true, err
			} // an invalid meta file does not count: a process was about to create the run
		default:
			return true, err
		}
	}
	return false, err
}

// discard moves a run, which l has locked, to a new directory in the trash, and removes that
// directory. It also removes other directories in the trash that are so old that the processes that
// created them must have ended.
func (d *runDir) discard(l *fileLock) error {
	trash := d.store.path("trash")
	if err := mkdirSynced(d.store.disk, trash); err != nil {
		return err
	}
	bin, err := os.MkdirTemp(trash, "")
	if err != nil {
		return err
	}
	moved := filepath.Join(bin, dirName(d.runID))
	err = d.checkHeld(l)
	if err == nil {
		err = d.store.disk.Rename(d.path(), moved)
	}
	if err != nil {
		return errors.Join(err, os.Remove(bin))
	}
	if named, err := os.Lstat(filepath.Join(moved, lockName)); err != nil || !os.SameFile(l.file, named) {
		// Another directory had taken its place since the check.
		if err := d.store.disk.Rename(moved, d.path()); err != nil {
			return errors.Join(d.fencedError(), err)
		}
		return errors.Join(d.fencedError(), os.Remove(bin))
	}
	if err := d.store.disk.SyncDir(d.store.path("runs")); err != nil {
		return err
	}
	if entries, err := d.store.disk.ReadDir(trash); err == nil {
		for _, e := range entries {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
				_ = os.RemoveAll(filepath.Join(trash, e.Name()))
			}
		}
	}
	return removeAll(bin)
}

// removeAll removes a directory in the trash. It tries again if a Post that began before the run
// was moved has added a message in the meantime.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for range 100 {
		if !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
		err = os.RemoveAll(dir)
	}
	return err
}
