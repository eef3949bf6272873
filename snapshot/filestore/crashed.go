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

// crashedRuns are the runs that nobody has closed, as they were when they were
// read. A list would have to read all of them each time.
type crashedRuns struct {
	mu sync.Mutex
	of map[string]crashedRun
}

type crashedRun struct {
	files string // that it was read from
	info  snapshot.Info
	err   error // ErrCorrupt or ErrFormat
}

// slowly returns the info of a run that was not closed, of which rough is what the meta
// file says. It reads the run unless its files are unchanged since the last time. If the
// run is damaged, it returns what the meta file says, and the error.
func (s *Store) slowly(ctx context.Context, rough snapshot.Info) (snapshot.Info, error) {
	id := rough.RunID
	files, err := s.dir(id).fingerprint()
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot.Info{}, noRun(id)
	} else if err != nil {
		return snapshot.Info{}, fmt.Errorf("snapshot: run %s: %w", id, err)
	}
	s.crashed.mu.Lock()
	known, ok := s.crashed.of[id]
	s.crashed.mu.Unlock()
	if ok && files != "" && known.files == files {
		return known.info.Clone(), known.err
	}
	run, err := s.Load(ctx, id)
	now := crashedRun{files: files, err: err}
	switch {
	case err == nil:
		now.info = run.Info
	case errors.Is(err, snapshot.ErrCorrupt), errors.Is(err, snapshot.ErrFormat):
		now.info = storekit.Crashed(rough)
	case errors.Is(err, fs.ErrNotExist):
		return snapshot.Info{}, noRun(id)
	default:
		return snapshot.Info{}, err
	}
	if now.info.Open || files == "" { // by somebody since
		return now.info, now.err
	}
	s.crashed.mu.Lock()
	defer s.crashed.mu.Unlock()
	if s.crashed.of == nil {
		s.crashed.of = make(map[string]crashedRun)
	}
	s.crashed.of[id] = now
	return now.info.Clone(), now.err
}

// fingerprint is another text when the files of a run have changed; empty while
// they do.
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

// keep forgets all runs but these.
func (c *crashedRuns) keep(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) > 0 {
		maps.DeleteFunc(c.of, func(id string, _ crashedRun) bool {
			_, ok := slices.BinarySearch(ids, id)
			return !ok
		})
	}
}
