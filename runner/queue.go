package runner

import (
	"cmp"
	"container/heap"
	"time"
)

// An entry is a run that waits: for its time, or for a slot. It is small: there
// may be very many.
type entry struct {
	runID    string
	program  *program
	due      int64 // Unix time in nanoseconds
	priority int32
	at       int32 // its place in the heap that it is in
	ready    bool  // which one that is
	swept    bool  // it was found in a list, which may be old
}

// A queue is the runs that wait. Those that are due are ordered by priority, and
// then by their time; the others by their time.
type queue struct {
	entries map[string]*entry
	ready   entryHeap
	timed   entryHeap
}

func newQueue() queue {
	return queue{
		entries: make(map[string]*entry),
		ready: entryHeap{less: func(a, b *entry) bool {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.due, b.due), cmp.Compare(a.runID, b.runID)) < 0
		}},
		timed: entryHeap{less: func(a, b *entry) bool { return a.due < b.due }},
	}
}

// add adds an entry for a run that has none.
func (q *queue) add(e *entry, now time.Time) {
	q.entries[e.runID] = e
	if e.ready = e.due <= now.UnixNano(); e.ready {
		heap.Push(&q.ready, e)
	} else {
		heap.Push(&q.timed, e)
	}
}

// remove removes the entry of a run, if it has one.
func (q *queue) remove(runID string) {
	e := q.entries[runID]
	switch {
	case e == nil:
		return
	case e.ready:
		heap.Remove(&q.ready, int(e.at))
	default:
		heap.Remove(&q.timed, int(e.at))
	}
	delete(q.entries, runID)
}

// advance makes ready what is due by now.
func (q *queue) advance(now time.Time) {
	for len(q.timed.entries) > 0 && q.timed.entries[0].due <= now.UnixNano() {
		e := heap.Pop(&q.timed).(*entry)
		e.ready = true
		heap.Push(&q.ready, e)
	}
}

// pop removes the entry that is to begin first, nil if none is ready.
func (q *queue) pop() *entry {
	if len(q.ready.entries) == 0 {
		return nil
	}
	e := heap.Pop(&q.ready).(*entry)
	delete(q.entries, e.runID)
	return e
}

// next is when an entry is due that is not yet.
func (q *queue) next() (time.Time, bool) {
	if len(q.timed.entries) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, q.timed.entries[0].due), true
}

// entryHeap implements [heap.Interface].
type entryHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
}

func (h *entryHeap) Len() int           { return len(h.entries) }
func (h *entryHeap) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }

func (h *entryHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.entries[i].at, h.entries[j].at = int32(i), int32(j)
}

func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.at = int32(len(h.entries))
	h.entries = append(h.entries, e)
}

func (h *entryHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	return e
}
