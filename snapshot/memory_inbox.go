package snapshot

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Post implements [Inbox].
func (s *MemoryStore) Post(ctx context.Context, runID string, m Message) error {
	if err := m.Check(runID); err != nil {
		return err
	}
	r, err := s.find(ctx, runID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if slices.ContainsFunc(r.messages, func(w Message) bool { return w.ID() == m.ID() }) {
		return Posted(runID, m.ID())
	}
	m.Record.RunID = runID
	r.messages = append(r.messages, m)
	r.notifyOwner()
	s.signal(r)
	return nil
}

// notifyOwner is called with the lock.
func (r *memoryRun) notifyOwner() {
	if r.notify != nil {
		select {
		case r.notify <- struct{}{}:
		default:
		}
	}
}

// Messages implements [Inbox].
func (s *MemoryStore) Messages(ctx context.Context, runID string) ([]Message, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := slices.Clone(r.messages)
	slices.SortStableFunc(all, compareMessages)
	return all, nil
}

func compareMessages(a, b Message) int {
	return cmp.Or(a.Record.Time.Compare(b.Record.Time), cmp.Compare(a.ID(), b.ID()))
}

// Remove implements [Inbox].
func (s *MemoryStore) Remove(ctx context.Context, runID string, ids ...string) error {
	r, err := s.find(ctx, runID)
	if errors.Is(err, ErrNotFound) {
		return nil // nor are its messages there
	} else if err != nil {
		return err
	}
	defer s.mu.Unlock()
	r.messages = slices.DeleteFunc(r.messages, func(m Message) bool { return slices.Contains(ids, m.ID()) })
	s.signal(r)
	return nil
}
