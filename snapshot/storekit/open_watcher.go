package storekit

import (
	"context"
	"maps"
	"slices"
	"time"
)

// An openWatcher watches the runs that a Store has open. It detects when another process sends a
// message to a run or takes over a run. It exists while at least one run is open.
type openWatcher struct {
	stop  context.CancelFunc
	ended chan struct{}   // closed when the watcher has ended
	wake  chan struct{}   // receives a value when runs is not empty
	runs  map[string]bool // IDs of the runs to look at; guarded by Store.mu
}

// watchOpen watches a journal's run until unwatchOpen is called.
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

// OpeningOf returns the UID of a run and the token of its opening, if this Store has the run open.
// Otherwise it returns two empty strings. A backend can use the results to fence its own statements
// in the same way as Append.
func (s *Store) OpeningOf(runID string) (uid, opening string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.open[runID]; j != nil {
		return j.uid, j.opening
	}
	return "", ""
}

// Has reports whether this Store has the run open, or is opening it, with the given token. If the
// backend has stored that this process has a run open, but Has reports false, then closing the run
// has failed, and the backend should let other processes open it.
func (s *Store) Has(runID, opening string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.open[runID]
	return s.openings[opening] || j != nil && j.opening == opening
}

// lease returns a channel that is closed when the process may have lost the runs that it opens from
// now on. The channel is nil if the process cannot lose runs.
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

// unwatchOpen stops watching a journal's run. If no other run is open, it ends the watcher.
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

// look requests that the watcher look at a run. The caller holds Store.mu.
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

// journals returns the open journals for the given runs, by run ID. If runs is nil, it returns all.
func (s *Store) journals(runs map[string]bool) map[string]*openRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := maps.Clone(s.open)
	maps.DeleteFunc(some, func(id string, _ *openRun) bool { return runs != nil && !runs[id] })
	return some
}

// lookAt compares journals with the stored heads of their runs. It fences each journal that has lost
// its run, and notifies the others of changes.
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
