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
	for {
		before, isSure, err := d.metaInfo()
		switch {
		case err != nil:
			return snapshot.Info{}, err
		case isSure && !before.Open:
			return before, nil
		case !isSure || locked:
			run, err := d.store.Load(ctx, d.runID)
			if err != nil {
				return snapshot.Info{}, err
			}
			return run.Info, nil
		}
		end, endErr := d.end(ctx, before.Created)
		info, isSure, err := d.metaInfo()
		if err != nil {
			return snapshot.Info{}, err
		}
		if isSure && info.Open && info.Generation == before.Generation && info.Created.Equal(before.Created) {
			info.LastSeq = max(end.LastSeq, info.LastSeq)
			if end.Generation == info.Generation {
				info = endedAs(info, &end)
			}
			return info, endErr
		}
	}
}

// endedAs is what is known of a run that may have ended as the journal says, and the
// meta file does not say so: its process ended before, or the power was lost.
func endedAs(meta snapshot.Info, journal *snapshot.Info) snapshot.Info {
	if journal.Status != snapshot.StatusRunning {
		meta.Status, meta.Stop, meta.Due, meta.Usage, meta.Standing = journal.Status, journal.Stop, journal.Due, journal.Usage, journal.Standing
		if journal.Updated.After(meta.Updated) {
			meta.Updated = journal.Updated
		}
	}
	return meta
}

// metaInfo returns what the meta file says of a run. IsSure is false if the run may be
// otherwise now, since nobody has closed it, or if the meta file cannot be trusted.
func (d *runDir) metaInfo() (info snapshot.Info, isSure bool, err error) {
	m, err := d.meta()
	for err == nil && m.ok && m.info.Status == snapshot.StatusRunning {
		before := m
		if m.info.Open, err = isHeld(d.path(lockName)); err != nil || !m.info.Open {
			return m.info, false, err // it was closed since, or its process has ended
		}
		open := m.info
		if m, err = d.meta(); err == nil && m.isAs(&before) {
			return open, true, nil
		} // somebody has opened it since, or another run of its ID
	}
	switch {
	case err != nil:
		return snapshot.Info{}, false, err
	case !m.ok:
		return snapshot.Info{RunID: d.runID}, false, nil
	}
	return m.info, true, nil
}

// listed returns the info of a run for lists, without reading the records of one that
// was closed, or is open. If the run is damaged or of a newer version, it returns what the
// meta file says, and the error.
func (d *runDir) listed(ctx context.Context) (snapshot.Info, error) {
	info, isSure, err := d.metaInfo()
	if err == nil && !isSure {
		return d.store.readUnclosed(ctx, info)
	}
	return info, err
}

// unclosedRuns are the runs that nobody has closed, as they were when they were
// read. A list would have to read all of them each time.
type unclosedRuns struct {
	mu   sync.Mutex
	runs map[string]unclosedRun
}

type unclosedRun struct {
	files string // that it was read from
	info  snapshot.Info
	err   error // ErrCorrupt or ErrFormat
}

// readUnclosed returns the info of a run that was not closed, of which meta is what the
// meta file says. It reads the run unless its files are unchanged since the last time. If
// the run is damaged, it returns what the meta file says, and the error.
func (s *Store) readUnclosed(ctx context.Context, meta snapshot.Info) (snapshot.Info, error) {
	id := meta.RunID
	files, err := s.dir(id).fingerprint()
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, noRun(id)
	} else if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: run %s: %w", id, err)
	}
	s.unclosed.mu.Lock()
	known, ok := s.unclosed.runs[id]
	s.unclosed.mu.Unlock()
	if ok && files != "" && known.files == files {
		return known.info.Clone(), known.err
	}
	run, err := s.Load(ctx, id)
	now := unclosedRun{files: files, err: err}
	switch {
	case err == nil:
		now.info = run.Info
	case isOfFiles(err):
		now.info = storekit.Crashed(meta)
	case errors.Is(err, fs.ErrNotExist):
		return snapshot.Info{}, noRun(id)
	default:
		return snapshot.Info{}, err
	}
	if now.info.Open || files == "" { // somebody has opened it since
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

// fingerprint returns another text when the files of a run have changed, and an empty one
// while they change.
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

// retain forgets all runs but these.
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
