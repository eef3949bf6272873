package core

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"
)

// waitQueues have the calls of a run that wait for their next attempt, or those
// of an actor outside any run. A timer for each, and a place among those who
// hear of the end of its context, would be a quarter of what a waiting call
// takes: those whose contexts end together share both.
type waitQueues struct {
	mu     sync.Mutex
	queues map[<-chan struct{}]*waitQueue // by the Done of the contexts; none is empty
}

// waitQueue has the waiters whose contexts end together. It is gone when it is
// empty, and with it its timer.
type waitQueue struct {
	waiters waiters
	timer   *time.Timer // for the first of them
	unwatch func() bool // the contexts
}

// waiter is one call that waits.
type waiter struct {
	until instant
	woken sync.WaitGroup
}

// longestWait keeps instants from overflowing: no call waits for 146 years.
const longestWait = math.MaxInt64 / 2

// sleep returns after d, or when ctx has ended. Contexts that never end have
// nothing in common: their calls may be of different synctest bubbles, which no
// timer serves together.
func (qs *waitQueues) sleep(ctx context.Context, d time.Duration) {
	if ctx.Done() == nil {
		time.Sleep(d) //nolint:forbidigo // there is no signal to wait for
		return
	}
	w := new(waiter)
	w.woken.Add(1)
	qs.enqueue(ctx, w, d)
	w.woken.Wait()
}

func (qs *waitQueues) enqueue(ctx context.Context, w *waiter, d time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.until = monotonic().plus(min(d, longestWait))
	q := qs.queues[ctx.Done()]
	if q == nil {
		q = qs.open(ctx, d)
	}
	heap.Push(&q.waiters, w)
	if q.waiters[0] == w {
		q.timer.Reset(d)
	}
}

// open makes the queue for ctx. The lock is held.
func (qs *waitQueues) open(ctx context.Context, d time.Duration) *waitQueue {
	done, q := ctx.Done(), new(waitQueue)
	q.timer = time.AfterFunc(d, func() { qs.wakeDue(done, q) })
	q.unwatch = context.AfterFunc(ctx, func() { qs.wakeAll(done, q) })
	if qs.queues == nil {
		qs.queues = make(map[<-chan struct{}]*waitQueue)
	}
	qs.queues[done] = q
	return q
}

// wakeDue wakes those whose time has come.
func (qs *waitQueues) wakeDue(done <-chan struct{}, q *waitQueue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for len(q.waiters) > 0 {
		if left := monotonic().until(q.waiters[0].until); left > 0 {
			q.timer.Reset(left)
			return
		}
		heap.Pop(&q.waiters).(*waiter).woken.Done()
	}
	qs.close(done, q)
}

// wakeAll wakes all, because their contexts have ended.
func (qs *waitQueues) wakeAll(done <-chan struct{}, q *waitQueue) {
	qs.mu.Lock()
	woken := q.waiters
	q.waiters = nil
	qs.close(done, q)
	qs.mu.Unlock()
	for _, w := range woken {
		w.woken.Done()
	}
}

// close closes a queue that is empty, and may have been closed before. The
// lock is held.
func (qs *waitQueues) close(done <-chan struct{}, q *waitQueue) {
	q.timer.Stop()
	q.unwatch()
	if qs.queues[done] == q {
		delete(qs.queues, done)
	}
}

// waiters are a heap with the one that is due first in front.
type waiters []*waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].until < w[j].until }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)        { *w = append(*w, x.(*waiter)) }

// Pop removes the last.
func (w *waiters) Pop() any {
	n := len(*w) - 1
	last := (*w)[n]
	(*w)[n] = nil
	*w = (*w)[:n]
	return last
}
