package serverclock

import (
	"context"
	"sync"
	"time"
)

const (
	askEvery      = time.Minute     // after an answer
	askRetryDelay = 5 * time.Second // after a failed request
)

// A Clock estimates the time of a server. It is safe for concurrent use. Create one with
// [New].
type Clock struct {
	ask func(context.Context) (time.Time, error)

	mu         sync.Mutex
	serverTime time.Time // time according to the server
	receivedAt time.Time // when it was received, by the clock of this process
	next       time.Time // when to ask again

	roundTrip time.Duration // from the request to the answer
}

// New returns a clock that asks the server for its time with ask.
func New(ask func(context.Context) (time.Time, error)) *Clock { return &Clock{ask: ask} }

// Now returns the time of the server. The result is never ahead of the server's clock, and behind
// it by at most the time that the answer took. Now asks the server at most once a minute. While the
// server does not answer, Now continues from the last answer; it returns an error only if the
// server has never answered.
func (c *Clock) Now(ctx context.Context) (time.Time, error) {
	if now, ok := c.estimate(false); ok {
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
	c.next = at.Add(askRetryDelay)
	c.mu.Unlock()
	if now, ok := c.estimate(true); ok {
		return now, nil
	}
	return time.Time{}, err
}

// Latest returns the latest possible time of the server. The result is never behind the server's
// clock, and ahead of it by at most the time that asking took. A time that was just read from a
// correct clock is therefore not after it.
func (c *Clock) Latest(ctx context.Context) (time.Time, error) {
	now, err := c.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Add(c.roundTrip), nil
}

func (c *Clock) set(told, at time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverTime, c.receivedAt, c.next, c.roundTrip = told.Round(0), at, at.Add(askEvery), took
}

// estimate returns the time based on the last answer. It reports false if there is no answer, or only
// an old one where that is not enough.
func (c *Clock) estimate(mayBeOld bool) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receivedAt.IsZero() || !mayBeOld && !time.Now().Before(c.next) {
		return time.Time{}, false
	}
	return c.serverTime.Add(time.Since(c.receivedAt)), true
}
