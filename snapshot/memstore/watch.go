package memstore

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		var followed *run
		var last uint64
		for {
			r, err := s.find(ctx, runID)
			if err == nil && followed != nil && r != followed {
				s.mu.Unlock()
				err = noRun(runID) // the one that is followed was deleted, and has a namesake
			}
			if err != nil {
				yield(record.Record{}, err)
				return
			}
			if followed == nil {
				last, err = r.find(after)
				followed = r
			}
			if err != nil {
				s.mu.Unlock()
				yield(record.Record{}, err)
				return
			}
			more, changed := r.after(last), s.changed
			s.mu.Unlock()
			for rec, err := range more.records() {
				if !yield(rec, err) || err != nil {
					return
				}
				last = rec.Seq
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// find is the number of the record that the cursor points to, or ErrReset if it
// is not in the history of the run. The lock is held.
func (r *run) find(c snapshot.Cursor) (uint64, error) {
	loaded, err := r.load()
	if err != nil {
		return 0, err
	}
	if c.Seq > loaded.LastSeq {
		return 0, errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d, and the run has %d", loaded.RunID, c.Seq, loaded.LastSeq)
	}
	if c.Seq > 0 && c.Generation > 0 {
		rec, err := loaded.Record(c.Seq)
		if err != nil {
			return 0, err
		}
		if rec.Generation != c.Generation {
			return 0, errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d of generation %d, and that record is of generation %d", loaded.RunID, c.Seq, c.Generation, rec.Generation)
		}
	}
	return c.Seq, nil
}

// Watch implements [snapshot.Reader]. Events have no positions.
func (s *Store) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Event, error] {
	return func(yield func(snapshot.Event, error) bool) {
		if err := checkWatch(o); err != nil {
			yield(snapshot.Event{}, err)
			return
		}
		w := watch{options: o, seen: make(map[string]seenRun)}
		for first := true; ; first = false {
			if err := context.Cause(ctx); err != nil {
				yield(snapshot.Event{}, err)
				return
			}
			events, changed := w.events(s, first)
			for _, e := range events {
				if err := e.fill(); err != nil || !yield(e.Event, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// checkWatch refuses what a store without positions cannot do.
func checkWatch(o snapshot.WatchOptions) error {
	if o.RunID != "" {
		if err := snapshot.CheckRunID(o.RunID); err != nil {
			return err
		}
	}
	if o.After != "" {
		return errkind.New(snapshot.ErrReset, "snapshot: watch: this store has no positions to go on from")
	}
	return nil
}

// watch is what a Watch has yielded.
type watch struct {
	options snapshot.WatchOptions
	seen    map[string]seenRun
}

type seenRun struct {
	run     *run
	info    snapshot.Info
	version uint64
	last    uint64
}

// pendingEvent is an event whose records are not decoded yet.
type pendingEvent struct {
	snapshot.Event
	more tail
}

func (e *pendingEvent) fill() error {
	for rec, err := range e.more.records() {
		if err != nil {
			return err
		}
		e.Records = append(e.Records, rec)
	}
	return nil
}

// events returns what happened since the last time, and what is closed when
// more does. At the first time, the records that are there are not new.
func (w *watch) events(s *Store, first bool) (events []pendingEvent, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		if was := w.seen[id]; s.runs[id] != was.run {
			delete(w.seen, id)
			events = append(events, pendingEvent{Event: snapshot.Event{Info: was.info, Deleted: true}})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		r := s.runs[id]
		was, known := w.seen[id]
		isNews := !known || was.version != r.version || w.options.Records && was.last != r.last()
		if w.options.RunID != "" && id != w.options.RunID || !isNews {
			continue
		}
		now := seenRun{run: r, info: r.info(), version: r.version, last: r.last()}
		e := pendingEvent{Event: snapshot.Event{Info: now.info}}
		if w.options.Records && now.last > was.last && (known || !first) {
			e.more = r.after(was.last)
		}
		w.seen[id] = now
		events = append(events, e)
	}
	return events, s.changed
}
