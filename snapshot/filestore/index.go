package filestore

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// An index holds what a store remembers about its runs between two calls to List: the state of each
// run, but not its whole Info, which may be large. A meta file is read again only if its time or
// size has changed.
//
// Each scan still asks the operating system for the time and size of each meta file. For 100,000
// runs, this takes a quarter of a second; reading the files would take more than one second.
type index struct {
	busy chan struct{} // full during a scan; only the scan may use the next two fields
	runs []*indexedRun // sorted by ID
	took time.Duration // how long the last scan of all runs took

	mu      sync.Mutex      // guards the fields below
	order   *runOrder       // nil before the first scan
	looked  time.Time       // when the last scan of all runs began
	changed map[string]bool // runs that this store has changed since they were scanned; nil if there are too many
}

// A runOrder holds all runs, most recently updated first. It never changes.
type runOrder struct {
	runs   []*indexedRun
	counts map[snapshot.Status]int // number of runs by status, except runs that could not be read
}

// indexedRun is the state of a run as of a scan. It never changes; if the run has changed, a new
// indexedRun replaces it.
type indexedRun struct {
	storekit.Place
	status  snapshot.Status // empty if the run cannot be read
	facts                   // used by filters and sorted lists
	time    time.Time       // the meta file's time; zero if there is no meta file
	size    int64           // the meta file's size
	isSure  bool            // the run was closed, so any change to the run also changes the meta file
	settled bool            // isSure is true, and any later change to the meta file changes its time
}

// settledAfter is how old a file must be when it is read to ensure that any later change to the
// file changes its time. Some file systems record times in steps of 2 seconds.
const settledAfter = 2500 * time.Millisecond

// isUnchangedSince reports whether the run had the same state at both scans. It compares Updated,
// which changes with every change to the info.
func (e *indexedRun) isUnchangedSince(before *indexedRun) bool {
	return e == before || e != nil && before != nil && e.RunID == before.RunID && e.Updated.Equal(before.Updated) && e.status == before.status
}

func newIndex() *index {
	return &index{busy: make(chan struct{}, 1), changed: make(map[string]bool)}
}

// maxChanged is the maximum number of changed runs that are remembered. If there are more, the next
// scan includes all runs.
const maxChanged = 10_000

// change marks a run as possibly changed by this store.
func (x *index) change(runID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		return
	}
	if x.changed[runID] = true; len(x.changed) > maxChanged {
		x.changed = nil
	}
}

// take returns the set of changed runs and replaces it with an empty one.
func (x *index) take() map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	changed := x.changed
	x.changed = make(map[string]bool)
	return changed
}

// giveBack undoes take.
func (x *index) giveBack(changed map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil || changed == nil {
		x.changed = nil
		return
	}
	maps.Copy(x.changed, changed)
}

