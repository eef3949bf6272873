package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// List implements [snapshot.Reader]. For a first page it checks for each run whether its
// meta file has changed. It reads the changed ones and those of the runs on the page, and
// records only of runs on the page whose process ended without closing them. Following
// pages keep the same order for a minute. A run that is damaged or cannot be read is listed
// as interrupted; Load and the warnings say what is wrong.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	order, err := s.orderFor(ctx, &f)
	if ctx.Err() != nil {
		return snapshot.Page{}, context.Cause(ctx)
	} else if err != nil {
		return snapshot.Page{}, fmt.Errorf("snapshot: list: %w", err)
	}
	if f.IsSorted() {
		return s.pick(ctx, order, f)
	}
	page, err := s.latest(ctx, order, f)
	if err == nil && f.Count {
		var counted snapshot.Page
		count := f
		count.Before, count.Limit = "", 1
		counted, err = s.pick(ctx, order, count)
		page.Counts = counted.Counts
	}
	return page, err
}

// orderFor returns the runs that a filter may select, in the order of lists.
func (s *Store) orderFor(ctx context.Context, f *snapshot.Filter) ([]*indexed, error) {
	if f.Only == nil || f.Before != "" {
		return s.inOrder(ctx, f.Before != "")
	}
	all, err := s.runIDs()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, id := range all {
		if f.Only(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > len(all)/fewOf {
		return s.inOrder(ctx, false)
	}
	return inOrder(s.lookAll(ctx, ids, nil)), nil
}

// fewOf is which part of all runs a filter may select by their IDs, so that they alone are
// looked at, and not remembered.
const fewOf = 16

// pick looks at all runs, of which the index knows what the filter asks for, and reads
// the meta files of those that it picks.
func (s *Store) pick(ctx context.Context, order []*indexed, f snapshot.Filter) (snapshot.Page, error) {
	p, err := storekit.NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	for _, e := range order {
		info := e.listed()
		if !e.isSure {
			if info, _, err = s.dir(e.RunID).listed(ctx); err != nil && !isOfFiles(err) {
				continue // it was deleted, or cannot be read
			}
		}
		p.Add(info)
	}
	page := p.Page()
	l := &lister{store: s}
	found := page.Runs[:0]
	for i := range page.Runs {
		info, there, _ := l.look(ctx, &indexed{Place: storekit.Place{RunID: page.Runs[i].RunID}})
		if err := context.Cause(ctx); err != nil {
			return snapshot.Page{}, err
		}
		if there {
			found = append(found, info)
		}
	}
	page.Runs = found
	return page, nil
}

// latest returns a page with the last updated first.
func (s *Store) latest(ctx context.Context, order []*indexed, f snapshot.Filter) (snapshot.Page, error) {
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

// How many meta files are read for a page: at least the minimum, and more for a larger page.
// A page for which that is not enough is short.
const minMetas, metasPerRun = 1000, 20

// A lister counts what was read for a page.
type lister struct {
	store  *Store
	filter snapshot.Filter
	metas  int
}

// look returns the info of a run, whether it may be picked, and whether more may be read.
func (l *lister) look(ctx context.Context, e *indexed) (info snapshot.Info, there, more bool) {
	if !e.mayMatch(&l.filter) {
		return snapshot.Info{}, false, true
	}
	if l.metas++; ctx.Err() != nil || l.filter.Limit > 0 && l.metas > max(minMetas, metasPerRun*l.filter.Limit) {
		return snapshot.Info{}, false, false
	}
	info, _, err := l.store.dir(e.RunID).listed(ctx)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return snapshot.Info{}, false, true
	case ctx.Err() != nil:
		return snapshot.Info{}, false, false
	case err != nil:
		l.store.warn(e.RunID, err)
		info.RunID = e.RunID
		info = storekit.Crashed(info)
	}
	return info, true, true
}

// runIDs returns the IDs of the directories of runs, sorted. A link is not one.
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
