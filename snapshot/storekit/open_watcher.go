package storekit

import (
	"context"
	"maps"
	"slices"
	"time"
)

// An openWatcher watches the runs that a Store has open: for messages from other processes,
// and for the loss of a run to another process. It exists while a run is open.
type openWatcher struct {
	stop  context.CancelFunc
	ended chan struct{}   // closed when the watcher has ended
	wake  chan struct{}   // receives when runs is not empty
	runs  map[string]bool // the runs to look at; guarded by the lock of the Store
}

// watchOpen starts to watch the run of a journal, until unwatchOpen.
func (s *Store) watchOpen(j *openRun) {
	s.mu.Lock()
	s.open[j.runID] = j
	if s.options.Poll > 0 && s.openWatcher == nil {
		ctx, stop := context.WithCancel(context.Background())
		w := &openWatcher{stop, make(chan struct{}), make(chan struct{}, 1), make(map[string]bool)}
		s.openWatcher = w
		go func() {
			defer close(w.ended)
			s.runOpenWatcher(ctx, w)
		}()
	}
	s.mu.Unlock()
}

// OpeningOf returns the UID of a run that this Store has open and the token of its opening, or two
// empty strings if this Store does not have the run open. A backend can use them to fence its own
// statements in the same way as Append.
func (s *Store) OpeningOf(runID string) (uid, opening string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.open[runID]; j != nil {
		return j.uid, j.opening
	}
	return "", ""
}

// Has reports whether this Store has, or is about to have, a run open with that token. If the
// backend records that this process has a run open, but Has reports false, then the run could not
// be closed, and the backend should let others open it.
func (s *Store) Has(runID, opening string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.open[runID]
	return s.openings[opening] || j != nil && j.opening == opening
}

// lease returns a channel that is closed when the process may have lost the runs that it opens from
// now on. It is nil if that cannot happen.
func (s *Store) lease() <-chan struct{} {
	if s.options.Lost == nil {
		return nil
	}
	return s.options.Lost()
}

// hasExpired reports whether a lease has expired.
func hasExpired(lease <-chan struct{}) bool {
	select {
	case <-lease:
		return true
	default:
		return false
	}
}

// unwatchOpen undoes watchOpen. The watcher ends with the last journal.
func (s *Store) unwatchOpen(j *openRun) {
	s.mu.Lock()
	if s.open[j.runID] == j {
		delete(s.open, j.runID)
	}
	w := s.openWatcher
	if w != nil && len(s.open) == 0 {
		s.openWatcher = nil
		defer func() {
			w.stop()
			<-w.ended
		}()
	}
	s.mu.Unlock()
}

// look requests a look at a run. The caller holds the lock of the Store.
func (w *openWatcher) look(runID string) {
	w.runs[runID] = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// runOpenWatcher looks at the open runs until ctx ends.
func (s *Store) runOpenWatcher(ctx context.Context, w *openWatcher) {
	ticker := time.NewTicker(s.options.Poll)
	defer ticker.Stop()
	lease := s.lease()
	for {
		select {
		case <-ticker.C:
			if lease == nil {
				lease = s.lease()
			}
			s.lookAt(ctx, s.journals(nil))
		case <-w.wake:
			s.mu.Lock()
			runs := w.runs
			w.runs = make(map[string]bool)
			s.mu.Unlock()
			s.lookAt(ctx, s.journals(runs))
		case <-lease:
			for _, j := range s.journals(nil) {
				if hasExpired(j.lease) {
					j.Lose()
				}
			}
			lease = nil
		case <-ctx.Done():
			return
		}
	}
}

// journals returns the open journals by run ID: those of the given runs, or all for nil.
func (s *Store) journals(runs map[string]bool) map[string]*openRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := maps.Clone(s.open)
	maps.DeleteFunc(some, func(id string, _ *openRun) bool { return runs != nil && !runs[id] })
	return some
}

// lookAt compares the stored heads of runs with their journals, and fences each journal that has
// lost its run.
func (s *Store) lookAt(ctx context.Context, journals map[string]*openRun) {
	if len(journals) == 0 {
		return
	}
	heads, err := s.backend.Find(ctx, slices.Sorted(maps.Keys(journals))...)
	if err != nil {
		return // the next look or write reports the error
	}
	found := make(map[string]*Head, len(heads))
	for i := range heads {
		found[heads[i].Info.RunID] = &heads[i]
	}
	for id, j := range journals {
		switch h := found[id]; {
		case h == nil, h.UID != j.uid, h.Opening != j.opening:
			j.Fence()
		default:
			j.look(h)
		}
	}
}
