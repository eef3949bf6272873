package storekit

import (
	"context"
	"errors"
	"iter"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// errStopped means that the caller has left the loop over an iterator.
var errStopped = errors.New("snapshot: the loop was left")

// Follow implements snapshot.Reader.
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := s.follow(ctx, runID, after, yield); !errors.Is(err, errStopped) {
			yield(record.Record{}, err)
		}
	}
}

func (s *Store) follow(ctx context.Context, runID string, after snapshot.Cursor, yield func(record.Record, error) bool) error {
	uid, last := "", after.Seq
	for {
		changed := s.changes(runID)
		h, err := s.head(ctx, runID)
		switch {
		case err != nil:
			return err
		case uid == "":
			if err := s.checkCursor(ctx, &h, after); err != nil {
				return err
			}
			uid = h.UID
		case h.UID != uid:
			return NotFoundError(runID) // the run was deleted, and another run has its ID
		}
		for rec, err := range s.records(ctx, &h, last) {
			if err != nil {
				return err
			}
			if !yield(rec, nil) {
				return errStopped
			}
			last = rec.Seq
		}
		if err := s.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// checkCursor returns ErrReset if the run does not contain the record at the cursor.
func (s *Store) checkCursor(ctx context.Context, h *Head, c snapshot.Cursor) error {
	if c.Seq > h.Info.LastSeq {
		return errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d, but the run has %d records", h.Info.RunID, c.Seq, h.Info.LastSeq)
	}
	if c.Seq == 0 || c.Generation == 0 {
		return nil
	}
	for rec, err := range s.records(ctx, h, c.Seq-1) {
		if err == nil && rec.Generation != c.Generation {
			err = errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d of generation %d, but that record has generation %d",
				h.Info.RunID, c.Seq, c.Generation, rec.Generation)
		}
		return err
	}
	return nil
}
