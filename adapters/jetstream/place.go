package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// worthSearching is the number of records up to which it is faster to read and skip records than to
// search: one request returns many messages, while a search needs several requests.
const worthSearching = 100

// place returns the sequence in the stream from which to read a run's messages in order to get the
// record with the number seq and all later records. The record must exist; if seq is 0, place
// returns the sequence for all records. Messages before the returned sequence belong to another
// run, or hold only earlier records.
func (s *Store) place(ctx context.Context, h *head, seq uint64) (uint64, error) {
	if seq <= worthSearching {
		seq = 0
	}
	p := placeFinder{store: s, head: h, since: h.seq}
	if h.kind == kindAppended {
		p.since = h.opening
	}
	first, is, err := p.firstFrom(ctx, 1, seq)
	if err != nil || is {
		return first, err
	}
	low, high := first+1, h.seq
	for low < high {
		middle := low + (high-low)/2
		next, is, err := p.firstFrom(ctx, middle, seq)
		if err != nil {
			return 0, err
		}
		if is {
			high = middle
		} else {
			low = next + 1
		}
	}
	return high, nil
}

// A placeFinder reads single messages on a run's subject.
type placeFinder struct {
	store *Store
	head  *head
	since uint64 // the sequence of a message of the run; all later messages also belong to the run
}

// firstFrom returns the sequence of the first message at or after the given sequence. It also
// reports whether the message belongs to the run and holds the given record or a later one.
func (p *placeFinder) firstFrom(ctx context.Context, at, record uint64) (seq uint64, is bool, err error) {
	subject := p.store.names.run(p.head.info.RunID)
	m, err := p.store.message(ctx, query{Next: subject, Seq: at})
	if errors.Is(err, errNotFound) {
		return 0, false, storekit.NotFoundError(p.head.info.RunID)
	} else if err != nil {
		return 0, false, err
	}
	if m.last < record {
		return m.seq, false, nil
	}
	is, err = p.isOfRun(ctx, m)
	return m.seq, is, err
}

// isOfRun reports whether a message belongs to this run and not to a deleted run with the same ID.
func (p *placeFinder) isOfRun(ctx context.Context, m *message) (bool, error) {
	if m.seq >= p.since {
		return true, nil
	}
	born, since := m.born, m.seq
	if m.kind == kindAppended {
		opening, err := p.store.message(ctx, query{Seq: m.opening})
		if errors.Is(err, errNotFound) { // the messages of a deleted run are being removed
			return false, nil
		} else if err != nil {
			return false, err
		}
		born, since = opening.born, opening.seq
	}
	if born != p.head.born {
		return false, nil
	}
	p.since = since
	return true, nil
}

// Records implements [snapshot.Reader]. It begins reading at the message that contains the first
// requested record.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := s.yieldRecords(ctx, runID, after, yield); err != nil {
			yield(record.Record{}, err)
		}
	}
}

// yieldRecords returns nil when all records were yielded, or when yield has returned false.
func (s *Store) yieldRecords(ctx context.Context, runID string, after uint64, yield func(record.Record, error) bool) error {
	if err := storekit.Check(ctx, runID); err != nil {
		return err
	}
	if err := s.flushOwn(ctx, runID); err != nil {
		return err
	}
	h, err := s.head(ctx, runID)
	if err != nil || after >= h.last {
		return err
	}
	from, err := s.place(ctx, h, after+1)
	if err != nil {
		return err
	}
	last := after
	for m, err := range s.messages(ctx, runID, from, h.seq) {
		if err != nil {
			return err
		}
		for rec, err := range s.decodeRecords(ctx, runID, m) {
			switch {
			case err != nil:
				return err
			case rec.Seq <= last:
				continue
			case rec.Seq > last+1:
				return fmt.Errorf("%w: run %s: got record %d, want record %d", snapshot.ErrCorrupt, runID, rec.Seq, last+1)
			}
			if !yield(rec, nil) {
				return nil
			}
			last = rec.Seq
		}
	}
	if last < h.last {
		return s.missingError(ctx, h, last)
	}
	return nil
}

// missingError returns the error for a run that has fewer records than it should.
func (s *Store) missingError(ctx context.Context, h *head, last uint64) error {
	now, err := s.head(ctx, h.info.RunID)
	if err != nil {
		return err
	} else if now.born != h.born {
		return storekit.NotFoundError(h.info.RunID)
	}
	return fmt.Errorf("%w: run %s: it has %d records, want %d", snapshot.ErrCorrupt, h.info.RunID, last, h.last)
}

// decodeRecords yields the records in a run's message.
func (s *Store) decodeRecords(ctx context.Context, runID string, m *message) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		data, err := s.recordsOf(ctx, m)
		if err != nil {
			yield(record.Record{}, fmt.Errorf("snapshot: run %s: %w", runID, err))
			return
		}
		for rec, err := range snapshot.DecodeRecords(data) {
			if err != nil {
				yield(rec, fmt.Errorf("snapshot: run %s: %w", runID, err))
				return
			}
			if rec.RunID = runID; !yield(rec, nil) {
				return
			}
		}
	}
}
