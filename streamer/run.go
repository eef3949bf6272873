package streamer

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// run is what the handler keeps of one run: its newest events, and how it
// stands.
type run struct {
	id      string
	clients atomic.Int64 // that watch it: it is not forgotten meanwhile
	stored  atomic.Int32 // above 0 if the source has it, below 0 if not; 0 if it was not asked

	ends atomic.Int64 // how often it was deleted, or replaced unseen

	products products

	mu   sync.Mutex // guards what follows; held while the tape is written
	tape *tape
	view view

	published bool // anything was

	last  cursor // of the newest record that was published
	tried uint64 // the source was read for the view when it was to have this number

	reading   *view            // what is being read from the source
	meanwhile []*record.Record // what was published since that began
}

// publish takes in a record and puts its frame on the tape of the run and on
// that of all runs.
// Fresh is false for a record that the tapes have, or that a crash has taken.
func (r *run) publish(f *frame, rec *record.Record, all *tape, allGeneration uint64) (fresh, due, allDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = true
	id := cursor{}
	if f.seq > 0 {
		id = cursorOf(rec)
		switch {
		case r.isAnother(rec):
			r.forget()
			r.tape.restart()
		case id.generation < r.last.generation:
			return false, false, false // a crash has taken it
		case id.n > r.last.n:
		case id.generation == r.last.generation:
			return false, false, false // it was published before
		default:
			r.tape.rewind(id.n) // a crash has taken what was there
		}
		if id.generation > r.view.last.generation && id.n <= r.view.last.n {
			r.forget()
		}
		r.last = id
	}
	if id.n == 0 || id.n > r.view.last.n {
		r.view.take(rec)
	}
	if r.reading != nil {
		r.meanwhile = append(r.meanwhile, rec)
	}
	return true, r.tape.append(f, id), all.number(f, allGeneration)
}

// isKnown reports whether anything was published of the run: a client may wait for one
// that is not there.
func (r *run) isKnown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published || r.view.LastSeq > 0
}

// isAnother reports whether rec begins another run with the same ID: the one
// before was deleted, or was in memory alone.
func (r *run) isAnother(rec *record.Record) bool {
	switch {
	case rec.Seq != 1 || r.view.ledger.First == 0:
		return false
	case r.view.ledger.First == 1:
		return rec.Generation == r.view.first && !rec.Time.Equal(r.view.Created)
	}
	// Of the one before only later records are known. Its first may come late.
	return rec.Generation < r.view.first && rec.Time.After(r.view.Updated)
}

// forget forgets how the run stands. r.mu is held.
func (r *run) forget() {
	r.view, r.tried = newView(r.id), 0
	r.reading, r.meanwhile = nil, nil
}

// state is how a run stands, and what it has cost, as /api sends it.
func (r *run) state() RunState {
	r.mu.Lock()
	v := r.view.clone()
	r.mu.Unlock()
	return v.state() // which sorts, and asks users' errors for their texts
}

// complete reads what was not published to the handler, up to the number, if a
// source has it: the records before the first that was published, and those
// after the newest that it knows.
func (r *run) complete(ctx context.Context, source Source, upTo uint64) error {
	if source == nil {
		return nil
	}
	fresh := r.beginReading(upTo)
	if fresh == nil {
		return nil
	}
	err := fresh.read(ctx, source)
	if err != nil {
		*fresh = view{}
	}
	r.endReading(fresh)
	return err
}

// read takes in what the source has after what the view knows; all of it if
// that was lost.
func (v *view) read(ctx context.Context, source Source) error {
	if known := v.last; known.n > 0 {
		found := false
		for rec, err := range source.Records(ctx, v.RunID, known.n-1) { // with the newest that is known
			if err != nil {
				return err
			}
			if !found {
				if found = cursorOf(&rec) == known; !found {
					break // a crash has taken it
				}
				continue
			}
			v.take(&rec)
		}
		if found {
			return nil
		}
		*v = newView(v.RunID)
	}
	for rec, err := range source.Records(ctx, v.RunID, 0) {
		if err != nil {
			return err
		}
		v.take(&rec)
	}
	return nil
}

// beginReading returns the view to read into, nil if there is nothing to read.
// The source is tried once for each state of the run, and by one at a time.
// What is published meanwhile is kept for the end of it.
func (r *run) beginReading(upTo uint64) *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	upTo = max(upTo, r.view.LastSeq, 1)
	if r.reading != nil || r.view.whole() && r.view.LastSeq >= upTo || r.tried >= upTo {
		return nil
	}
	fresh := newView(r.id)
	if r.view.whole() {
		fresh = r.view.clone()
	}
	r.reading, r.tried = &fresh, upTo
	return r.reading
}

// endReading takes over what was read, and what came meanwhile.
func (r *run) endReading(fresh *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading != fresh {
		return // a crash has taken records that may be in it
	}
	meanwhile := r.meanwhile
	r.reading, r.meanwhile = nil, nil
	if fresh.LastSeq == 0 {
		return
	}
	for _, rec := range meanwhile {
		if rec.Seq > fresh.LastSeq {
			fresh.take(rec)
		}
	}
	if fresh.LastSeq >= r.view.LastSeq {
		fresh.ledger.TakeRecalled(&r.view.ledger)
		r.view = *fresh
	}
}
