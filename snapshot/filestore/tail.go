package filestore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Records implements [snapshot.Reader]. Of the snapshot it reads the blocks that
// hold the records; the journals it reads from their beginning, without keeping
// what it has passed.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		_, err := s.tail(ctx, runID, time.Time{}, after, func(rec record.Record) error {
			if !yield(rec, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(record.Record{}, err)
		}
	}
}

// A tailed run is what is known of one of which the end was read.
type tailed struct {
	created time.Time
	info    snapshot.Info // what the files with its records say
	last    uint64        // the number of its last record
	journal uint64        // the last one; 0 if none was read
	end     int64         // up to where it has whole frames
}

// tail yields the records of a run after a number: those there are. A run that
// was not created then is ErrNotFound, unless that is zero; and so is one that is
// replaced by another of its ID while it is read. For files that no writer leaves behind, it
// falls back to Load.
func (s *Store) tail(ctx context.Context, runID string, created time.Time, after uint64, yield func(record.Record) error) (tailed, error) {
	if err := s.check(ctx, runID); err != nil {
		return tailed{}, err
	}
	t := &tailing{store: s, runID: runID, of: created, passed: after, yield: yield}
	for range 3 { // a compaction may replace the files meanwhile
		if err := context.Cause(ctx); err != nil {
			return tailed{}, err
		}
		err := t.read(ctx)
		if err == nil || t.err != nil {
			return t.tailed, t.err
		}
	}
	run, err := s.Load(ctx, runID)
	if err != nil {
		return tailed{}, err
	}
	if t.isOther(run.Created) {
		return tailed{}, noRun(runID)
	}
	for rec, err := range run.RecordsAfter(t.passed) {
		if err == nil {
			err = yield(rec)
		}
		if err != nil {
			return tailed{created: run.Created}, err
		}
	}
	return tailed{created: run.Created, info: run.Info, last: run.LastSeq}, nil
}

// tailing reads the files of a run from the oldest on.
type tailing struct {
	tailed
	store  *Store
	runID  string
	of     time.Time // when the run that is read was created; zero until that is known
	passed uint64    // up to here the records were yielded, or are not wanted
	yield  func(record.Record) error
	err    error // of yield, of ctx, or that it is another run
}

// isOther reports whether a run that was created then is another one.
func (t *tailing) isOther(created time.Time) bool { return !t.of.IsZero() && !created.Equal(t.of) }

// errUnclear is a run that is not as a writer leaves it, or that changes.
var errUnclear = errors.New("snapshot: the run has to be read as a whole")

func (t *tailing) read(ctx context.Context) error {
	s := t.store
	m, err := s.dir(t.runID).meta()
	if err != nil || !m.ok {
		return errors.Join(err, errUnclear)
	}
	meta := &m.info
	l, err := s.dir(t.runID).listing()
	if err != nil {
		return err
	}
	if t.tailed = (tailed{created: meta.Created}); t.isOther(meta.Created) {
		t.err = noRun(t.runID)
		return t.err
	}
	t.of = meta.Created
	covers := uint64(0)
	if n := len(l.snapshots); n > 0 {
		covers = l.snapshots[n-1]
		if err := t.readSnapshot(s.run(t.runID, snapshotName(covers))); err != nil {
			return err
		}
	}
	// A journal covers those before it, if it was begun with their records.
	for _, n := range l.journals {
		if h, err := t.headerOf(n); err != nil {
			return err
		} else if h.covers > covers {
			covers = h.covers
		}
	}
	for i, n := range l.journals {
		if n <= covers {
			continue
		}
		if err := t.readJournal(ctx, n, i == len(l.journals)-1); err != nil {
			return err
		}
	}
	if t.last < meta.LastSeq || t.last == 0 {
		return errUnclear
	}
	return nil
}

func (t *tailing) take(rec record.Record) error {
	if rec.Seq != t.passed+1 {
		return errUnclear
	}
	if t.err = t.yield(rec); t.err == nil {
		t.passed = rec.Seq
	}
	return t.err
}

func (t *tailing) readSnapshot(name string) error {
	f, size, err := openSized(t.store.disk, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	d, err := openDocument(f, size)
	if err != nil {
		return err
	}
	if d.info.RunID != t.runID || !d.info.Created.Equal(t.created) {
		return errUnclear
	}
	t.info, t.last = d.info, d.info.LastSeq
	for rec, err := range d.recordsAfter(t.passed) {
		if err == nil {
			err = t.take(rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tailing) headerOf(number uint64) (header, error) {
	f, size, err := openSized(t.store.disk, t.store.run(t.runID, journalName(number)))
	if err != nil {
		return header{}, err
	}
	defer func() { _ = f.Close() }()
	for first, err := range framesFrom(f, 0, size) {
		if err != nil || first.kind != frameHeader {
			return header{}, errors.Join(err, errUnclear)
		}
		return first.headerOf(t.runID, journalName(number))
	}
	return header{}, errUnclear
}

// readJournal reads a journal a frame at a time.
func (t *tailing) readJournal(ctx context.Context, number uint64, isLast bool) error {
	f, size, err := openSized(t.store.disk, t.store.run(t.runID, journalName(number)))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	offset, carried := int64(0), uint64(0)
	for next, err := range framesFrom(f, 0, size) {
		if err != nil {
			return err
		}
		switch {
		case (offset == 0) != (next.kind == frameHeader):
			return errUnclear
		case next.kind == frameHeader:
			h, err := next.header()
			if err != nil || h.info.RunID != t.runID || !h.info.Created.Equal(t.created) {
				return errUnclear
			}
			if carried = h.carried; h.info.Generation > t.info.Generation || t.info.RunID == "" {
				t.info = h.info
			}
		case next.kind == frameRecords:
			if t.err = context.Cause(ctx); t.err != nil {
				return t.err
			}
			if err := t.records(next.body); err != nil {
				return err
			}
		case next.kind == frameInfo:
			if t.info, err = snapshot.DecodeInfo(next.body); err != nil {
				return errUnclear
			}
		default:
			return errUnclear
		}
		offset += next.size
	}
	upTo, all := readable(f, size)
	p := part{name: journalName(number), end: offset, size: size, limit: upTo}
	if err := p.lookBehind(f); err != nil {
		return err
	}
	t.journal, t.end = number, offset
	if t.last < carried || !all || p.damage || p.torn && !isLast {
		return errUnclear
	}
	return nil
}

// records takes the records of a frame that are new.
func (t *tailing) records(body []byte) error {
	for len(body) > 0 {
		encoded, seq, rest, err := snapshot.CutRecord(body)
		if err != nil || seq > t.last+1 {
			return errUnclear
		}
		if body = rest; seq <= t.last {
			continue
		}
		t.last = seq
		if seq <= t.passed {
			continue
		}
		rec, err := snapshot.DecodeRecord(encoded)
		if err != nil {
			return errUnclear
		}
		rec.RunID = t.runID
		if err := t.take(rec); err != nil {
			return err
		}
	}
	return nil
}
