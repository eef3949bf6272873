package bus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A queue passes records in order from publishers to one consumer. It consists of two halves.
// Publishers fill one half while holding the lock. The consumer reads the other half without the
// lock, and swaps the halves once it has read all of its own.
type queue struct {
	limit   uint64
	block   time.Duration   // how long Publish may wait for space
	onGap   func(Gap)       // nil if gaps are not reported
	expired <-chan struct{} // closed when the consumer no longer reads; may be nil
	wake    chan struct{}   // has room for one token, which wakes a parked consumer

	mu       sync.Mutex
	records  []record.Record // the records in the publishers' half
	gaps     []mark          // gaps among records, in order
	accepted uint64          // number of records ever queued
	seen     uint64          // the value of handed when it was last read under the lock
	missed   uint64          // number of records ever dropped
	phase    phase
	parked   bool          // the consumer is waiting; whoever clears parked must send the token
	room     chan struct{} // closed when there is space; nil if no publisher is waiting

	_ [64]byte // keeps the fields that the consumer writes on separate cache lines

	handed  atomic.Uint64   // number of records ever returned by next
	stopped atomic.Bool     // next returns nil from now on
	wanted  atomic.Bool     // a publisher is waiting for space
	half    []record.Record // the records in the consumer's half
	holes   []mark          // gaps among the records in half, in order
	at      int             // index of the next record in half
	hole    int             // index of the next gap in holes
}

// A mark is a gap that precedes the record at index at.
type mark struct {
	at int
	Gap
}

// phase is the state of a queue.
type phase uint8

const (
	open     phase = iota
	draining       // the queue accepts no more records and ends when it is empty
	ended
)

// outcome is the result of push.
type outcome uint8

const (
	settled   outcome = iota // the record was queued or dropped, or the queue is closed
	mustWait                 // there is no space, and the caller must wait because of WithBlock
	abandoned                // the consumer no longer reads
)

func (q *queue) init(options []Option) {
	q.limit = defaultQueue
	q.wake = make(chan struct{}, 1)
	for _, option := range options {
		option(q)
	}
}

// push queues a copy of r or drops r, without waiting.
func (q *queue) push(r *record.Record) outcome {
	q.mu.Lock()
	if q.phase != open {
		q.mu.Unlock()
		return settled
	}
	if q.full() {
		defer q.mu.Unlock()
		switch {
		case isClosed(q.expired):
			return abandoned
		case q.block > 0 && !q.missing():
			return mustWait
		}
		q.drop(r)
		return settled
	}
	q.append(r)
	return settled
}

// pushLate is like push, but waits for space. start is the time at which the wait began.
func (q *queue) pushLate(r *record.Record, start time.Time) {
	timer := time.NewTimer(q.block - time.Since(start))
	defer timer.Stop()
	for late := false; ; {
		q.mu.Lock()
		switch {
		case q.phase == ended:
			q.mu.Unlock()
			return
		case q.phase == open && !q.full():
			q.append(r)
			return
		case q.phase == draining || late || q.missing():
			q.drop(r)
			q.mu.Unlock()
			return
		}
		room := q.ask()
		q.mu.Unlock()
		select {
		case <-room:
		case <-timer.C:
			late = true
		case <-q.expired:
			late = true
		}
	}
}

// append queues r. The caller must hold q.mu, which append unlocks.
func (q *queue) append(r *record.Record) {
	q.records = append(q.records, *r)
	q.accepted++
	parked := q.parked
	q.parked = false
	q.mu.Unlock()
	if parked {
		q.wake <- struct{}{}
	}
}

// full reports whether the queue is full. It reads q.handed only if necessary, because reading it
// is slow: the consumer writes to it often.
func (q *queue) full() bool {
	if q.accepted-q.seen < q.limit {
		return false
	}
	q.seen = q.handed.Load()
	return q.accepted-q.seen >= q.limit
}

// missing reports whether the latest record was dropped.
func (q *queue) missing() bool {
	n := len(q.gaps)
	return n > 0 && q.gaps[n-1].at == len(q.records)
}

// drop drops r and counts it in the gap at the end of the queue.
func (q *queue) drop(r *record.Record) {
	q.missed++
	if !q.missing() {
		q.gaps = append(q.gaps, mark{len(q.records), Gap{From: r.Seq}})
	}
	gap := &q.gaps[len(q.gaps)-1]
	gap.To = r.Seq
	gap.Missed++
}

// ask returns a channel that is closed when there is space. The consumer changes q.handed and then
// reads q.wanted, whereas ask sets q.wanted and then reads q.handed. So at least one of them sees
// the other's change.
func (q *queue) ask() <-chan struct{} {
	if q.room == nil {
		q.room = make(chan struct{})
	}
	room := q.room
	q.wanted.Store(true)
	if !q.full() {
		q.admit()
	}
	return room
}

// admit wakes all publishers that are waiting for space.
func (q *queue) admit() {
	q.wanted.Store(false)
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// next returns the next record, or nil after the last one. Before that, it calls onGap for the gaps
// that precede the record. The record is valid until the next call to next.
func (q *queue) next() *record.Record {
	if q.at > 0 {
		q.half[q.at-1] = record.Record{} // so that the garbage collector can free the record's data
	}
	for !q.stopped.Load() {
		switch {
		case q.hole < len(q.holes) && q.holes[q.hole].at == q.at:
			q.hole++
			if q.onGap != nil {
				q.onGap(q.holes[q.hole-1].Gap)
			}
		case q.at < len(q.half):
			q.at++
			q.handed.Add(1)
			if q.wanted.Load() {
				q.mu.Lock()
				q.admit()
				q.mu.Unlock()
			}
			return &q.half[q.at-1]
		case !q.refill():
			q.stopped.Store(true)
		}
	}
	q.half, q.holes, q.at, q.hole = nil, nil, 0, 0
	return nil
}

// refill waits for records or gaps and gives them to the consumer. It returns false if there will
// be no more.
func (q *queue) refill() bool {
	for {
		q.mu.Lock()
		if len(q.records) > 0 || len(q.gaps) > 0 {
			q.exchange()
			q.mu.Unlock()
			return true
		}
		if q.phase != open {
			q.phase = ended
			q.mu.Unlock()
			return false
		}
		q.parked = true
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-q.expired:
			return false
		}
	}
}

// exchange swaps the halves of the queue.
func (q *queue) exchange() {
	q.half, q.records = q.records, q.half[:0]
	q.holes, q.gaps = q.gaps, q.holes[:0]
	q.at, q.hole = 0, 0
	q.seen = q.handed.Load()
	// Move a gap after the last record back to the publishers' half, because it can still grow
	// until the consumer has taken the records before it.
	if n := len(q.holes); n > 0 && len(q.half) > 0 && q.holes[n-1].at == len(q.half) {
		q.gaps = append(q.gaps, mark{0, q.holes[n-1].Gap})
		q.holes = q.holes[:n-1]
	}
}

// drain stops accepting records, and makes the queue end after its last record.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.phase == open {
		q.phase = draining
		q.rouse()
	}
}

// stop ends the queue and discards its records.
func (q *queue) stop() {
	q.stopped.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.phase = ended
	q.records, q.gaps = nil, nil
	q.rouse()
}

// rouse wakes the consumer and the publishers.
func (q *queue) rouse() {
	if q.parked {
		q.parked = false
		q.wake <- struct{}{}
	}
	q.admit()
}

// counts returns the numbers of records for Stats.
func (q *queue) counts() (handed, missed, queued uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	handed = q.handed.Load()
	return handed, q.missed, q.accepted - handed
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
