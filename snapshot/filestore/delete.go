package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Delete implements [snapshot.Store]. The run is gone at once, because it is
// renamed into the trash; then its files are removed. If the process ends
// before that, a later Delete does it.
func (s *Store) Delete(ctx context.Context, runID string) error {
	if err := s.check(ctx, runID); err != nil {
		return err
	}
	d := s.dir(runID)
	l, err := d.lock(ctx, false, false)
	if err != nil {
		return err
	}
	defer l.release()
	d = d.locked(l)
	if there, err := d.isThere(); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	} else if !there {
		return noRun(runID)
	}
	// An update writes to its directory, and has to come before or after. If what has
	// the name of the meta file cannot be locked, nobody updates the run.
	if meta, err := d.lockMeta(ctx); meta != nil {
		defer meta.release()
	} else if err != nil && ctx.Err() != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, context.Cause(ctx))
	}
	if err := d.discard(); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	}
	return nil
}

// isThere reports whether there is anything of the run, damaged or not.
func (d *runDir) isThere() (bool, error) {
	entries, err := d.disk.ReadDir(d.path())
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockName, name == inboxName, filepath.Ext(name) == tmpSuffix: // which a crash has left
		default:
			return true, err
		}
	}
	return false, err
}

// discard moves a run to the trash, into a directory of its own, and removes
// it there. Others may do the same at the same time, so each removes its own,
// and what is so old that its process must have ended.
func (d *runDir) discard() error {
	trash := d.store.path("trash")
	if err := mkdirSynced(d.store.disk, trash); err != nil {
		return err
	}
	bin, err := os.MkdirTemp(trash, "")
	if err != nil {
		return err
	}
	if err := d.disk.Rename(d.path(), filepath.Join(bin, dirName(d.runID))); err != nil {
		return errors.Join(err, os.Remove(bin))
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

// removeAll removes a directory in the trash. A message that was being posted to the
// run when it was moved is still added to it, one for each that posts.
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
