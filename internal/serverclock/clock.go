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

// A Clock estimates a server's time. It is safe for concurrent use. Create one with [New].
type Clock struct {
	ask func(context.Context) (time.Time, error)

	mu         sync.Mutex
	serverTime time.Time // the server's last answer
	receivedAt time.Time // when the answer was received, according to this process's clock
	next       time.Time // when to ask again

	roundTrip time.Duration // how long the last request took
}

// New returns a clock that calls ask to request the server's time.
func New(ask func(context.Context) (time.Time, error)) *Clock { return &Clock{ask: ask} }

// Now returns an estimate of the server's time. The estimate is never ahead of the server's clock,
// and is behind it by at most the duration of the last successful request. Now asks the server again
// one minute after an answer, or 5 seconds after a failed request. While requests fail, Now
// continues from the last answer. It returns an error only if the server has never answered; until
// then, every call to Now sends a request.
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

// Latest returns the latest time that the server's clock may show. The result is never behind the
// server's clock, and is ahead of it by at most the duration of the last successful request.
// Therefore, a time that was just read from a correct clock is not after the result.
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

// estimate returns the time based on the server's last answer. It returns false if there was no
// answer, or if it is time to ask again and mayBeOld is false.
func (c *Clock) estimate(mayBeOld bool) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receivedAt.IsZero() || !mayBeOld && !time.Now().Before(c.next) {
		return time.Time{}, false
	}
	return c.serverTime.Add(time.Since(c.receivedAt)), true
}