// claim waits until no other scan is running, and reserves the index for a scan. The caller must call
// release after the scan.
func (x *index) claim(ctx context.Context) (release func(), err error) {
	select {
	case x.busy <- struct{}{}:
		return func() { <-x.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// scanAll scans all runs and returns them sorted by ID.
func (s *Store) scanAll(ctx context.Context) ([]*indexedRun, error) {
	release, err := s.index.claim(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.scan(ctx)
}

// scan implements scanAll for a caller that has claimed the index.
func (s *Store) scan(ctx context.Context) ([]*indexedRun, error) {
	x, began := s.index, time.Now()
	changed := x.take() // before the scan, so that runs that change during the scan are scanned again
	ids, err := s.runIDs()
	if err != nil {
		x.giveBack(changed)
		return nil, err
	}
	s.unclosed.retain(ids)
	runs := s.scanRuns(ctx, ids, x.runs)
	if err := context.Cause(ctx); err != nil {
		x.giveBack(changed)
		return nil, err
	}
	x.set(runs)
	x.took = time.Since(began)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.looked = began
	return runs, nil
}

// set replaces the runs. The new runs must be sorted by ID. The caller must have claimed the index.
func (x *index) set(runs []*indexedRun) {
	same := x.order != nil && slices.EqualFunc(runs, x.runs, (*indexedRun).isUnchangedSince)
	x.runs = runs
	if !same {
		o := newRunOrder(runs)
		x.mu.Lock()
		x.order = o
		x.mu.Unlock()
	}
}

// rescan scans the runs that this store has changed, and keeps the last state of all other runs.
// The caller must have claimed the index.
func (s *Store) rescan(ctx context.Context) error {
	x := s.index
	changed := x.take()
	if changed == nil {
		_, err := s.scan(ctx)
		return err
	} else if len(changed) == 0 {
		return nil
	}
	fresh := s.scanRuns(ctx, slices.Sorted(maps.Keys(changed)), nil)
	if err := context.Cause(ctx); err != nil {
		x.giveBack(changed)
		return err
	}
	runs := slices.DeleteFunc(slices.Clone(x.runs), func(e *indexedRun) bool { return changed[e.RunID] })
	for _, e := range fresh {
		if e.status == "" && checkDir(s.run(e.RunID)) != nil {
			continue // the run was deleted
		}
		at, _ := slices.BinarySearchFunc(runs, e.RunID, compareID)
		runs = slices.Insert(runs, at, e)
	}
	x.set(runs)
	return nil
}

func compareID(e *indexedRun, runID string) int { return cmp.Compare(e.RunID, runID) }

// newRunOrder orders and counts the runs.
func newRunOrder(runs []*indexedRun) *runOrder {
	o := &runOrder{slices.SortedFunc(slices.Values(runs), func(a, b *indexedRun) int { return a.Compare(b.Place) }), make(map[snapshot.Status]int)}
	for _, e := range runs {
		if e.status != "" {
			o.counts[e.status]++
		}
	}
	return o
}

// If nothing is cached, a scan mostly waits for the disk, and several goroutines need at most half
// as long as one. Each of them takes scanChunk adjacent runs at a time.
const (
	scanGoroutines = 32
	scanChunk      = 64
)

// scanRuns scans the runs with the given IDs. old holds the earlier states of runs. Both ids and
// old must be sorted by ID.
func (s *Store) scanRuns(ctx context.Context, ids []string, old []*indexedRun) []*indexedRun {
	runs := make([]*indexedRun, len(ids))
	var next atomic.Int64
	look := func() {
		for ctx.Err() == nil {
			end := int(next.Add(scanChunk))
			begin := end - scanChunk
			if begin >= len(ids) {
				return
			}
			for i := begin; i < min(end, len(ids)) && ctx.Err() == nil; i++ {
				var before *indexedRun
				if at, ok := slices.BinarySearchFunc(old, ids[i], compareID); ok {
					before = old[at]
				}
				runs[i] = s.scanRun(ctx, ids[i], before)
			}
		}
	}
	var wait sync.WaitGroup
	for range min(scanGoroutines, len(ids)/scanChunk) {
		wait.Go(look)
	}
	look()
	wait.Wait()
	return runs
}

// scanRun returns the current state of a run. If nothing has changed since the state before, it
// returns before.
func (s *Store) scanRun(ctx context.Context, runID string, before *indexedRun) *indexedRun {
	now, d := time.Now(), s.dir(runID)
	var written time.Time
	var size int64
	if meta, err := os.Lstat(d.path(metaName)); err == nil {
		written, size = meta.ModTime(), meta.Size()
	}
	if before != nil && before.settled && before.time.Equal(written) && before.size == size {
		return before
	}
	e := &indexedRun{Place: storekit.Place{RunID: runID}, time: written, size: size}
	info, isSure, err := d.infoForList(ctx)
	if err != nil && !isContentError(err) {
		return e
	}
	e.isSure, e.settled = isSure, isSure && !written.IsZero() && now.Sub(written) > settledAfter
	e.Updated, e.status, e.facts = info.Updated, info.Status, factsOf(&info)
	return e
}

// facts holds what filters and sorted lists use in addition to a run's Place and status. A string
// shared by many runs is in memory only once.
type facts struct {
	created                                   time.Time
	parent, pipeline, program, version, class unique.Handle[string]
	tags                                      []unique.Handle[string]
	text                                      unique.Handle[string] // all strings that Filter.Text searches, except the ID
	tokens                                    int
	cost                                      float64
	retries, asking                           int
}

func factsOf(i *snapshot.Info) facts {
	f := facts{
		created: i.Created,
		parent:  unique.Make(i.ParentID), pipeline: unique.Make(i.Metadata.Pipeline), program: unique.Make(i.Program), version: unique.Make(i.Version),
		tokens: i.Usage.InputTokens + i.Usage.OutputTokens, cost: i.Usage.Cost, retries: i.Summary.Retries, asking: i.Summary.Asking,
	}
	for _, tag := range i.Metadata.Tags {
		f.tags = append(f.tags, unique.Make(tag))
	}
	texts := []string{i.Metadata.Description}
	for k := range i.Summary.Questions {
		texts = append(texts, i.Summary.Questions[k].Text)
	}
	class := ""
	if e := i.Summary.LastError; e != nil {
		class, texts = e.Class, append(texts, e.Message)
	}
	f.class, f.text = unique.Make(class), unique.Make(strings.Join(texts, "\n"))
	return f
}

// indexedInfo returns an info with only the fields that filters and sorted lists use. The run must
// have been readable when it was scanned.
func (e *indexedRun) indexedInfo() snapshot.Info {
	i := snapshot.Info{RunID: e.RunID, Status: e.status, Updated: e.Updated, Created: e.created}
	i.ParentID, i.Program, i.Version = e.parent.Value(), e.program.Value(), e.version.Value()
	i.Metadata.Pipeline, i.Metadata.Description = e.pipeline.Value(), e.text.Value()
	for _, tag := range e.tags {
		i.Metadata.Tags = append(i.Metadata.Tags, tag.Value())
	}
	i.Usage.InputTokens, i.Usage.Cost = e.tokens, e.cost
	i.Summary.Retries, i.Summary.Asking = e.retries, e.asking
	if class := e.class.Value(); class != "" {
		i.Summary.LastError = &snapshot.Failure{Class: class}
	}
	return i
}

// mayMatch reports whether, according to the index, the filter may select the run.
func (e *indexedRun) mayMatch(f *snapshot.Filter) bool {
	if e.status == "" {
		return true
	}
	info := e.indexedInfo()
	return f.Matches(&info)
}

// orderOf returns all runs, most recently updated first. For a later page of a list, it may return
// the same order as for the first page: a list may be slightly out of date, and this way each run
// is scanned only once for all pages. A list with counts is meant for a display, which lists the
// runs repeatedly. Such a list includes changes by this store at once, but includes changes by
// other processes only when Watch would check all runs again.
func (s *Store) orderOf(ctx context.Context, f *snapshot.Filter) (*runOrder, error) {
	x, asked := s.index, time.Now()
	if o, age := x.last(); f.After != "" && o != nil && age < keepOrder {
		return o, nil
	}
	release, err := x.claim(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if x.isRecent(asked) || f.Count && x.isRecent(asked.Add(-max(s.poll, scanShare*x.took))) {
		err = s.rescan(ctx)
	} else {
		_, err = s.scan(ctx)
	}
	o, _ := x.last()
	return o, err
}

// keepOrder is how long after a scan its order may still be used for later pages of a list.
const keepOrder = time.Minute

// For lists with counts, a scan is repeated only after scanShare times as long as the last one
// took.
const scanShare = 20

// last returns the order of the last scan, and how long ago the last scan of all runs began.
func (x *index) last() (*runOrder, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order, time.Since(x.looked)
}

// isRecent reports whether the last scan of all runs began after t.
func (x *index) isRecent(t time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order != nil && x.looked.After(t)
}
