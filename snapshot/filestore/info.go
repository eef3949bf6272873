package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Info implements [snapshot.Reader]. If the run was not closed, Info reads all of its journals.
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	return d.info(ctx)
}

// info implements Info. If the meta file does not describe a closed run, info reads the journals.
// If a process opens or closes the run meanwhile, info starts over.
func (d *runDir) info(ctx context.Context) (snapshot.Info, error) {
	for {
		before, wasHeld, err := d.state()
		if err != nil || before.isClosed() {
			return before.info, err
		}
		info, infoErr := d.end(ctx, before.info.Created)
		after, isHeld, err := d.state()
		switch {
		case err != nil:
			return snapshot.Info{}, err
		case !after.isUnchangedSince(&before) || isHeld != wasHeld:
			continue
		case infoErr != nil:
			return snapshot.Info{}, infoErr
		case after.damaged != nil:
			return snapshot.Info{}, advise(after.damaged)
		}
		info = after.update.apply(info)
		if info.Open = isHeld; !isHeld && info.Status == snapshot.StatusRunning {
			info = storekit.CrashedInfo(info)
		}
		return info, nil
	}
}

// state returns the meta file, and whether a process had the run open when the file was read.
func (d *runDir) state() (m metaFile, held bool, err error) {
	for m, err = d.meta(); err == nil && !m.isClosed(); {
		before := m
		if held, err = isHeld(d.path(lockName)); err != nil {
			return m, false, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
		}
		if m, err = d.meta(); err == nil && m.isUnchangedSince(&before) {
			return m, held, nil
		} // in the meantime, a process opened or closed the run, or another run took its ID
	}
	return m, false, err
}

// infoForList returns a run's info for lists, and whether the info stays valid as long as the meta
// file does not change. If the run was closed or is open, infoForList does not read the journals.
// If the run is damaged or was written by a newer version, infoForList returns the info from the
// meta file and an error.
func (d *runDir) infoForList(ctx context.Context) (info snapshot.Info, isSure bool, err error) {
	m, held, err := d.state()
	switch {
	case err != nil, m.isClosed():
		return m.info, err == nil, err
	case m.ok && held:
		m.info.Open = true
		return m.info, false, nil
	}
	m.info.RunID = d.runID
	info, err = d.store.readUnclosed(ctx, m.info)
	return info, false, err
}

// unclosedRuns caches the infos of runs that were not closed. Without this cache, each list would
// read the journals of all these runs.
type unclosedRuns struct {
	mu   sync.Mutex
	runs map[string]unclosedRun
}

type unclosedRun struct {
	files string // fingerprint of the files from which info was read
	info  snapshot.Info
	err   error // ErrCorrupt or ErrFormat
}

// readUnclosed returns the info of a run that was not closed. It reads the run only if the run's
// files have changed since the last call. meta is the info from the meta file. If the run is
// damaged, readUnclosed returns an error along with meta, changed to the info of a crashed run.
func (s *Store) readUnclosed(ctx context.Context, meta snapshot.Info) (snapshot.Info, error) {
	id := meta.RunID
	files, err := s.dir(id).fingerprint()
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, storekit.NotFoundError(id)
	} else if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: run %s: %w", id, err)
	}
	s.unclosed.mu.Lock()
	known, ok := s.unclosed.runs[id]
	s.unclosed.mu.Unlock()
	if ok && files != "" && known.files == files {
		return known.info.Clone(), known.err
	}
	info, err := s.dir(id).info(ctx)
	now := unclosedRun{files: files, info: info, err: err}
	switch {
	case err == nil:
	case isContentError(err):
		now.info = storekit.CrashedInfo(meta)
	case errors.Is(err, fs.ErrNotExist):
		return snapshot.Info{}, storekit.NotFoundError(id)
	default:
		return snapshot.Info{}, err
	}
	if now.info.Open || files == "" { // a process has opened the run in the meantime
		return now.info, now.err
	}
	s.unclosed.mu.Lock()
	defer s.unclosed.mu.Unlock()
	if s.unclosed.runs == nil {
		s.unclosed.runs = make(map[string]unclosedRun)
	}
	s.unclosed.runs[id] = now
	return now.info.Clone(), now.err
}

// fingerprint returns a string that changes whenever the run's files change. The string is empty if
// a file is removed while fingerprint runs.
func (d *runDir) fingerprint() (string, error) {
	entries, err := d.disk.ReadDir(d.path())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		switch name := e.Name(); name {
		case lockName, inboxName:
		default:
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return "", nil
			} else if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String(), nil
}

// retain removes all runs except those with the given IDs, which must be sorted.
func (u *unclosedRuns) retain(ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.runs) > 0 {
		maps.DeleteFunc(u.runs, func(id string, _ unclosedRun) bool {
			_, ok := slices.BinarySearch(ids, id)
			return !ok
		})
	}
}
