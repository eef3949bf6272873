package filestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// List implements [snapshot.Reader]. For a first page, it checks for each run whether the meta file
// has changed. It reads the meta files that have changed, and those of the runs on the page. If a
// run was not closed, List reads the run's journals once. Later pages use the order of the first
// page for up to a minute. If f.Count is set, List checks all runs only if the last check of all
// runs is so old that Watch would repeat it (see WithPolling); otherwise it checks only the runs
// that this Store has changed. A run that is damaged or cannot be read is listed as interrupted;
// Load and the warnings report what is wrong.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	o, err := s.candidates(ctx, &f)
	if ctx.Err() != nil {
		return snapshot.Page{}, context.Cause(ctx)
	} else if err != nil {
		return snapshot.Page{}, fmt.Errorf("snapshot: list: %w", err)
	}
	if f.IsSorted() {
		return s.pick(ctx, o, f)
	}
	page, err := s.latest(ctx, o, f)
	if err == nil && f.Count {
		page.Counts = o.count(&f)
	}
	return page, err
}

// count returns, for each status, how many runs the filter would select if f.Status were empty.
func (o *runOrder) count(f *snapshot.Filter) map[snapshot.Status]int {
	if f.CountsAll() {
		return maps.Clone(o.counts)
	}
	counts := make(map[snapshot.Status]int)
	for _, e := range o.runs {
		if e.status != "" { // the run could be read
			info := e.indexedInfo()
			f.Tally(&info, counts)
		}
	}
	return counts
}

// candidates returns the runs that a filter may select, most recently updated first.
func (s *Store) candidates(ctx context.Context, f *snapshot.Filter) (*runOrder, error) {
	if f.Only == nil || f.After != "" {
		return s.orderOf(ctx, f)
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
	if len(ids) > len(all)/selectiveShare {
		return s.orderOf(ctx, f)
	}
	return newRunOrder(s.scanRuns(ctx, ids, nil)), nil
}

// If Filter.Only accepts at most one in selectiveShare runs, only the accepted runs are scanned, and
// the index does not store the result.
const selectiveShare = 16

// pick returns a page of a sorted list. It selects the runs based on the index, and then reads the
// infos of the selected runs.
func (s *Store) pick(ctx context.Context, o *runOrder, f snapshot.Filter) (snapshot.Page, error) {
	p, err := storekit.NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	for _, e := range o.runs {
		if e.status != "" { // the run could be read
			p.Add(e.indexedInfo())
		}
	}
	page := p.Page()
	found := page.Runs[:0]
	for i := range page.Runs {
		info, there := s.infoForPage(ctx, page.Runs[i].RunID)
		if there {
			found = append(found, info)
		}
	}
	page.Runs = found
	return page, context.Cause(ctx)
}

// latest returns a page of runs, most recently updated first.
func (s *Store) latest(ctx context.Context, o *runOrder, f snapshot.Filter) (snapshot.Page, error) {
	place := func(i int) storekit.Place { return o.runs[i].Place }
	page, err := storekit.ReadPage(f, len(o.runs), place, func(i int) (info snapshot.Info, there, more bool) {
		if e := o.runs[i]; e.mayMatch(&f) && ctx.Err() == nil {
			if info, there = s.scannedInfo(e); !there {
				info, there = s.infoForPage(ctx, e.RunID)
			}
		}
		return info, there, ctx.Err() == nil
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	return page, err
}

// scannedInfo returns the info from a run's meta file, if the meta file was up to date when it was
// scanned and the info in it has not changed since. It reads no other file of the run.
func (s *Store) scannedInfo(e *indexedRun) (snapshot.Info, bool) {
	if !e.isSure {
		return snapshot.Info{}, false
	}
	m, err := s.dir(e.RunID).readMeta()
	isSame := err == nil && m.isWhole && m.info.Updated.Equal(e.Updated) && m.info.Status == e.status
	return m.info, isSame
}

// infoForPage returns a run's info for a list, and reports whether the run exists.
func (s *Store) infoForPage(ctx context.Context, runID string) (info snapshot.Info, there bool) {
	info, _, err := s.dir(runID).infoForList(ctx)
	switch {
	case errors.Is(err, snapshot.ErrNotFound), ctx.Err() != nil:
		return snapshot.Info{}, false
	case err != nil:
		s.warn(runID, err)
		info.RunID = runID
		info = storekit.CrashedInfo(info)
	}
	return info, true
}

// runIDs returns the sorted IDs of all runs that have a directory. It ignores links.
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
