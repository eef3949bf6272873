package storekit

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
)

// Watch implements snapshot.Reader. Its events have no positions.
func (s *Store) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	return func(yield func(snapshot.Change, error) bool) {
		if err := s.watch(ctx, &o, yield); !errors.Is(err, errStopped) {
			yield(snapshot.Change{}, err)
		}
	}
}

// A watchState is the state of a Watch.
type watchState struct {
	store   *Store
	options *snapshot.WatchOptions
	yield   func(snapshot.Change, error) bool
	runs    map[string]watchedRun
	looked  bool // the runs that existed at the beginning were yielded or skipped
}

// A watchedRun is the state of a run at its last event.
type watchedRun struct {
	head Head
	last uint64 // number of the last record that was yielded or existed when Watch began
}

// checkOpenEvery is the interval at which Watch checks whether open runs are still open. It must
// check, because the end of a process changes nothing in the backend.
const checkOpenEvery = 2 * time.Second

func (s *Store) watch(ctx context.Context, o *snapshot.WatchOptions, yield func(snapshot.Change, error) bool) error {
	if o.RunID != "" {
		if err := snapshot.CheckRunID(o.RunID); err != nil {
			return err
		}
	}
	if o.After != "" {
		return errkind.New(snapshot.ErrReset, "snapshot: watch: this store has no positions to continue from")
	}
	w := &watchState{store: s, options: o, yield: yield, runs: make(map[string]watchedRun)}
	position, looked := uint64(0), time.Now()
	for {
		changed := s.changes(o.RunID)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		changes, now, err := s.changesSince(ctx, o.RunID, position)
		if errors.Is(err, snapshot.ErrReset) {
			if changes, now, err = s.changesSince(ctx, o.RunID, 0); err == nil {
				changes = w.withGone(changes)
			}
		}
		if err == nil && s.options.Poll > 0 && time.Since(looked) > checkOpenEvery {
			looked = time.Now()
			changes, err = w.withEnded(ctx, changes)
		}
		for i := 0; err == nil && i < len(changes); i++ {
			err = w.yieldChanges(ctx, &changes[i])
		}
		if err != nil {
			return err
		}
		position, w.looked = now, true
		if err := s.wait(ctx, changed); err != nil {
			return err
		}
	}
}

func (s *Store) changesSince(ctx context.Context, runID string, since uint64) (changes []Change, position uint64, err error) {
	changes, err = Retry(ctx, func() ([]Change, error) {
		changes, position, err = s.backend.Changes(ctx, runID, since)
		return changes, err
	})
	return changes, position, err
}

// withEnded adds a change for each known run that was open and is no longer open.
func (w *watchState) withEnded(ctx context.Context, changes []Change) ([]Change, error) {
	var open []string
	for id, run := range w.runs {
		if run.head.Info.Open {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return changes, nil
	}
	slices.Sort(open)
	heads, err := Retry(ctx, func() ([]Head, error) { return w.store.backend.Find(ctx, open...) })
	for i := range heads { // deleted runs are not found; they have changes of their own
		if !heads[i].Info.Open {
			changes = append(changes, Change{Head: heads[i]})
		}
	}
	return changes, err
}

// withGone adds a deletion for each known run that is missing from all.
func (w *watchState) withGone(all []Change) []Change {
	there := make(map[string]bool, len(all))
	for i := range all {
		there[all[i].Head.UID] = true
	}
	var gone []Change
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		if h := w.runs[id].head; !there[h.UID] {
			gone = append(gone, Change{Head: h, Deleted: true})
		}
	}
	return append(gone, all...)
}

// yieldChanges yields what is new in a run.
func (w *watchState) yieldChanges(ctx context.Context, c *Change) error {
	h := c.Head.reported()
	id := h.Info.RunID
	if w.options.RunID != "" && id != w.options.RunID {
		return nil
	}
	was, known := w.runs[id]
	if known && (was.head.UID != h.UID) != c.Deleted { // the known run was deleted, or replaced by another run with the same ID
		delete(w.runs, id)
		if known = false; !w.yield(snapshot.Change{Info: was.head.Info, Deleted: true}, nil) {
			return errStopped
		}
	}
	isNews := !known || was.head.Version != h.Version || was.head.Info.Open != h.Info.Open || w.options.Records && h.Info.LastSeq > was.last
	if c.Deleted || !isNews {
		return nil
	}
	now := watchedRun{head: h, last: h.Info.LastSeq}
	event := snapshot.Change{Info: h.Info}
	if w.options.Records && (known || w.looked) {
		if !known {
			was.last = 0
		}
		for rec, err := range w.store.records(ctx, &h, was.last) {
			if err != nil {
				return err
			}
			event.Records = append(event.Records, rec)
			now.last = rec.Seq
		}
		event.Info.LastSeq = now.last
	}
	w.runs[id] = now
	if !w.yield(event, nil) {
		return errStopped
	}
	return nil
}
