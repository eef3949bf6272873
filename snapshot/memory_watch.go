package snapshot

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/record"
)

// Follow implements [Reader].
func (s *MemoryStore) Follow(ctx context.Context, runID string, after Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		var followed *memoryRun
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
			run, changed := r.load(), s.changed
			s.mu.Unlock()
			if followed == nil {
				if last, err = run.After(after); err != nil {
					yield(record.Record{}, err)
					return
				}
				followed = r
			}
			for rec, err := range run.RecordsAfter(last) {
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

// Watch implements [Reader]. Events have no positions.
func (s *MemoryStore) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := o.check(); err != nil {
			yield(Event{}, err)
			return
		}
		w := memoryWatch{options: o, seen: make(map[string]seenRun)}
		for first := true; ; first = false {
			if err := context.Cause(ctx); err != nil {
				yield(Event{}, err)
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

// check refuses what a store without positions cannot do.
func (o *WatchOptions) check() error {
	if o.RunID != "" {
		if err := CheckRunID(o.RunID); err != nil {
			return err
		}
	}
	if o.After != "" {
		return &kindError{"snapshot: watch: this store has no positions to go on from", ErrReset}
	}
	return nil
}

// memoryWatch is what a Watch has yielded.
type memoryWatch struct {
	options WatchOptions
	seen    map[string]seenRun
}

type seenRun struct {
	run     *memoryRun
	info    Info
	version uint64
	last    uint64
}

// pendingEvent is an event whose records are not decoded yet.
type pendingEvent struct {
	Event
	run   *Run // nil without records
	after uint64
}

func (e *pendingEvent) fill() error {
	if e.run == nil {
		return nil
	}
	for rec, err := range e.run.RecordsAfter(e.after) {
		if err != nil {
			return err
		}
		e.Records = append(e.Records, rec)
	}
	return nil
}

// events returns what happened since the last time, and what is closed when
// more does. At the first time, the records that are there are not new.
func (w *memoryWatch) events(s *MemoryStore, first bool) (events []pendingEvent, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		if was := w.seen[id]; s.runs[id] != was.run {
			delete(w.seen, id)
			events = append(events, pendingEvent{Event: Event{Info: was.info, Deleted: true}})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		r := s.runs[id]
		was, known := w.seen[id]
		if w.options.RunID != "" && id != w.options.RunID || known && was.version == r.version {
			continue
		}
		now := seenRun{run: r, info: r.info(), version: r.version, last: r.run.last()}
		e := pendingEvent{Event: Event{Info: now.info}}
		if w.options.Records && now.last > was.last && (known || !first) {
			e.run, e.after = r.load(), was.last
		}
		w.seen[id] = now
		events = append(events, e)
	}
	return events, s.changed
}
