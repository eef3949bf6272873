package snapshot

import (
	"cmp"
	"context"
	"slices"
)

// memoryInbox is the inbox of a run in a MemoryStore, whose lock guards it.
type memoryInbox struct {
	messages []Message
	watching map[chan struct{}]bool
}

// tell wakes those who watch.
func (b *memoryInbox) tell() {
	for c := range b.watching {
		ring(c)
	}
}

// Post implements [Inbox].
func (s *MemoryStore) Post(ctx context.Context, runID string, m Message) error {
	if err := checkMessage(ctx, runID, &m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[runID]
	if run == nil {
		return noRun(runID)
	}
	if slices.ContainsFunc(run.inbox.messages, func(w Message) bool { return w.ID() == m.ID() }) {
		return posted(runID, m.ID())
	}
	m.Record.RunID = runID
	run.inbox.messages = append(run.inbox.messages, m)
	run.inbox.tell()
	return nil
}

// Messages implements [Inbox].
func (s *MemoryStore) Messages(ctx context.Context, runID string) ([]Message, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[runID]
	if run == nil {
		return nil, noRun(runID)
	}
	all := slices.Clone(run.inbox.messages)
	slices.SortStableFunc(all, func(a, b Message) int {
		return cmp.Or(a.Record.Time.Compare(b.Record.Time), cmp.Compare(a.ID(), b.ID()))
	})
	return all, nil
}

// Remove implements [Inbox].
func (s *MemoryStore) Remove(ctx context.Context, runID, id string) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.runs[runID]; run != nil {
		run.inbox.messages = slices.DeleteFunc(run.inbox.messages, func(m Message) bool { return m.ID() == id })
		run.inbox.tell()
	}
	return nil
}

// Watch implements [Inbox].
func (s *MemoryStore) Watch(ctx context.Context, runID string, changed func()) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	s.mu.Lock()
	run := s.runs[runID]
	if run == nil {
		s.mu.Unlock()
		return noRun(runID)
	}
	told := make(chan struct{}, 1)
	if run.inbox.watching == nil {
		run.inbox.watching = make(map[chan struct{}]bool)
	}
	run.inbox.watching[told] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(run.inbox.watching, told)
	}()
	for ctx.Err() == nil {
		changed()
		select {
		case <-told:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}
