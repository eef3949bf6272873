package core

import (
	"sync/atomic"
	"time"
)

// Reading the monotonic clock takes half as long as asking for the time of
// day, and an instant a third of the memory of a time.Time. So calls count in
// instants, and records get the time of day that belongs to them.

// An instant is a reading of the monotonic clock, in nanoseconds.
type instant int64

// programBegan is what instants count from. It is no time of day to go by: the
// clock may have been set since.
var programBegan = time.Now()

func monotonic() instant { return instant(time.Since(programBegan)) }

// instantOf is the instant of a time.Now. Where both an instant and a time are
// wanted, one is made of the other: between two readings the goroutine may have
// to wait for a processor.
func instantOf(now time.Time) instant { return instant(now.Sub(programBegan)) }

// until is the time from i to another instant.
func (i instant) until(j instant) time.Duration { return time.Duration(j - i) }

// since is the time that passed.
func (i instant) since() time.Duration { return i.until(monotonic()) }

// plus is the instant d later.
func (i instant) plus(d time.Duration) instant { return i + instant(d) }

// A clock knows the time of day of instants. It asks for it every now and then:
// the clock may be set, and stands while the machine sleeps.
type clock struct{ asked atomic.Pointer[timeOfDay] }

// timeOfDay is when an instant was.
type timeOfDay struct {
	at   instant
	unix int64 // in nanoseconds
}

// trusted is how long a clock goes by what it was told.
const trusted = 10 * time.Millisecond

// unixNano is the time of day of an instant that is just over.
func (c *clock) unixNano(i instant) int64 {
	told := c.asked.Load()
	if told == nil || told.at.until(i) > trusted {
		now := time.Now()
		told = &timeOfDay{instantOf(now), now.UnixNano()}
		c.asked.Store(told)
	}
	return told.unix + int64(told.at.until(i))
}

// start says that the attempt, or what comes before the first, begins now.
// Within an attempt, time is what the monotonic clock says; each attempt has the
// time of day anew.
func (c *call) start() {
	c.started = monotonic()
	if c.root != nil {
		c.clocked = c.root.clock.unixNano(c.started)
	}
}

// startNext starts the attempt after the one that ended. One that has neither a
// wait before it nor an end in time began when that ended, if what lay between
// was telling of it and no more.
func (c *call) startNext() {
	if c.delay == 0 && !c.hasLimit() && c.goesOnAtOnce() {
		c.started, c.clocked = c.started.plus(c.took), c.clocked+int64(c.took)
		c.spent += c.took
		return
	}
	c.restart()
}

// goesOnAtOnce reports whether nobody who may take their time is asked between
// an attempt and the next: no function of the user's, no checker, no store.
func (c *call) goesOnAtOnce() bool {
	config := &c.policy.config
	if config.RetryWhen != nil || config.StopWhen != nil {
		return false
	}
	return c.root == nil || c.root.settings.Check == nil && !c.root.settings.Outputs
}

// restart starts anew, and counts the time since the last start as spent.
func (c *call) restart() {
	before := c.started
	c.start()
	c.spent += before.until(c.started)
}

// elapsed is the time of all attempts and waits so far.
func (c *call) elapsed() time.Duration { return c.spent + c.took }

// pause counts the time since the attempt began as spent: what is told now is
// about no attempt.
func (c *call) pause() {
	c.restart()
	c.took = 0
}
