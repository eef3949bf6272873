package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// limit is the end of one attempt in time. It has no timer: whoever waits for
// the attempt ends it, either when the time is over or when the context
// around the attempt ended. It makes what a handler may ask of a context, the
// channel and the callbacks, only when it is asked.
type limit struct {
	deadline
	ended   atomic.Uint32 // how it ended
	overdue atomic.Bool   // the attempt counts as expired, although it ended before

	mu        sync.Mutex
	at        time.Time     // the deadline; zero until somebody asks
	done      chan struct{} // nil until somebody asks
	callbacks map[*func()]struct{}
}

// deadline is when an attempt has to end, and why.
type deadline struct {
	start  instant // of the attempt
	length time.Duration
	total  bool // it is RetryTimeout's
}

// left is how long it is until then.
func (d deadline) left() time.Duration { return d.length - d.start.since() }

// How a limit ends.
const (
	endedNot      = iota
	endedExpired  // its own time is over
	endedDeadline // the context around it is past its deadline
	endedCanceled // the context around it was cancelled, or the attempt is over
)

func (l *limit) expired() bool { return l.ended.Load() == endedExpired || l.overdue.Load() }

func (l *limit) Err() error {
	switch l.ended.Load() {
	case endedNot:
		return nil
	case endedCanceled:
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// Deadline is the same each time.
func (l *limit) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		now := time.Now()
		l.at = now.Add(l.length - l.start.until(instantOf(now)))
	}
	return l.at
}

func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.Err() != nil {
			close(l.done)
		}
	}
	return l.done
}

// end closes Done and calls what was registered. Only the first counts.
func (l *limit) end(how uint32) {
	l.mu.Lock()
	if !l.ended.CompareAndSwap(endedNot, how) {
		l.mu.Unlock()
		return
	}
	if l.done != nil {
		close(l.done)
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
