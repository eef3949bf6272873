package streamer

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// run is what the handler keeps of one run: its newest events, and its state.
type run struct {
	id      string
	clients atomic.Int64 // number of clients; a run with clients is not forgotten
	stored  atomic.Int32 // above 0 if the source has the run, below 0 if it does not, 0 if that is not known

	ends    atomic.Int64 // how often the run was deleted, or replaced by another with its ID
	created atomic.Int64 // creation time, see cutCreated; 0 while it is not known

	products products

	mu   sync.Mutex // guards the fields below; held while the tape is written
	tape *tape
	view view

	published bool // whether a record was published

	last     cursor // position of the newest record that was published
	readUpTo uint64 // the number up to which the source was last read for the view

	reading   *reading         // nil if the source is not being read for the view
	meanwhile []*record.Record // what was published since reading began
}

// A reading reads the source into a view.
type reading struct {
	view
	done chan struct{} // closed when it has ended
	err  error         // why it failed, set before done is closed; nil if its own request was cancelled
}

// publish puts the frame of a record on the tape of the run and on that of all runs. fresh is
// false for a record that the tapes already have, or that a crash has lost.
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
			return false, false, false // a crash has lost it
		case id.n > r.last.n:
		case id.generation == r.last.generation:
			return false, false, false // it was published before
		default:
			r.tape.rewind(id.n) // a crash has lost what was there
		}
		if id.generation > r.view.last.generation && id.n <= r.view.last.n {
			r.forget()
		}
		r.last = id
	}
	if id.n == 1 {
		r.created.Store(rec.Time.UnixMicro())
	}
	if id.n == 0 || id.n > r.view.last.n {
		r.view.take(rec)
	}
	if r.reading != nil {
		r.meanwhile = append(r.meanwhile, rec)
	}
	return true, r.tape.append(f, id), all.appendNumbered(f, allGeneration)
}

// publishedTo returns the number of the newest record that was published; 0 if none was.
func (r *run) publishedTo() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.n
}

// knownCreated returns the creation time of the run, see cutCreated, or 0 if it is not
// known.
func (r *run) knownCreated() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created.Load() == 0 && r.view.ledger.First == 1 {
		r.created.Store(r.view.Created.UnixMicro())
	}
	return r.created.Load()
}

// createdOf returns the creation time of the run. For a run that is not published to this
// handler it asks the source, since the run may have been deleted and replaced without
// notice.
func (h *Handler) createdOf(ctx context.Context, r *run) (int64, error) {
	r.mu.Lock()
	published := r.published
	r.mu.Unlock()
	if published || h.source == nil {
		return r.knownCreated(), nil
	}
	for rec, err := range h.source.Records(ctx, r.id, 0) {
		if err != nil || rec.Seq != 1 {
			return 0, err
		}
		return rec.Time.UnixMicro(), nil
	}
	_, err := h.source.Run(ctx, r.id) // the run may exist without a record
	return 0, err
}

// generation is the generation of the newest known record.
func (r *run) generation() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.last.generation, r.view.last.generation)
}

// isKnown reports whether any record of the run is known. If not, clients may be
// waiting for the run to begin.
func (r *run) isKnown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published || r.view.LastSeq > 0
}

// isAnother reports whether rec begins another run with the same ID, because the previous one was
// deleted, or existed only in memory.
func (r *run) isAnother(rec *record.Record) bool {
	switch {
	case rec.Seq != 1 || r.view.ledger.First == 0:
		return false
	case r.view.ledger.First == 1:
		return rec.Generation == r.view.first && !rec.Time.Equal(r.view.Created)
	}
	// The first record of the previous run is unknown, and rec may be that one, arriving late. It is
	// not if it is newer than everything known.
	return rec.Generation < r.view.first && rec.Time.After(r.view.Updated)
}

// forget forgets the state of the run. r.mu is held.
func (r *run) forget() {
	r.view, r.readUpTo = newView(r.id), 0
	r.reading, r.meanwhile = nil, nil
}

// state returns the state and the cost of a run, as /api sends them. info is what the source knows
// of the run, if anything.
func (r *run) state(info *RunInfo) RunState {
	r.mu.Lock()
	v := r.view.clone()
	r.mu.Unlock()
	if v.Status == statusRunning && info.isClosedAt(v.LastSeq) { // its process ended without recording the end
		v.ledger.Add(&record.Record{Kind: record.KindRun, Status: record.StatusInterrupted, Generation: v.ledger.Generation})
	}
	return v.state() // without the lock: it sorts, and calls Error on errors of users
}

// readMissing reads records up to a number that were not published to the handler, if there is a
// source: those before the first published record, and those after the newest known one. If another
// request is reading them, it waits for that.
func (r *run) readMissing(ctx context.Context, source Source, upTo uint64) error {
	if source == nil {
		return nil
	}
	for {
		mine, other := r.beginReading(upTo)
		switch {
		case mine != nil:
			err := mine.read(ctx, source)
			r.endReading(mine, err, ctx.Err() != nil)
			return err
		case other == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-other.done:
			if other.err != nil {
				return other.err
			}
		}
	}
}

// read reads the records of the source after those that the view knows, or all of them if a
// crash has lost records that the view knows.
func (v *view) read(ctx context.Context, source Source) error {
	if known := v.last; known.n > 0 {
		found := false
		for rec, err := range source.Records(ctx, v.RunID, known.n-1) { // from the newest record that is known
			if err != nil {
				return err
			}
			if !found {
				if found = cursorOf(&rec) == known; !found {
					break // a crash has lost it
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

// beginReading returns the reading that the caller must do, or the one that another goroutine is
// doing, or neither if there is nothing to read. The source is read at most once up to the same
// number, unless that failed, and by one goroutine at a time. Records that are published meanwhile
// are kept and added afterwards.
func (r *run) beginReading(upTo uint64) (mine, other *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	upTo = max(upTo, r.view.LastSeq, 1)
	if r.reading != nil || r.view.isWhole() && r.view.LastSeq >= upTo || r.readUpTo >= upTo {
		return nil, r.reading
	}
	mine = &reading{view: newView(r.id), done: make(chan struct{})}
	if r.view.isWhole() {
		mine.view = r.view.clone()
	}
	r.reading, r.readUpTo = mine, upTo
	return mine, nil
}

// endReading stores what was read, and adds the records that were published meanwhile. If the
// reading failed, the next request reads again.
func (r *run) endReading(mine *reading, err error, cancelled bool) {
	defer close(mine.done)
	if !cancelled {
		mine.err = err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading != mine {
		return // the reading may contain records that a crash has lost
	}
	meanwhile := r.meanwhile
	r.reading, r.meanwhile = nil, nil
	if err != nil {
		r.readUpTo = 0
	}
	if err != nil || mine.LastSeq == 0 {
		return
	}
	for _, rec := range meanwhile {
		if rec.Seq > mine.LastSeq {
			mine.take(rec)
		}
	}
	if mine.LastSeq >= r.view.LastSeq {
		mine.ledger.TakeRecalled(&r.view.ledger)
		r.view = mine.view
	}
}
