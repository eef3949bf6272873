package state

import (
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// Publishing is in order, may call back into the run, and never holds its
// lock. One goroutine at a time does it, and the others leave their records to
// it. Mostly there are no others, and then its turn ends without the lock.

// turn says whether a goroutine publishes: the last that took the turn has not
// left it. It is taken under the run's lock, and left without the lock if no
// other goroutine came.
type turn struct {
	taken int64        // how often; written under the lock
	left  atomic.Int64 // how often; awaited if there is more for the last
}

const awaited = -1

// take reports whether the turn is the caller's. If it is another's, that one
// will look for more before it ends. The lock is held.
func (t *turn) take() bool {
	for {
		switch left := t.left.Load(); {
		case left == t.taken:
			t.taken++
			return true
		case left == awaited || t.left.CompareAndSwap(t.taken-1, awaited):
			return false
		}
	}
}

// leave reports whether the turn is over: nobody has come meanwhile.
func (t *turn) leave() bool { return t.left.CompareAndSwap(t.taken-1, t.taken) }

// end ends the turn. The lock is held.
func (t *turn) end() { t.left.Store(t.taken) }

// publish publishes what is new, and unlocks.
func (r *run) publish() {
	if len(r.publishers) == 0 || !r.turn.take() {
		r.mu.Unlock()
		return
	}
	r.drain()
}

// publishLatest is publish for where the record that was kept last is at hand:
// mostly it is all that is new, and need not be unpacked.
func (r *run) publishLatest(rec *record.Record) {
	if len(r.publishers) == 0 || r.published != int(rec.Seq)-1 || len(r.recovered) > 0 || !r.turn.take() {
		r.publish()
		return
	}
	r.published = r.len()
	if !rec.WillRetry { // else its promise may have to be published by another
		r.forget()
	}
	r.mu.Unlock()
	r.show(rec)
	if rec.WillRetry {
		next := r.promise(rec)
		r.show(&next)
	}
	if !r.turn.leave() {
		r.mu.Lock()
		r.drain()
	}
}

func (r *run) show(rec *record.Record) {
	if r.redact != nil {
		r.showRedacted(rec)
		return
	}
	for _, p := range r.publishers {
		r.publishTo(p, rec)
	}
}

func (r *run) showRedacted(rec *record.Record) {
	shown := r.redacted(rec)
	for _, p := range r.publishers {
		r.publishTo(p, &shown)
	}
}

// redacted is what may be shown of rec.
func (r *run) redacted(rec *record.Record) record.Record {
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, in a function of the user's
			r.abandonTurn(rec)
		}
	}()
	shown := rec.Redacted(r.redact)
	returned = true
	return shown
}

// drain publishes until nothing is new, and unlocks.
func (r *run) drain() {
	for r.published < r.len() || len(r.recovered) > 0 {
		r.drainOne()
	}
	r.forget()
	r.turn.end()
	if r.ending {
		r.quiet.Broadcast()
	}
	r.mu.Unlock()
}

func (r *run) drainOne() {
	var rec record.Record
	if len(r.recovered) > 0 {
		rec, r.recovered = r.recovered[0], r.recovered[1:]
		rec.RunID = r.settings.RunID
	} else {
		rec = r.at(r.published)
		r.published++
		if r.isLost(&rec) {
			return
		}
	}
	r.mu.Unlock()
	r.show(&rec)
	r.mu.Lock()
}

// isLost reports whether the record could not be stored: whoever follows the run
// must not see a call completed that runs again when the run is resumed. The end
// of the run is shown, which tells that it has stopped. The lock is held.
func (r *run) isLost(rec *record.Record) bool {
	return r.broken != nil && rec.Seq > uint64(r.tail.written) && (!r.closed || rec.Kind != record.KindRun)
}

// awaitPublished returns when no goroutine publishes. The lock is held, and the
// run ends: the goroutine that publishes signals when it is done.
func (r *run) awaitPublished() {
	for !r.turn.take() {
		r.quiet.Wait()
	}
	r.turn.end()
}

// publishTo keeps a publisher's panic from the call that the record is about. One
// that leaves its goroutine takes the call with it, but not the publishing.
func (r *run) publishTo(p Publisher, rec *record.Record) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r.panics.Add(1)
		if recover() == nil { // runtime.Goexit
			r.abandonTurn(rec)
		}
	}()
	p.Publish(*rec)
	returned = true
}

// abandonTurn ends the turn of a goroutine that ended while it published rec.
// The next one that publishes goes on from there.
func (r *run) abandonTurn(rec *record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !rec.Replayed {
		r.published = int(rec.Seq) // not yet what was appended with it
	}
	r.turn.end()
	r.quiet.Broadcast()
}
