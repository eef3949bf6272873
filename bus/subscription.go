package bus

import (
	"bytes"
	"errors"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
)

// A Subscription is a function that is called for every record, from
// [Bus.Subscribe] to its Close or that of the bus. Its methods are for many
// goroutines.
type Subscription struct {
	bus       *Bus
	fn        func(core.Record)
	ended     chan struct{} // closed when the goroutine is over
	goroutine atomic.Uint64 // its number
	queue     queue

	mu     sync.Mutex
	panics uint64
	last   *core.PanicError
}

// Stats tells how a subscription does. Delivered, Dropped and Queued together
// are what was published while it was open.
type Stats struct {
	Delivered uint64           // given to the function, with the one that it is at
	Dropped   uint64           // lost because the queue was full: the sum of all gaps
	Queued    uint64           // waiting; after Close, discarded
	Panics    uint64           // of the function and that of WithGap, runtime.Goexit included
	LastPanic *core.PanicError // nil if there was none
}

// Stats counts as of now; after Close the numbers stay.
func (s *Subscription) Stats() Stats {
	var stats Stats
	stats.Delivered, stats.Dropped, stats.Queued = s.queue.counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Panics, stats.LastPanic = s.panics, s.last
	return stats
}

// Close ends the subscription: it discards what is queued and waits for the
// running call of the function. Nothing is delivered after it returned.
// Closing twice is fine.
//
// From inside a subscriber of the same bus, this or another, Close does not
// wait: the running call is the last. A subscriber that waits for another
// goroutine to call Close waits for ever.
func (s *Subscription) Close() {
	s.bus.remove(&s.queue)
	if !isClosed(s.ended) && !s.bus.inside() {
		<-s.ended
	}
}

// serve is the goroutine of the subscription.
func (s *Subscription) serve() {
	s.goroutine.Store(goroutineID())
	over := false
	defer func() {
		if !over { // by runtime.Goexit, which ends the goroutine but not the subscription
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

// errGoexit stands for a function that left its goroutine.
var errGoexit = errors.New("the subscriber ended its goroutine without returning (runtime.Goexit, or t.FailNow outside the test's goroutine)")

// panicked counts; value is nil after a runtime.Goexit.
func (s *Subscription) panicked(value any) {
	if value == nil {
		value = errGoexit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics++
	s.last = &core.PanicError{Value: value, Stack: debug.Stack()}
}

// goroutineID is the number of the calling goroutine, which is never used
// again. The runtime tells it only here, at the start of
// "goroutine 18 [running]:"; it is read when a subscription begins and where
// a Close might wait for itself, never for a record.
func goroutineID() uint64 {
	var buf [40]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	id, _ := strconv.ParseUint(string(number), 10, 64)
	return id
}
