package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// grace is how long a handler may take to return after its context ends before the handler is
// abandoned. It is long enough to receive the handler's error, and short enough for an interrupt to
// take effect within 100 ms.
const grace = 50 * time.Millisecond

// A timespan is the time that an attempt may take.
type timespan struct {
	start  time.Time // beginning of the attempt
	length time.Duration
	total  bool // length is what is left of RetryTimeout
}

// newTimespan returns the timespan of an attempt that began at the given time: the attempt's own
// timeout or what is left of RetryTimeout, whichever is shorter. At least one of timeout and total
// must not be 0.
func newTimespan(began time.Time, timeout, total, spent time.Duration) timespan {
	t := timespan{start: began, length: timeout}
	if left := total - spent; total > 0 && (timeout == 0 || left <= timeout) {
		t.length, t.total = left, true
	}
	return t
}

// passWithin makes a pass with a time limit. The pass runs on a separate goroutine, so that it
// can be abandoned.
func (c *Call) passWithin(s *Scope, t timespan) Result {
	p := c.typed.Apart()
	p.State().begin(p, s, t)
	l := s.limit
	defer time.AfterFunc(l.left(), l.expire).Stop()
	if !l.await(s) {
		c.root.settings.Late.Abandoned.Add(1)
		r := Result{Err: l.Err(), Stage: record.StageHandler}
		if l.expired() {
			r.Err = &TimeoutError{Limit: l.length}
		}
		return r
	}
	p.Take()
	r := p.State().r
	// If the attempt's own time limit has passed, even a success is too late, unless the call must
	// not be repeated and all nested calls have an outcome. A success after an interrupt is kept.
	if l.expired() && !r.Panicked && (r.Err != nil || !c.mustNotRepeat() || s.hasMissedDeadline() || s.suspended() != nil) {
		r = Result{Err: &TimeoutError{Limit: l.length, Err: r.Err}, Stage: r.Stage}
	}
	return r
}

// await waits until the handler returns. It returns false if the handler was abandoned because it
// did not return soon enough after its context had ended.
func (l *limit) await(s *Scope) bool {
	around := (*attemptContext)(s).outerContext()
	select {
	case <-l.done:
	case <-around.Done():
		l.endWith(around.Err())
	}
	late := l.lateReturn()
	if late == nil {
		return true
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-late:
		return true
	case <-timer.C:
	}
	s.close()
	return !l.abandon()
}

// A limit ends an attempt, and the contexts derived from the attempt's context, when its time has
// passed, when the surrounding context ends, or when the handler returns.
type limit struct {
	timespan
	done    chan struct{} // closed at the end
	ended   atomic.Uint32 // how the limit ended
	overdue atomic.Bool   // the attempt counts as expired even though it ended before its limit

	mu        sync.Mutex
	callbacks map[*func()]struct{} // functions to call at the end
	handler   uint8                // state of the handler
	late      chan struct{}        // closed when the handler returns after the end; nil unless await waits for it
}

// The ways in which a limit ends.
const (
	endedNot      = iota
	endedExpired  // the limit's own time has passed
	endedDeadline // the deadline of the surrounding context has passed
	endedCanceled // the surrounding context was cancelled, or the handler returned
)

// The states of the handler of an attempt with a limit.
const (
	handlerRuns = iota
	handlerReturned
	handlerAbandoned
)

// left returns the time left until the deadline.
func (l *limit) left() time.Duration { return l.length - time.Since(l.start) }

func (l *limit) expired() bool { return l.ended.Load() == endedExpired || l.overdue.Load() }

func (l *limit) Deadline() time.Time { return l.start.Add(l.length) }

// Err returns nil until done is closed.
func (l *limit) Err() error {
	how := l.ended.Load()
	if how == endedNot {
		return nil
	}
	<-l.done
	if how == endedCanceled {
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// noteReturn ends the limit because the handler has returned. It returns false if the handler was
// abandoned.
func (l *limit) noteReturn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handler == handlerAbandoned {
		return false
	}
	l.handler = handlerReturned
	l.end(endedCanceled)
	if l.late != nil {
		close(l.late)
	}
	return true
}

// lateReturn returns a channel that is closed when the handler returns, or nil if the handler has
// already returned.
func (l *limit) lateReturn() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handler == handlerReturned {
		return nil
	}
	l.late = make(chan struct{})
	return l.late
}

// abandon drops the result of the handler. It returns false if the handler has returned in the
// meantime.
func (l *limit) abandon() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handler == handlerReturned {
		return false
	}
	l.handler = handlerAbandoned
	return true
}

// expire ends the limit because its own time has passed.
func (l *limit) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(endedExpired)
}

// endWith ends the limit because the surrounding context ended with err.
func (l *limit) endWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		l.end(endedDeadline)
	} else {
		l.end(endedCanceled)
	}
}

// end closes done and starts the callbacks. Only the first call has an effect. The caller holds
// l.mu.
func (l *limit) end(how uint32) {
	if l.ended.Load() != endedNot {
		return
	}
	l.ended.Store(how)
	close(l.done)
	for f := range l.callbacks {
		// Like context.AfterFunc, call each callback on its own goroutine. The callbacks of
		// derived contexts only cancel them.
		go (*f)()
	}
	l.callbacks = nil
}

func (l *limit) afterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() != nil {
		go f()
		return func() bool { return false }
	}
	if l.callbacks == nil {
		l.callbacks = make(map[*func()]struct{})
	}
	l.callbacks[&f] = struct{}{}
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, waiting := l.callbacks[&f]
		delete(l.callbacks, &f)
		return waiting
	}
}
