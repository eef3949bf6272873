package storekit

import (
	"context"
	"maps"
	"slices"
	"time"
)

// wake is called after this Store has changed a run. It wakes the goroutines that wait for a change
// to the run.
func (s *Store) wake(runID string) {
	s.mu.Lock()
	s.signal("")
	s.signal(runID)
	s.mu.Unlock()
	if s.options.OnChange != nil {
		s.options.OnChange(runID)
	}
}

// signal wakes the goroutines that wait for a change to the run or, if runID is empty, to any run.
// The caller holds the lock.
func (s *Store) signal(runID string) {
	if waiting := s.waiting[runID]; waiting != nil {
		close(waiting)
		delete(s.waiting, runID)
	}
}

// NoteChanges tells the Store that other processes may have changed the given runs, for example
// after a notification from the database. The Store looks at these runs at once. If no IDs are
// given, it looks at all runs.
func (s *Store) NoteChanges(runIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(runIDs) == 0 {
		runIDs = slices.AppendSeq(slices.Collect(maps.Keys(s.waiting)), maps.Keys(s.open))
	}
	s.signal("")
	for _, id := range runIDs {
		s.signal(id)
		if s.open[id] != nil && s.openWatcher != nil {
			s.openWatcher.look(id)
		}
	}
}

// changes returns a channel that is closed at the next change to the run or, if runID is empty, to
// any run.
func (s *Store) changes(runID string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[runID] == nil {
		s.waiting[runID] = make(chan struct{})
	}
	return s.waiting[runID]
}

// wait waits until changed is closed, but for no longer than Options.Poll. If ctx ends, it returns
// the cause of ctx.
func (s *Store) wait(ctx context.Context, changed <-chan struct{}) error {
	var poll <-chan time.Time
	if s.options.Poll > 0 {
		timer := time.NewTimer(s.options.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-changed:
	case <-poll:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
