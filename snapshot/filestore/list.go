package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
)

// List implements [snapshot.Reader]. It reads the meta file of each run, and
// the records only of those on the page whose process has ended without closing
// them. A run that is damaged or cannot be read is listed as interrupted; Load
// says what is wrong, and so do the warnings.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	return s.list(ctx, f, s.warn)
}

// looksLeast is how many runs a page may read at least to be full; a page that
// would need more is short.
const looksLeast = 16

func (s *Store) list(ctx context.Context, f snapshot.Filter, warn func(runID string, err error)) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	ids, err := s.runIDs()
	if err != nil {
		return snapshot.Page{}, fmt.Errorf("snapshot: list: %w", err)
	}
	s.crashed.keep(ids)
	all, rough := make([]snapshot.Info, 0, len(ids)), make(map[string]bool)
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return snapshot.Page{}, err
		}
		info, isRough, err := s.glance(id)
		if err != nil {
			warn(id, err)
			info = snapshot.Crashed(snapshot.Info{RunID: id})
		} else if isRough {
			rough[id] = true
		}
		all = append(all, info)
	}
	looks := 0
	page, err := f.PageOf(all, func(info *snapshot.Info) (there, more bool) {
		if !rough[info.RunID] {
			return true, true
		}
		if looks++; ctx.Err() != nil || f.Limit > 0 && looks > max(looksLeast, 2*f.Limit) {
			return false, false
		}
		found, err := s.slowly(ctx, *info)
		switch {
		case errors.Is(err, snapshot.ErrNotFound):
			return false, true
		case ctx.Err() != nil:
			return false, false
		case err != nil:
			warn(info.RunID, err)
			found = snapshot.Crashed(*info)
		}
		*info = found
		return true, true
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return snapshot.Page{}, err
	}
	return page, nil
}

// runIDs are those of the directories of runs, in order. Links are none.
func (s *Store) runIDs() ([]string, error) {
	entries, err := s.disk.ReadDir(s.path("runs"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if id, ok := runIDOf(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
