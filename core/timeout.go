package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// grace is how long a handler whose context ended may take to return before
// it is abandoned. It keeps what such a handler has to say, and is short
// enough that an interrupt is answered within 100 ms.
const grace = 50 * time.Millisecond

// limitOf is the end in time of the attempt that began at that time, nil if it
// has none: the earlier of its own timeout and what is left of RetryTimeout.
func (c *call) limitOf(began time.Time, spent time.Duration) *limit {
	timeout, total := c.policy.timeout(c.spec, c.custom), c.policy.config.RetryTimeout
	if timeout == 0 && total == 0 {
		return nil
	}
	l := &limit{start: began, length: timeout}
	if left := total - spent; total > 0 && (timeout == 0 || left <= timeout) {
		l.length, l.total = left, true
	}
	return l
}

// passWithin makes a pass that has an end in time: on a goroutine of its own,
// since only so can it be abandoned.
func (c *call) passWithin(s *Scope, l *limit) result {
	s.limit = l
	p := c.typed.passAsync(s.context(), &c.root.settings.Late.Returned)
	if !s.await(p) {
		c.root.settings.Late.Abandoned.Add(1)
		r := result{err: l.Err(), stage: record.StageHandler}
		if l.expired() {
			r.err = &TimeoutError{Limit: l.length}
		}
		return r
	}
	s.close()
	r := p.take()
	// After the attempt's own time even a success is too late; after an
	// interrupt it is kept.
	if l.expired() && !r.panicked {
		r = result{err: &TimeoutError{Limit: l.length, Err: r.err}, stage: r.stage}
	}
	l.end(endedCanceled) // frees what was derived from the context
	return r
}

// await waits until the pass comes back. It reports false if the pass did not
// return when its context had ended, and was abandoned.
func (s *Scope) await(p asyncPass) bool {
	timer := time.NewTimer(s.limit.left())
	defer timer.Stop()
	select {
	case <-p.done():
		return true
	case <-timer.C:
		s.limit.end(endedExpired)
	case <-s.outer.Done():
		s.limit.endWith(s.outer.Err())
	}
	timer.Reset(grace)
	select {
	case <-p.done():
		return true
	case <-timer.C:
	}
	s.close()
	return !p.abandon()
}

// limit is the end of one attempt in time. It has no timer: who waits for the
// attempt ends it, either when the time is over or when the context around the
// attempt ended. It makes what a handler may ask of a context, the channel and
// the callbacks, only when it is asked.
type limit struct {
	start  time.Time // of the attempt
	length time.Duration
	total  bool // it is RetryTimeout's

	ended   atomic.Uint32 // how it ended
	overdue atomic.Bool   // the attempt counts as expired, although it ended before

	mu        sync.Mutex
	channel   chan struct{} // nil until somebody asks
	callbacks map[*func()]struct{}
}

// How a limit ends.
const (
	endedNot      = iota
	endedExpired  // its own time is over
	endedDeadline // the context around it is past its deadline
	endedCanceled // the context around it was cancelled, or the attempt is over
)

// left is how long it is until then.
func (l *limit) left() time.Duration { return l.length - time.Since(l.start) }

func (l *limit) expired() bool { return l.ended.Load() == endedExpired || l.overdue.Load() }

func (l *limit) Deadline() time.Time { return l.start.Add(l.length) }

func (l *limit) Err() error {
	switch l.ended.Load() {
	case endedNot:
		return nil
	case endedCanceled:
		return context.Canceled
	}
	return context.DeadlineExceeded
}

func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.channel == nil {
		l.channel = make(chan struct{})
		if l.Err() != nil {
			close(l.channel)
		}
	}
	return l.channel
}

// end closes Done and calls what was registered. Only the first counts.
func (l *limit) end(how uint32) {
	l.mu.Lock()
	if !l.ended.CompareAndSwap(endedNot, how) {
		l.mu.Unlock()
		return
	}
	if l.channel != nil {
		close(l.channel)
	}
	callbacks := l.callbacks
	l.callbacks = nil
	l.mu.Unlock()
	for f := range callbacks {
		// As context.AfterFunc: each in a goroutine of its own. The callbacks
		// of contexts derived from this one only cancel them.
		go (*f)()
	}
}

// endWith ends it because the context around it ended with err.
func (l *limit) endWith(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		l.end(endedDeadline)
	} else {
		l.end(endedCanceled)
	}
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
