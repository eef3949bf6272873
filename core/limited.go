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
func (c *call) limited(s *Scope) {
	f := c.body.launch(s, c.deadline())
	if f.quick() || c.awaitLanding(s, f) {
		c.landed(s, f)
		return
	}
	if c.root != nil {
		c.root.settings.Late.Abandoned.Add(1)
	}
	c.r = result{err: s.limit.Err(), stage: StageHandler}
	if s.limit.expired() {
		c.r.err = &TimeoutError{Limit: s.limit.length}
	}
}

// awaitLanding waits until the attempt comes back. It reports false if the
// attempt did not return when its context ended, and was abandoned.
func (c *call) awaitLanding(s *Scope, f *flight) bool {
	done := f.landing()
	timer := time.NewTimer(s.limit.left())
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		s.limit.end(endedExpired)
	case <-s.outer.Done():
		s.limit.endWith(s.outer.Err())
	}
	timer.Reset(grace)
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	s.closed.Store(true)
	return !f.abandon()
}

// landed takes the result of an attempt that came back. After the attempt's
// own time even a success is too late; after an interrupt it is kept.
func (c *call) landed(s *Scope, f *flight) {
	s.closed.Store(true)
	f.lander.land()
	c.r = f.r
	if s.limit.expired() && !c.r.panicked {
		c.r = result{err: &TimeoutError{Limit: s.limit.length, Err: c.r.err}, stage: c.r.stage}
	}
	s.limit.end(endedCanceled) // lets go of what was derived from the context
}

// deadline is when the attempt that starts now has to end: the earlier of its
// own timeout and what is left of RetryTimeout.
func (c *call) deadline() deadline {
	timeout := c.timeout()
	d := deadline{start: c.started, length: timeout}
	if total := c.policy.config.RetryTimeout; total > 0 {
		if left := total - c.spent; timeout == 0 || left <= timeout {
			d = deadline{start: c.started, length: left, total: true}
		}
	}
	return d
}
