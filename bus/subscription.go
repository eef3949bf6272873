package bus

import (
	"errors"
	"runtime/debug"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// A Subscription calls a function with every record that is published from
// [Bus.Subscribe] until the subscription or the bus is closed. It is safe for
// concurrent use.
type Subscription struct {
	bus   *Bus
	fn    func(record.Record)
	ended chan struct{} // closed when the goroutine has ended
	queue queue

	mu     sync.Mutex
	panics uint64
	last   *core.PanicError
}

// Stats counts what happened to a subscription's records. The sum of Delivered, Dropped and Queued
// is the number of records that were published while the subscription was open.
type Stats struct {
	Delivered uint64           // records passed to the function, including the current one
	Dropped   uint64           // records dropped because the queue was full; the sum of all gaps
	Queued    uint64           // records in the queue; after Close, the number of discarded records
	Panics    uint64           // panics and runtime.Goexit calls in the function and in the one set by WithGap
	LastPanic *core.PanicError // nil if there was no panic
}

// Stats returns the current counts. They do not change after Close.
func (s *Subscription) Stats() Stats {
	var stats Stats
	stats.Delivered, stats.Dropped, stats.Queued = s.queue.counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Panics, stats.LastPanic = s.panics, s.last
	return stats
}

// Close ends the subscription. It discards queued records, and waits for the function to return if
// a call is in progress. After Close has returned, no more records are delivered. Calling Close
// again has no effect.
//
// The function itself must not call Close, because Close would then wait for that call forever. To
// stop after a certain record, range over [Bus.Records] instead.
func (s *Subscription) Close() {
	s.bus.remove(&s.queue)
	<-s.ended
}

// serve delivers records until the subscription ends. It runs on the
// subscription's goroutine.
func (s *Subscription) serve() {
	over := false
	defer func() {
		if !over { // runtime.Goexit was called, which ends the goroutine but not the subscription
			go s.serve()
			return
		}
		s.bus.ended(s)
		close(s.ended)
	}()
	for !over {
		over = s.deliver()
	}
}

// deliver calls the function with each record until the queue has ended. If the function panics,
// deliver recovers and returns false.
func (s *Subscription) deliver() (over bool) {
	defer func() {
		if !over {
			s.panicked(recover())
		}
	}()
	for r := s.queue.next(); r != nil; r = s.queue.next() {
		s.fn(*r)
	}
	return true
}

// errGoexit is recorded as the panic's value if a function ends its goroutine.
var errGoexit = errors.New("the subscriber ended its goroutine without returning (runtime.Goexit, or t.FailNow outside the test's goroutine)")

// panicked records a panic with the given value, or a runtime.Goexit if the value
// is nil.
func (s *Subscription) panicked(value any) {
	if value == nil {
		value = errGoexit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics++
	s.last = &core.PanicError{Value: value, Stack: debug.Stack()}
}
