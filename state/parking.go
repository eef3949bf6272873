package state

import (
	"fmt"
	"time"
)

// WithParking has a [core.Sleep], and a delay before another attempt, that is
// longer than threshold suspend the run. The run is paused then, with the time at
// which it goes on in the Info of the store: who opens it then goes on with it, as
// a runner does. Shorter ones wait in the process, as all do without this option,
// and so do delays within a timeout or a deadline.
func WithParking(threshold time.Duration) Option {
	return func(c *config) {
		if threshold <= 0 {
			c.must(fmt.Errorf("state: WithParking(%v): want a time above zero", threshold))
		}
		c.settings.Park = threshold
		c.isFor("WithParking", inOpen)
	}
}
