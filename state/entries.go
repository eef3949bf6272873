package state

import (
	"fmt"

	"github.com/reprise-go/reprise/core"
)

// WithMaxEntries sets how often the same attempt of an agent is entered, because
// its process ended, without an outcome inside it: after that the agent fails, and
// is [core.ErrInDoubt]. Defaults to 5. [core.Unlimited] is for a program that
// bounds by itself how often it opens a run again, as a runner does.
func WithMaxEntries(n int) Option {
	return func(c *config) {
		if n < 1 && n != core.Unlimited {
			c.must(fmt.Errorf("state: WithMaxEntries(%d): want 1 or more, or core.Unlimited", n))
		}
		c.settings.MaxEntries = n
		c.isFor("WithMaxEntries", inOpen)
	}
}
