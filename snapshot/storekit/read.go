package storekit

import (
	"context"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// load returns the run with the given head and its records. It returns nil if the records no longer
// exist.
func (s *Store) load(ctx context.Context, h Head) (*snapshot.Run, error) {
	run, err := snapshot.NewRun(h.Info, nil)
	if err != nil || h.Info.LastSeq == 0 {
		return run, err
	}
	batches, err := s.batches(ctx, &h, 0)
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	last := uint64(0)
	for _, b := range batches {
		if last < h.Info.LastSeq { // the run may have continued meanwhile
			parts, last = append(parts, b.Data), b.Last
		}
	}
	if last < h.Info.LastSeq {
		return nil, nil
	}
	run, _, err = run.Extend(parts...)
	return run, err
}

func (s *Store) batches(ctx context.Context, h *Head, after uint64) ([]Batch, error) {
	return Retry(ctx, func() ([]Batch, error) { return s.backend.Records(ctx, h.Info.RunID, h.UID, after) })
}

// Load implements snapshot.Reader.
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return nil, err
		}
		run, err := s.load(ctx, h)
		if run == nil && err == nil {
			if now, headErr := s.find(ctx, runID); headErr == nil && now.UID == h.UID {
				err = &snapshot.CorruptError{RunID: runID, Err: fmt.Errorf("records up to %d are missing", h.Info.LastSeq)}
			} else {
				continue // the run was deleted, and another run has its ID
			}
		}
		return run, err
	}
}

// Records implements snapshot.Reader.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		h, err := s.head(ctx, runID)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		s.records(ctx, &h, after)(yield)
	}
}

// records yields the records of the run with numbers above after.
func (s *Store) records(ctx context.Context, h *Head, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if after >= h.Info.LastSeq {
			return
		}
		batches, err := s.batches(ctx, h, after)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		for _, b := range batches {
			for len(b.Data) > 0 {
				var encoded []byte
				var seq uint64
				if encoded, seq, b.Data, err = snapshot.CutRecord(b.Data); err == nil && seq <= after {
					continue
				}
				var rec record.Record
				if err == nil {
					rec, err = snapshot.DecodeRecord(encoded)
				}
				if rec.RunID = h.Info.RunID; !yield(rec, err) || err != nil {
					return
				}
			}
		}
	}
}

// Info implements snapshot.Reader.
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	h, err := s.head(ctx, runID)
	return h.Info, err
}

// flush waits until the records that this Store has appended to the run are stored, if
// that is possible.
func (s *Store) flush(ctx context.Context, runID string) {
	s.mu.Lock()
	j := s.open[runID]
	s.mu.Unlock()
	if j != nil {
		_ = j.Flush(ctx) // the caller notices the end of ctx
	}
}
