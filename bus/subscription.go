package bus

import (
	"errors"
	"runtime/debug"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// A Subscription calls a function for every record, from [Bus.Subscribe] until
// it or the bus is closed. It is safe for concurrent use.
type Subscription struct {
	bus   *Bus
	fn    func(record.Record)
	ended chan struct{} // closed when the goroutine has ended
	queue queue

	mu     sync.Mutex
	panics uint64
	last   *core.PanicError
}

// Stats counts the records of a subscription. The sum of Delivered, Dropped and
// Queued is the number of records published while it was open.
type Stats struct {
	Delivered uint64           // passed to the function, including the current one
	Dropped   uint64           // lost because the queue was full: the sum of all gaps
	Queued    uint64           // waiting; after Close, the number discarded
	Panics    uint64           // panics of the function and of the one given to WithGap, including runtime.Goexit
	LastPanic *core.PanicError // nil if there was none
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

// Close ends the subscription: it discards queued records and waits for a
// running call of the function. Nothing is delivered after Close has returned.
// Closing twice is fine.
//
// The function itself must not call Close: it would wait for itself forever.
// Use [Bus.Records] for a loop that ends when it has seen enough.
func (s *Subscription) Close() {
	s.bus.remove(&s.queue)
	<-s.ended
}

// serve runs on the goroutine of the subscription.
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

// deliver calls the function until the queue has ended. It reports false if
// the function panicked.
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

// errGoexit is recorded for a function that ended its goroutine.
var errGoexit = errors.New("the subscriber ended its goroutine without returning (runtime.Goexit, or t.FailNow outside the test's goroutine)")

// panicked records a panic. value is nil after a runtime.Goexit.
func (s *Subscription) panicked(value any) {
	if value == nil {
		value = errGoexit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics++
	s.last = &core.PanicError{Value: value, Stack: debug.Stack()}
}
