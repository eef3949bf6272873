package filestore

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// GC removes the artifacts to which no run refers and that are older than grace. It returns the
// number of artifacts removed. Runs may continue in the meantime. If a run cannot be read or is a
// link, GC removes nothing, because the run may refer to any artifact.
//
// A process puts an artifact before it appends the record that refers to it, and any amount of time
// may pass in between. Therefore GC keeps every artifact that was put since the oldest open run was
// opened. It removes only artifacts that were last put before that time, and more than grace before
// GC began. (Put renews the time of an existing artifact, under a lock that excludes GC.) So any
// record that refers to such an artifact was appended before GC began, and GC reads all these
// records. The grace period is for callers of Put that have no run open; an hour is plenty. A fork
// refers to artifacts without putting them, so a fork must not begin while its original is being
// deleted.
func (s *Store) GC(ctx context.Context, grace time.Duration) (removed int, err error) {
	err = s.garbage(ctx, grace, func(ref, name string, before time.Time) error {
		gone, err := s.artifacts.removeOld(ctx, name, before)
		if gone && storekit.IsReference(ref) {
			removed++
		}
		return err
	})
	return removed, err
}

// Garbage returns the references to the artifacts that [Store.GC] with the same grace would now
// remove.
func (s *Store) Garbage(ctx context.Context, grace time.Duration) (references []string, err error) {
	err = s.garbage(ctx, grace, func(ref, _ string, _ time.Time) error {
		if storekit.IsReference(ref) {
			references = append(references, ref)
		}
		return nil
	})
	return references, err
}

// garbage calls f for each artifact to which no run refers, and for each temporary file, if the
// file is older than grace. Each file for which f is called is older than f's argument before.
func (s *Store) garbage(ctx context.Context, grace time.Duration, f func(ref, name string, before time.Time) error) error {
	before := time.Now().Add(-grace)
	named, opened, err := s.references(ctx)
	if err != nil {
		return err
	}
	if !opened.IsZero() && opened.Before(before) {
		before = opened
	}
	dirs, err := s.disk.ReadDir(s.artifacts.dir)
	if err != nil {
		return fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		entries, err := s.disk.ReadDir(filepath.Join(s.artifacts.dir, dir.Name()))
		if err != nil {
			return fmt.Errorf("snapshot: artifacts: %w", err)
		}
		for _, e := range entries {
			ref, name := dir.Name()+e.Name(), filepath.Join(s.artifacts.dir, dir.Name(), e.Name())
			if named[ref] || !storekit.IsReference(ref) && filepath.Ext(ref) != tmpSuffix || !isOld(name, before) {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := f(ref, name, before); err != nil {
				return err
			}
		}
	}
	return nil
}

func isOld(name string, before time.Time) bool {
	stat, err := os.Lstat(name)
	return err == nil && stat.Mode().IsRegular() && stat.ModTime().Before(before)
}

// references returns the references to artifacts in all runs, and the time at which the earliest
// open run was opened, or the zero time if no run is open.
func (s *Store) references(ctx context.Context) (named map[string]bool, opened time.Time, err error) {
	named = make(map[string]bool)
	list := func() ([]string, error) {
		ids, err := s.runIDs()
		if err == nil {
			err = s.checkNoLinks()
		}
		return ids, err
	}
	err = storekit.ReadAll(list, func(runID string) error {
		run, err := s.Load(ctx, runID)
		if err != nil {
			return err
		}
		at, err := addReferences(named, run)
		if err == nil && run.Open && (opened.IsZero() || at.Before(opened)) {
			opened = at
		}
		return err
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("snapshot: cannot determine which artifacts are in use: %w", err)
	}
	return named, opened, nil
}

// checkNoLinks returns an error if a run's directory is a link. Such a run is not listed, but may
// refer to artifacts.
func (s *Store) checkNoLinks() error {
	entries, err := s.disk.ReadDir(s.path("runs"))
	for _, e := range entries {
		if id, ok := runIDOf(e.Name()); ok && e.Type()&fs.ModeSymlink != 0 {
			return fmt.Errorf("run %s: %w", id, checkDir(s.run(id)))
		}
	}
	return err
}

// maxFileTimeLag is an upper bound on how far a new file's time lags behind the clock.
const maxFileTimeLag = time.Second

// addReferences adds the references in a run's records to named. It returns the time when
// the run was last opened, or a slightly earlier time.
func addReferences(named map[string]bool, run *snapshot.Run) (opened time.Time, err error) {
	opened = run.Created
	for rec, err := range run.Records() {
		if err != nil {
			return opened, err
		}
		if rec.Kind == record.KindRun && rec.Status == record.StatusStarted && rec.Generation == run.Generation {
			opened = rec.Time
		}
		for reference := range rec.Artifacts() {
			named[reference] = true
		}
	}
	return opened.Add(-maxFileTimeLag), nil
}

// removeOld removes a file if it is older than before.
func (a *Artifacts) removeOld(ctx context.Context, name string, before time.Time) (bool, error) {
	l, err := a.lock(ctx, lockExclusive)
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	if !isOld(name, before) { // Put has renewed the file's time in the meantime
		return false, nil
	}
	if err := remove(a.disk, name); err != nil {
		return false, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	return true, nil
}
