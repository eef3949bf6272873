package core

import "time"

// Delays are the delays of a configuration, without jitter.
type Delays struct{ c *retries }

// DelaysOf returns the delays of c.
func DelaysOf(c RetryConfig) (Delays, error) {
	c, err := c.WithDefaults()
	return Delays{(*retries)(&c)}, err
}

// Delay returns the delay before retry n, from 1.
func (d Delays) Delay(n int) time.Duration { return d.c.delay(n) }
