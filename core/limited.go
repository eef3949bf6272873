package core

import (
	"time"
)

// grace is how long a handler whose context ended may take to return before
// it is abandoned. It keeps what such a handler has to say, and is short
// enough that an interrupt is answered within 100 ms.
const grace = 50 * time.Millisecond

// limited makes an attempt that has a timeout: on a goroutine of its own,
// since only so can it be left behind.
func (c *call) limited(s *Scope, start time.Time) result {
	s.limit = c.limit(start)
	f := c.body.launch(s)
	if f.quick() {
		return c.landed(s, f)
	}
	done := f.done()
	timer := time.NewTimer(time.Until(s.limit.at))
	defer timer.Stop()
	select {
	case <-done:
		return c.landed(s, f)
	case <-timer.C:
		s.limit.end(endedExpired)
	case <-s.outer.Done():
		s.limit.endWith(s.outer.Err())
	}
	timer.Reset(grace)
	select {
	case <-done:
		return c.landed(s, f)
	case <-timer.C:
	}
	s.closed.Store(true)
	if !f.abandon() {
		return c.landed(s, f)
	}
	if c.run != nil {
		c.run.Settings().Late.Abandoned.Add(1)
	}
	r := result{err: s.limit.Err(), stage: StageHandler}
	if s.limit.expired() {
		r.err = &TimeoutError{Limit: s.limit.length}
	}
	return r
}

// landed is the result of an attempt that came back. After the attempt's own
// time even a success is too late; after an interrupt it is kept.
func (c *call) landed(s *Scope, f *flight) result {
	s.closed.Store(true)
	c.body.land()
	r := f.r
	if s.limit.expired() && !r.panicked {
		r = result{err: &TimeoutError{Limit: s.limit.length, Err: r.err}, stage: r.stage}
	}
	s.limit.end(endedCanceled) // lets go of what was derived from the context
	return r
}

// limit is the end of an attempt that starts now: the earlier of its own
// timeout and what is left of RetryTimeout.
func (c *call) limit(now time.Time) *limit {
	l := &limit{at: now.Add(c.timeout), length: c.timeout}
	if total := c.policy.config.RetryTimeout; total > 0 {
		if end := c.began.Add(total); c.timeout == 0 || !l.at.Before(end) {
			l.at, l.length, l.total = end, end.Sub(now), true
		}
	}
	return l
}
