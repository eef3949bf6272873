package streamer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// run holds what the handler keeps of one run: its newest events, and its state.
type run struct {
	id      string
	clients atomic.Int64 // number of clients; a run with clients is not forgotten
	stored  atomic.Int32 // positive if the source contains the run, negative if it does not, 0 if it is unknown

	ends    atomic.Int64 // how often the run was deleted or replaced by another with its ID
	created atomic.Int64 // creation time, see cutCreated; 0 if it is unknown

	products products

	mu   sync.Mutex // guards the fields below; held during writes to the tape
	tape *tape
	view view

	published bool      // whether any record was published
	deleted   time.Time // when the run was deleted; zero once another run with its ID begins

	last     cursor // position of the newest published record
	readUpTo uint64 // number of the record up to which the source was last read for the view

	reading   *reading         // nil unless the source is being read for the view
	meanwhile []*record.Record // records published since reading began
}

// A reading reads the source into a view.
type reading struct {
	view
	done chan struct{} // closed when the reading has ended
	err  error         // why the reading failed, set before done is closed; nil if the request that reads was cancelled
}

// publish appends a record's frame to the run's own tape and to the tape of all runs. fresh is
// false if the tapes already contain the record, or if the record was lost in a crash.
func (r *run) publish(f *frame, rec *record.Record, all *tape, allGeneration uint64) (fresh, due, allDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := cursor{}
	if f.seq > 0 {
		id = cursorOf(rec)
		switch {
		case r.isOfDeleted(rec):
			return false, false, false
		case r.isAnother(rec):
			r.forget()
			r.ends.Add(1)
			r.tape.restart()
		case id.generation < r.last.generation:
			return false, false, false // the record was lost in a crash
		case id.n > r.last.n:
		case id.generation == r.last.generation:
			return false, false, false // the record has been published before
		default:
			r.tape.rewind(id.n) // the records from this number on were lost in a crash
		}
		if id.generation > r.view.last.generation && id.n <= r.view.last.n {
			r.forget()
		}
		r.last = id
	}
	r.published = true
	if id.n == 1 {
		r.deleted = time.Time{}
		r.stored.Store(0)
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

// publishedTo returns the number of the newest published record, or 0 if none was published.
func (r *run) publishedTo() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.n
}

// knownCreated returns the run's creation time in the form that cutCreated uses, or 0 if it is not
// known.
func (r *run) knownCreated() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created.Load() == 0 && r.view.ledger.First == 1 {
		r.created.Store(r.view.Created.UnixMicro())
	}
	return r.created.Load()
}

// createdOf returns the run's creation time, or 0 if it cannot be known. If the run is not
// published to this handler, createdOf asks the source, because the run may have been deleted and
// replaced without the handler noticing. It also asks the source if the run's first record was
// stored but not published, as when a runner starts a run.
func (h *Handler) createdOf(ctx context.Context, r *run) (int64, error) {
	known := r.knownCreated()
	r.mu.Lock()
	published, ends := r.published, r.ends.Load()
	r.mu.Unlock()
	if published && known != 0 || h.source == nil {
		return known, nil
	}
	created, err := h.storedCreated(ctx, r.id)
	if published && errors.Is(err, ErrNotFound) { // a run in memory whose first record is no longer kept
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if published && r.ends.Load() == ends {
		r.created.CompareAndSwap(0, created)
	}
	return created, err
}

// storedCreated returns the time of the run's first record in the source, or 0 if that record does
// not exist.
func (h *Handler) storedCreated(ctx context.Context, id string) (int64, error) {
	for rec, err := range h.source.Records(ctx, id, 0) {
		if err != nil || rec.Seq != 1 {
			return 0, err
		}
		return rec.Time.UnixMicro(), nil
	}
	_, err := h.source.Run(ctx, id) // the run may exist without a record
	return 0, err
}

// generation returns the generation of the newest known record.
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

// isOfDeleted reports whether rec is a late record of a deleted run. Records and deletions may be
// published by different goroutines.
func (r *run) isOfDeleted(rec *record.Record) bool {
	return rec.Seq > 1 && !rec.Time.After(r.deleted)
}

// isAnother reports whether rec begins another run with the same ID, because the previous run was
// deleted or existed only in memory.
func (r *run) isAnother(rec *record.Record) bool {
	switch {
	case rec.Seq != 1 || r.view.ledger.First == 0:
		return false
	case r.view.ledger.First == 1:
		return rec.Generation == r.view.first && !rec.Time.Equal(r.view.Created)
	}
	// The first record of the known run is unknown, and rec may be that record, arriving late. But
	// if rec is newer than everything that is known, it begins another run.
	return rec.Generation < r.view.first && rec.Time.After(r.view.Updated)
}

// forget discards the run's state. r.mu must be held.
func (r *run) forget() {
	r.view, r.readUpTo = newView(r.id), 0
	r.reading, r.meanwhile = nil, nil
}

// state returns the run's state in the form that /api sends. info is what the source knows about
// the run; it may be empty.
func (r *run) state(info *RunInfo) RunState {
	r.mu.Lock()
	v := r.view.clone()
	r.mu.Unlock()
	if v.Status == statusRunning && info.isClosedAt(v.LastSeq) { // its process ended without recording the end
		v.ledger.Add(&record.Record{Kind: record.KindRun, Status: record.StatusInterrupted, Generation: v.ledger.Generation})
	}
	return v.state() // without the lock: it sorts, and calls the Error methods of users' errors
}

// readMissing reads the records up to the number upTo that were not published to the handler: those
// before the first published record, and those after the newest known record. It reads them from
// source, which may be nil. If another request is already reading them, readMissing waits for that
// request.
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

// read adds the source's records after the newest one that the view knows. If records that the view
// knows were lost in a crash, read starts again from the first record.
func (v *view) read(ctx context.Context, source Source) error {
	if known := v.last; known.n > 0 {
		found := false
		for rec, err := range source.Records(ctx, v.RunID, known.n-1) { // from the newest known record
			if err != nil {
				return err
			}
			if !found {
				if found = cursorOf(&rec) == known; !found {
					break // the newest known record was lost in a crash
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

// beginReading returns the reading that the caller must carry out, or the one that another
// goroutine is carrying out, or neither if there is nothing to read. Only one goroutine at a time
// reads the source. The source is not read twice up to the same number, unless the reading failed.
// Records that are published during a reading are kept, and added by endReading.
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

// endReading stores the records that were read, and adds those that were published meanwhile. If
// reading failed, the next request tries again.
func (r *run) endReading(mine *reading, err error, cancelled bool) {
	defer close(mine.done)
	if !cancelled {
		mine.err = err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading != mine {
		return // the reading may contain records that were lost in a crash
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
