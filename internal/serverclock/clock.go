package serverclock

import (
	"context"
	"sync"
	"time"
)

const (
	askEvery = time.Minute     // after an answer
	askAgain = 5 * time.Second // after none
)

// A Clock is that of a server. It is for many goroutines; make one with [New].
type Clock struct {
	ask func(context.Context) (time.Time, error)

	mu   sync.Mutex
	told time.Time // by the server
	at   time.Time // when that was, by the clock of this process
	next time.Time // when to ask again

	took time.Duration // from asking to the answer
}

// New returns the clock of the server that ask asks.
func New(ask func(context.Context) (time.Time, error)) *Clock { return &Clock{ask: ask} }

// Now returns the time of the server, at most as much too early as its answer was under
// way, and never too late. It asks at most once a minute. While the server does not
// answer, Now counts from its last answer; the error is that of a server that never has.
func (c *Clock) Now(ctx context.Context) (time.Time, error) {
	if now, ok := c.known(false); ok {
		return now, nil
	}
	asked := time.Now()
	told, err := c.ask(ctx)
	at := time.Now()
	if err == nil {
		c.set(told, at, at.Sub(asked))
		return told, nil
	}
	c.mu.Lock()
	c.next = at.Add(askAgain)
	c.mu.Unlock()
	if now, ok := c.known(true); ok {
		return now, nil
	}
	return time.Time{}, err
}

// Latest returns what the time of the server may be: it is never too early, and at most as
// much too late as asking took. So a time that was just read from a clock that is right is not
// after it.
func (c *Clock) Latest(ctx context.Context) (time.Time, error) {
	now, err := c.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Add(c.took), nil
}

func (c *Clock) set(told, at time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.at, c.next, c.took = told.Round(0), at, at.Add(askEvery), took
}

// known returns the time by the last answer, unless there is none, or it is old and must
// not be.
func (c *Clock) known(mayBeOld bool) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || !mayBeOld && !time.Now().Before(c.next) {
		return time.Time{}, false
	}
	return c.told.Add(time.Since(c.at)), true
}
