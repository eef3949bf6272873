package streamer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/core"
)

// run is what the handler keeps of one run: its newest events, and how it
// stands.
type run struct {
	id      string
	clients atomic.Int64 // that watch it: it is not forgotten meanwhile

	// fallback names the epoch of events from before the first opening that the
	// handler was told of; empty where a source knows its name.
	fallback string

	mu     sync.Mutex // guards what follows; held while the tape is written
	tape   *tape
	view   view
	epoch  string    // of the newest event; empty while that is not known
	opened time.Time // when the newest opening was that the handler was told of
	tried  uint64    // the source was read for the view when it was to have this number

	reading   *view          // what is being read from the source
	meanwhile []*core.Record // what was published since that began
}

// publish takes in a record and puts its frame on the tape of the run and on
// that of all runs.
func (r *run) publish(f *frame, rec *core.Record, all *tape, allEpoch string) (due, allDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	opening := opens(rec)
	if f.seq > 0 && f.seq <= r.view.LastSeq {
		if !opening || !rec.Time.After(r.opened) {
			return false, false // it was published before
		}
		r.forget(f.seq)
	}
	if opening {
		r.epoch, r.opened = epochName(rec.Time), rec.Time
	} else if r.epoch == "" {
		r.epoch = r.fallback
		if r.epoch == "" && f.seq == 1 {
			r.epoch = unopened
		}
	}
	r.view.take(rec)
	if r.reading != nil {
		r.meanwhile = append(r.meanwhile, rec)
	}
	return r.tape.append(f, cursor{r.epoch, f.seq}), all.number(f, allEpoch)
}

// forget forgets the records from the number on, which a crash has taken. r.mu
// is held.
func (r *run) forget(number uint64) {
	r.view, r.tried = newView(r.id), 0
	r.reading, r.meanwhile = nil, nil
	r.tape.rewind(number)
}

// name names the epochs of events from before the first opening that the
// handler was told of, by the openings that the source has.
func (r *run) name(openings []cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == "" {
		r.epoch = openings[len(openings)-1].epoch
	}
	r.tape.name(openings)
}

// name names the epochs that were not known.
func (t *tape) name(openings []cursor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := t.first; p < t.next; p++ {
		e := t.at(p)
		if e.id.epoch != "" {
			return
		}
		for _, o := range openings {
			if e.id.epoch == "" || o.n <= e.id.n {
				e.id.epoch = o.epoch
			}
		}
	}
}

// state is how a run stands, and what it has cost, as /api sends it.
func (r *run) state() RunState {
	r.mu.Lock()
	v := r.view.snapshot()
	r.mu.Unlock()
	return v.state() // which sorts, and asks users' errors for their texts
}

// complete reads the records from before the handler was told of the run, and
// those up to the number that it was not told of, if a source has them.
func (r *run) complete(ctx context.Context, source Source, upTo uint64) error {
	if source == nil {
		return nil
	}
	fresh := newView(r.id)
	if !r.beginReading(&fresh, upTo) {
		return nil
	}
	defer r.endReading(&fresh)
	for rec, err := range source.Records(ctx, r.id, 0) {
		if err != nil {
			fresh = view{}
			return err
		}
		fresh.take(&rec)
	}
	return nil
}

// beginReading reports whether the view is to be read from the source, which
// is tried once for each state of the run, and by one at a time. What is
// published meanwhile is kept for the end of it.
func (r *run) beginReading(fresh *view, upTo uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	upTo = max(upTo, r.view.LastSeq, 1)
	if r.reading != nil || r.view.whole() && r.view.LastSeq >= upTo || r.tried >= upTo {
		return false
	}
	r.reading, r.tried = fresh, upTo
	return true
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
		fresh.calls.Restored = r.view.calls.Restored // which no record tells of
		r.view = *fresh
	}
}
