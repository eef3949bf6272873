package bus

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Bus delivers every published record to every subscriber. The zero Bus is
// ready to use. A Bus is safe for concurrent use and must not be copied.
type Bus struct {
	queues atomic.Pointer[[]*queue] // the subscribers' queues; nil if there are none

	mu      sync.Mutex // held while queues is changed
	closed  bool
	running map[*Subscription]struct{} // subscriptions whose goroutines have not ended
}

// New returns a bus without subscribers. A bus that never has a subscriber need
// not be closed.
func New() *Bus { return new(Bus) }

// Publish queues r for every subscriber. It does not wait for subscribers, except for those with
// [WithBlock]. Subscribers receive records in the order in which Publish was called. The order of
// records from concurrent calls is undefined and may differ between subscribers. After Close,
// Publish does nothing.
func (b *Bus) Publish(r record.Record) {
	if queues := b.queues.Load(); queues != nil {
		b.publish(*queues, &r)
	}
}

// publish first serves the queues that have space, so that waiting for one
// subscriber does not delay the others.
func (b *Bus) publish(queues []*queue, r *record.Record) {
	var waiting []*queue
	for _, q := range queues {
		switch q.push(r) {
		case settled:
		case mustWait:
			waiting = append(waiting, q)
		case abandoned:
			b.remove(q)
		}
	}
	if waiting == nil {
		return
	}
	start := time.Now()
	for _, q := range waiting {
		q.pushLate(r, start)
	}
}

// Subscribe calls fn with every record that is published from now on, one at a time and in order.
// The calls are made on a single goroutine, which ends when the subscription or the bus is closed.
// The function must not modify what a record's Detail points to. If the bus is already closed, so
// is the new subscription. Subscribe panics if fn is nil.
func (b *Bus) Subscribe(fn func(record.Record), options ...Option) *Subscription {
	if fn == nil {
		panic("bus: Subscribe(nil): want a function")
	}
	s := &Subscription{bus: b, fn: fn, ended: make(chan struct{})}
	s.queue.init(options)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.add(&s.queue) {
		close(s.ended)
		return s
	}
	if b.running == nil {
		b.running = make(map[*Subscription]struct{})
	}
	b.running[s] = struct{}{}
	go s.serve()
	return s
}

// Records returns a sequence of the records that are published after this call. The sequence can be
// ranged over only once; a second loop yields nothing. The function set by [WithGap] is called on
// the goroutine that runs the loop. The sequence ends when ctx ends, when the loop is left, or when
// the bus is closed and the queue is empty.
//
// A sequence that is never ranged over needs no goroutine, but its queue fills up. The bus releases
// the queue when the bus is closed, or when the queue is full and ctx has ended.
func (b *Bus) Records(ctx context.Context, options ...Option) iter.Seq[record.Record] {
	q := new(queue)
	q.init(options)
	q.expired = ctx.Done()
	b.mu.Lock()
	b.add(q)
	b.mu.Unlock()
	var ranged atomic.Bool
	return func(yield func(record.Record) bool) {
		if ranged.Swap(true) {
			return
		}
		defer b.remove(q)
		for ctx.Err() == nil {
			r := q.next()
			if r == nil || !yield(*r) {
				return
			}
		}
	}
}

// Close stops accepting records, delivers the queued ones, and returns when every subscriber has
// handled its last record. There is no time limit: use [Bus.CloseContext] if a subscriber may be
// stuck. Close does not wait for loops over [Bus.Records], which end after the queued records.
// Calling Close again only waits for the subscribers.
//
// A subscriber must not call Close, because Close would then wait for that subscriber forever.
func (b *Bus) Close() { _ = b.CloseContext(context.Background()) }

// CloseContext is like Close, but stops waiting when ctx ends. It then discards the records that
// are still queued for subscribers, and returns an error that wraps the cause of ctx and says how
// many subscribers had not finished. It does not interrupt subscribers that are handling a record,
// but no subscriber is called again.
func (b *Bus) CloseContext(ctx context.Context) error {
	running := b.refuse()
	for _, s := range running {
		select {
		case <-s.ended:
		case <-ctx.Done():
			return abandon(running, context.Cause(ctx))
		}
	}
	return nil
}

// abandon stops the subscriptions that have not finished.
func abandon(running []*Subscription, cause error) error {
	n := 0
	for _, s := range running {
		select {
		case <-s.ended:
		default:
			s.queue.stop()
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("bus: closed with %d of %d subscribers not done: %w", n, len(running), cause)
}

// refuse closes the bus to new records, and makes every queue end after its last record. It returns
// the subscriptions to wait for.
func (b *Bus) refuse() []*Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if queues := b.queues.Swap(nil); queues != nil {
		for _, q := range *queues {
			q.drain()
		}
	}
	running := make([]*Subscription, 0, len(b.running))
	for s := range b.running {
		running = append(running, s)
	}
	return running
}

// add adds q to the bus. If the bus is closed, add ends q and returns false. The caller holds b.mu.
func (b *Bus) add(q *queue) bool {
	if b.closed {
		q.stop()
		return false
	}
	var queues []*queue
	if old := b.queues.Load(); old != nil {
		queues = slices.Clone(*old)
	}
	queues = append(queues, q)
	b.queues.Store(&queues)
	return true
}

// remove removes q from the bus, ends it, and discards its records.
func (b *Bus) remove(q *queue) {
	b.mu.Lock()
	if old := b.queues.Load(); old != nil {
		// Modify a copy, since Publish may be ranging over the old slice.
		queues := slices.DeleteFunc(slices.Clone(*old), func(other *queue) bool { return other == q })
		if len(queues) == 0 {
			b.queues.Store(nil)
		} else {
			b.queues.Store(&queues)
		}
	}
	b.mu.Unlock()
	q.stop()
}

// ended removes s from b.running. It is called when the goroutine of s ends.
func (b *Bus) ended(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, s)
}
