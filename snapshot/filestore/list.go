package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// List implements [snapshot.Reader]. For a first page it looks whether a meta
// file has changed, of each run; it reads those that have, those of the runs on
// the page, and the records only of runs on the page whose process has ended
// without closing them. The pages that follow go on in the same order, for a
// minute. A run that is damaged or cannot be read is listed as interrupted;
// Load says what is wrong, and so do the warnings.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	order, err := s.inOrder(ctx, f.Before != "")
	if ctx.Err() != nil {
		return snapshot.Page{}, context.Cause(ctx)
	} else if err != nil {
		return snapshot.Page{}, fmt.Errorf("snapshot: list: %w", err)
	}
	l := &lister{store: s, filter: f}
	page, err := storekit.PageOf(f, len(order), func(i int) storekit.Place { return order[i].Place }, func(i int) (snapshot.Info, bool, bool) {
		return l.look(ctx, order[i])
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return snapshot.Page{}, err
	}
	return page, nil
}

// What a page may read, if that is not enough to fill it, and for each run that
// it may have; then it is short.
const (
	metasLeast, metasPerRun = 1000, 20
	runsLeast, runsPerRun   = 16, 2
)

// A lister counts what was read for a page.
type lister struct {
	store       *Store
	filter      snapshot.Filter
	metas, runs int
}

// look returns what is known of a run, and reports whether it may be picked; or
// that enough was read.
func (l *lister) look(ctx context.Context, e *indexed) (info snapshot.Info, there, more bool) {
	if !e.mayMatch(&l.filter) {
		return snapshot.Info{}, false, true
	}
	if l.metas++; ctx.Err() != nil || l.filter.Limit > 0 && l.metas > max(metasLeast, metasPerRun*l.filter.Limit) {
		return snapshot.Info{}, false, false
	}
	s := l.store
	info, isRough, err := s.dir(e.RunID).glance()
	if err == nil && isRough {
		if l.runs++; l.filter.Limit > 0 && l.runs > max(runsLeast, runsPerRun*l.filter.Limit) {
			return snapshot.Info{}, false, false
		}
		rough := info
		if info, err = s.slowly(ctx, rough); err != nil {
			info = rough
		}
	}
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return snapshot.Info{}, false, true
	case ctx.Err() != nil:
		return snapshot.Info{}, false, false
	case err != nil:
		s.warn(e.RunID, err)
		info.RunID = e.RunID
		info = storekit.Crashed(info)
	}
	return info, true, true
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
