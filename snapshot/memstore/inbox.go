package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Post implements [snapshot.Inbox].
func (s *Store) Post(ctx context.Context, runID string, m snapshot.Message) error {
	if err := m.Check(runID); err != nil {
		return err
	}
	r, err := s.find(ctx, runID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if slices.ContainsFunc(r.messages, func(w snapshot.Message) bool { return w.ID() == m.ID() }) {
		return storekit.Posted(runID, m.ID())
	}
	m.Record.RunID = runID
	r.messages = append(r.messages, m)
	r.notifyOwner()
	s.signal(r)
	return nil
}

// notifyOwner is called with the lock.
func (r *run) notifyOwner() {
	if r.notify != nil {
		select {
		case r.notify <- struct{}{}:
		default:
		}
	}
}

// Messages implements [snapshot.Inbox].
func (s *Store) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := slices.Clone(r.messages)
	slices.SortStableFunc(all, compareMessages)
	return all, nil
}

func compareMessages(a, b snapshot.Message) int {
	return cmp.Or(a.Record.Time.Compare(b.Record.Time), cmp.Compare(a.ID(), b.ID()))
}

// Remove implements [snapshot.Inbox].
func (s *Store) Remove(ctx context.Context, runID string, ids ...string) error {
	r, err := s.find(ctx, runID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil // nor are its messages there
	} else if err != nil {
		return err
	}
	defer s.mu.Unlock()
	r.messages = slices.DeleteFunc(r.messages, func(m snapshot.Message) bool { return slices.Contains(ids, m.ID()) })
	s.signal(r)
	return nil
}
