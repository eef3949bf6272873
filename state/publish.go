package state

import (
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// Records are published in order and without holding the run's lock, because a publisher may use
// the run. Only one goroutine publishes at a time; other goroutines leave their records to it.
// Usually there are none, and the goroutine ends its turn without locking the run again.

// turn is the right to publish. A goroutine that takes the turn keeps it until it leaves or ends
// the turn. Taking the turn requires the run's lock. Leaving it requires the lock only if another
// goroutine has records to publish.
type turn struct {
	taken int64        // how often the turn was taken; written under the lock
	left  atomic.Int64 // how often it was left, or awaited if its owner has more to publish
}

const awaited = -1

// publication tracks which of a run's records have been published. It is guarded by the run's lock.
type publication struct {
	published int             // the number of published records
	recovered []record.Record // records of recalled calls, not yet published
	turn      turn            // held by the goroutine that publishes
	quiet     *sync.Cond      // signalled when publishing pauses while the run ends
	panics    atomic.Int64    // panics in publishers
}

// take takes the turn and returns true. If another goroutine has the turn, take returns false, and
// that goroutine looks for more records before it ends its turn. The lock must be held.
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

// leave ends the turn and returns true. If another goroutine has called take meanwhile, leave
// returns false instead.
func (t *turn) leave() bool { return t.left.CompareAndSwap(t.taken-1, t.taken) }

// end ends the turn. The lock must be held.
func (t *turn) end() { t.left.Store(t.taken) }

// publishAndUnlock publishes all new records. r.mu must be held.
func (r *run) publishAndUnlock() {
	if len(r.config.publishers) == 0 || !r.out.turn.take() {
		r.mu.Unlock()
		return
	}
	r.drainAndUnlock()
}

// publishLatestAndUnlock is publishAndUnlock for callers that have the latest record. It is usually
// the only new one, so no record has to be unpacked.
func (r *run) publishLatestAndUnlock(rec *record.Record) {
	if len(r.config.publishers) == 0 || r.out.published != int(rec.Seq)-1 || len(r.out.recovered) > 0 || !r.out.turn.take() {
		r.publishAndUnlock()
		return
	}
	r.out.published = r.keeper.len()
	if !rec.WillRetry { // otherwise another goroutine may have to publish its retrying record
		r.forget()
	}
	r.mu.Unlock()
	r.show(rec)
	if rec.WillRetry {
		next := r.retryingRecord(rec)
		r.show(&next)
	}
	if !r.out.turn.leave() {
		r.mu.Lock()
		r.drainAndUnlock()
	}
}

func (r *run) show(rec *record.Record) {
	if r.config.redact != nil {
		r.showRedacted(rec)
		return
	}
	for _, p := range r.config.publishers {
		r.publishTo(p, rec)
	}
}

func (r *run) showRedacted(rec *record.Record) {
	shown := r.redact(rec)
	for _, p := range r.config.publishers {
		r.publishTo(p, &shown)
	}
}

// redact returns a copy of rec with redacted texts.
func (r *run) redact(rec *record.Record) record.Record {
	returned := false
	defer func() {
		if !returned { // user code called runtime.Goexit
			r.abandonTurn(rec)
		}
	}()
	shown := rec.Redacted(r.config.redact)
	returned = true
	return shown
}

// drainAndUnlock publishes until there is nothing new. r.mu must be held.
func (r *run) drainAndUnlock() {
	for r.out.published < r.keeper.len() || len(r.out.recovered) > 0 {
		r.drainOne()
	}
	r.forget()
	r.out.turn.end()
	if r.life.ending {
		r.out.quiet.Broadcast()
	}
	r.mu.Unlock()
}

func (r *run) drainOne() {
	var rec record.Record
	if len(r.out.recovered) > 0 {
		rec, r.out.recovered = r.out.recovered[0], r.out.recovered[1:]
		rec.RunID = r.settings.RunID
	} else {
		rec = r.keeper.at(r.out.published)
		r.out.published++
		if r.isLost(&rec) {
			return
		}
	}
	r.mu.Unlock()
	r.show(&rec)
	r.mu.Lock()
}

// isLost reports whether the record could not be stored and therefore must not be published: a call
// that will run again when the run is resumed must not be shown as completed. The end of the run is
// published anyway, so that publishers know that the run has stopped. r.mu must be held.
func (r *run) isLost(rec *record.Record) bool {
	return r.keeper.isLost(rec.Seq) && (!r.life.closed || rec.Kind != record.KindRun)
}

// awaitPublished waits until no goroutine is publishing. r.mu must be held, and the run must be
// ending, because only then does the publishing goroutine signal that it is done.
func (r *run) awaitPublished() {
	for !r.out.turn.take() {
		r.out.quiet.Wait()
	}
	r.out.turn.end()
}

// publishTo calls a publisher and recovers its panics. If the publisher ends the goroutine, the
// call on that goroutine ends too, but publishing continues.
func (r *run) publishTo(p Publisher, rec *record.Record) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r.out.panics.Add(1)
		if recover() == nil { // runtime.Goexit was called
			r.abandonTurn(rec)
		}
	}()
	p.Publish(*rec)
	returned = true
}

// abandonTurn ends the turn of a goroutine that ended while publishing rec. The next goroutine
// continues from there.
func (r *run) abandonTurn(rec *record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !rec.Replayed {
		r.out.published = int(rec.Seq) // the retrying record that follows rec is published next
	}
	r.out.turn.end()
	r.out.quiet.Broadcast()
}
