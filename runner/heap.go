package runner

import (
	"cmp"
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"
)

// An entry is a run that is waiting for its time or for a slot. It is small, because there may be a
// great many entries.
type entry struct {
	runID    string
	program  *ProgramID
	due      int64 // Unix time in nanoseconds
	priority int32
	at       int32 // index of the entry in its heap
	ready    bool  // the entry is in queue.ready, not in queue.timed
	fresh    bool
}

// A heapQueue is a [Queue] in memory that is filled from the store. The lock on a run in the store
// serves as the lease, so the queue keeps nothing about a run that was taken from it.
type heapQueue struct {
	mu       sync.Mutex
	queue    queue
	programs map[ProgramID]*ProgramID // shared by all entries of a program
	wake     chan struct{}            // signals that there may be something to take
}

func newHeapQueue() *heapQueue {
	return &heapQueue{queue: newQueue(), programs: make(map[ProgramID]*ProgramID), wake: make(chan struct{}, 1)}
}

// Add implements [Queue]. If the run already has an entry, the earlier of the two times is kept,
// unless that entry belongs to a deleted run with the same ID.
func (h *heapQueue) Add(_ context.Context, e QueueEntry) (added bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := e.Due.UnixNano()
	if there := h.queue.entries[e.RunID]; there != nil {
		if there.due <= due && *there.program == e.Program && !e.Fresh {
			return false, nil
		}
		h.queue.remove(e.RunID)
	}
	program := h.programs[e.Program]
	if program == nil {
		program = &e.Program
		h.programs[e.Program] = program
	}
	h.queue.add(&entry{runID: strings.Clone(e.RunID), program: program, due: due, priority: clampPriority(e.Priority), fresh: e.Fresh}, time.Now())
	h.ring()
	return true, nil
}

func clampPriority(p int) int32 { return int32(min(max(p, -1<<31), 1<<31-1)) }

// Wake implements [Queue].
func (h *heapQueue) Wake(ctx context.Context, e QueueEntry) error {
	e.Due = time.Now()
	_, err := h.Add(ctx, e)
	return err
}

// Take implements [Queue]. It ignores the programs, because the programs of all runs in the queue
// are registered.
func (h *heapQueue) Take(ctx context.Context, _ []ProgramID, n int) ([]Lease, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		leases, next := h.popUpTo(n, time.Now())
		if len(leases) > 0 {
			return leases, nil
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-h.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// popUpTo removes and returns the n entries that begin first, or fewer if no more are due. If none
// is due, it returns when the next entry will be due.
func (h *heapQueue) popUpTo(n int, now time.Time) (leases []Lease, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.advance(now)
	for len(leases) < n {
		e := h.queue.pop()
		if e == nil {
			break
		}
		leases = append(leases, &heapLease{h, QueueEntry{RunID: e.runID, Program: *e.program, Priority: int(e.priority), Due: time.Unix(0, e.due), Fresh: e.fresh}})
	}
	next, _ = h.queue.next()
	return leases, next
}

// drop removes the entry of a run that does not continue.
func (h *heapQueue) drop(runID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.remove(runID)
}

// isAboutToBegin reports whether a run has just been stored and will begin when a slot is free.
func (h *heapQueue) isAboutToBegin(runID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.queue.entries[runID]
	return e != nil && e.fresh && e.ready
}

// Waiting implements [Queue].
func (h *heapQueue) Waiting(context.Context, []ProgramID) (due, parked int, err error) {
	due, parked = h.waiting()
	return due, parked, nil
}

// Now implements [Queue].
func (h *heapQueue) Now(context.Context) (time.Time, error) { return time.Now().Round(0), nil }

// waiting returns the number of runs that are due, and the number of runs that are not.
func (h *heapQueue) waiting() (queued, parked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.countReady(), len(h.queue.timed.entries)
}

// countReady returns the number of runs that are due. h.mu must be held.
func (h *heapQueue) countReady() int {
	h.queue.advance(time.Now())
	return len(h.queue.ready.entries)
}

// ring wakes Take.
func (h *heapQueue) ring() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// A heapLease is an entry that was taken from the queue.
type heapLease struct {
	queue *heapQueue
	entry QueueEntry
}

func (l *heapLease) Entry() QueueEntry          { return l.entry }
func (l *heapLease) Lost() <-chan struct{}      { return nil }
func (l *heapLease) Done(context.Context) error { return nil }
func (l *heapLease) Abandon()                   {}

func (l *heapLease) Park(ctx context.Context, due time.Time) error {
	l.entry.Due, l.entry.Fresh = due, false
	_, err := l.queue.Add(ctx, l.entry)
	return err
}

// A queue holds waiting runs. Runs that are due are ordered by priority, and then by their due
// time. The other runs are ordered by their due time.
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

// advance moves the entries that have become due from q.timed to q.ready.
func (q *queue) advance(now time.Time) {
	for len(q.timed.entries) > 0 && q.timed.entries[0].due <= now.UnixNano() {
		e := heap.Pop(&q.timed).(*entry)
		e.ready = true
		heap.Push(&q.ready, e)
	}
}

// pop removes and returns the entry that begins first, or nil if none is ready.
func (q *queue) pop() *entry {
	if len(q.ready.entries) == 0 {
		return nil
	}
	e := heap.Pop(&q.ready).(*entry)
	delete(q.entries, e.runID)
	return e
}

// next returns when the first of the entries that are not ready becomes due.
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
