package storekit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
)

// PostedError returns the error that Post must return if a message with the same ID is waiting. The
// error matches [snapshot.ErrPosted].
func PostedError(runID, id string) error {
	return errkind.New(snapshot.ErrPosted, "snapshot: run %s: %s was posted before and is still waiting to be read", runID, id)
}

// SortMessages sorts messages by time, which is the order in which Messages must return them.
func SortMessages(all []snapshot.Message) {
	slices.SortStableFunc(all, func(a, b snapshot.Message) int {
		return cmp.Or(a.Record.Time.Compare(b.Record.Time), cmp.Compare(a.ID(), b.ID()))
	})
}

// Post implements snapshot.Inbox.
func (s *Store) Post(ctx context.Context, runID string, m snapshot.Message) error {
	if err := Check(ctx, runID); err != nil {
		return err
	}
	if err := m.Check(runID); err != nil {
		return err
	}
	data, err := encodeMessage(&m)
	if err != nil {
		return err
	}
	posted, err := Retry(ctx, func() (bool, error) { return s.backend.Post(ctx, runID, m.ID(), data) })
	if err == nil && !posted { // an earlier try whose answer was lost may have posted the message
		waiting, readErr := s.waitingMessages(ctx, runID)
		posted = readErr == nil && bytes.Equal(waiting[m.ID()], data)
	}
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return err
	case err != nil:
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	case !posted:
		return PostedError(runID, m.ID())
	}
	s.wake(runID)
	s.ring(runID)
	return nil
}

// An encoded message consists of a random token, the generation and the record. The token lets Post
// recognize its own message.
const tokenSize, messageHead = 16, tokenSize + 8

func encodeMessage(m *snapshot.Message) ([]byte, error) {
	data := make([]byte, tokenSize, 2*messageHead)
	if _, err := rand.Read(data); err != nil {
		return nil, err
	}
	return snapshot.AppendRecord(binary.BigEndian.AppendUint64(data, m.Generation), &m.Record)
}

// ring notifies the journal, if this Store has the run open.
func (s *Store) ring(runID string) {
	s.mu.Lock()
	j := s.open[runID]
	s.mu.Unlock()
	if j != nil {
		j.Ring()
	}
}

// Messages implements snapshot.Inbox.
func (s *Store) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	if err := Check(ctx, runID); err != nil {
		return nil, err
	}
	encoded, err := s.waitingMessages(ctx, runID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, NotFoundError(runID)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	all := make([]snapshot.Message, 0, len(encoded))
	for id, data := range encoded {
		m, err := decodeMessage(runID, data)
		if err != nil {
			return nil, fmt.Errorf("snapshot: inbox of run %s: %s: %w", runID, id, err)
		}
		all = append(all, m)
	}
	SortMessages(all)
	return all, nil
}

// waitingMessages returns the encoded messages of a run, keyed by ID.
func (s *Store) waitingMessages(ctx context.Context, runID string) (map[string][]byte, error) {
	return Retry(ctx, func() (map[string][]byte, error) { return s.backend.Messages(ctx, runID) })
}

var errShort = errors.New("the message is too short")

func decodeMessage(runID string, data []byte) (snapshot.Message, error) {
	if len(data) < messageHead {
		return snapshot.Message{}, &snapshot.CorruptError{RunID: runID, Err: errShort}
	}
	rec, err := snapshot.DecodeRecord(data[messageHead:])
	if err != nil {
		return snapshot.Message{}, err
	}
	rec.RunID = runID
	m := snapshot.Message{Generation: binary.BigEndian.Uint64(data[tokenSize:]), Record: rec}
	err = m.Check(runID)
	return m, err
}

// Remove implements snapshot.Inbox.
func (s *Store) Remove(ctx context.Context, runID string, ids ...string) error {
	if err := Check(ctx, runID); err != nil {
		return err
	}
	_, err := Retry(ctx, func() (struct{}, error) { return struct{}{}, s.backend.Remove(ctx, runID, ids) })
	if err != nil {
		return fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	s.wake(runID)
	return nil
}
