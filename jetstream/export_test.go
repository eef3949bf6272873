package jetstream

import (
	"context"

	"github.com/reprise-go/reprise/snapshot"
)

// Fence opens a run although its owner lives, and leaves it open.
func Fence(ctx context.Context, s *Store, runID string) error {
	own, err := s.session(ctx)
	if err != nil {
		return err
	}
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	h.info = snapshot.Crashed(h.info)
	h.info.Open = false
	_, err = s.tryOpen(ctx, own, h, runID, &snapshot.OpenOptions{})
	return err
}

// DeleteOnly deletes a run, and leaves the messages that it had.
func DeleteOnly(ctx context.Context, s *Store, runID string) error {
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	_, err = s.append(ctx, runID, &message{kind: deleted, generation: h.generation, last: h.last, born: h.born}, &h.info, h.seq)
	return err
}
