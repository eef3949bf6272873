package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// WithExisting makes [Open] fail with snapshot.ErrNotFound if the run does not
// exist, instead of beginning it. Check is called with the run before anything
// is recorded. If it returns an error, the run stays as it is, and Open returns
// the error.
func WithExisting(check func(*snapshot.Run) error) Option {
	return func(c *config) {
		if check == nil {
			c.must(errors.New("state: WithExisting got nil"))
		}
		c.existing = check
		c.isFor("WithExisting", inOpen)
	}
}

// WithCheck makes [Open] call check with what the store knows of the run, before
// it opens the run: nothing has happened to the run if check returns an error, and
// Open returns the error. WithExisting is for a check that needs the records.
func WithCheck(check func(snapshot.Info) error) Option {
	return func(c *config) {
		if check == nil {
			c.must(errors.New("state: WithCheck got nil"))
		}
		c.mayOpen = check
		c.isFor("WithCheck", inOpen)
	}
}

// WithRerunFailed makes a resumed run try again what failed for good, after the
// cause was removed: failed tools, LLMs and steps run with all their attempts,
// and failed agents around them are entered again as their last attempt, so
// that the calls which have completed stay restored. A failure after that is final
// again. Which failures are tried again is recorded with the first record of the
// opening: it goes on after a crash. [Retry] is for a run that another program opens.
func WithRerunFailed() Option {
	return func(c *config) { c.rerunFailed = true; c.isFor("WithRerunFailed", inOpen) }
}

// WithWait makes [Open] wait while another process has the run open, until its
// context ends. Without it, Open returns snapshot.ErrLocked.
func WithWait() Option { return func(c *config) { c.wait = true; c.isFor("WithWait", inOpen) } }

// WithOwner sets who opens the run, such as a host and a process. Others that
// find the run open see it in the Info of the store and in
// snapshot.LockedError.
func WithOwner(owner string) Option {
	return func(c *config) { c.owner = owner; c.isFor("WithOwner", inOpen) }
}

// openOptions returns the options for Open of the store.
func (c *config) openOptions() snapshot.OpenOptions {
	return snapshot.OpenOptions{
		Create: c.existing == nil, Wait: c.wait, Metadata: c.metadata, Retry: c.levels, Owner: c.owner, Check: c.mayOpen,
	}
}

// checkExisting calls the function of WithExisting with the run.
func (c *config) checkExisting(found *snapshot.Run) error {
	if c.existing == nil {
		return nil
	}
	if err := c.existing(found); err != nil {
		return fmt.Errorf("state: open run %s: %w", found.RunID, err)
	}
	return nil
}

// WithMaxLosses sets how often in a row the process may end during the same
// attempt of a call whose own retry configuration does not say it: see
// [core.RetryConfig]. Defaults to 5. [core.Unlimited] is for a program that itself
// limits how often it opens a run again, as a runner does.
func WithMaxLosses(n int) Option {
	return func(c *config) {
		if n < 1 && n != core.Unlimited {
			c.must(fmt.Errorf("state: WithMaxLosses(%d): want 1 or more, or core.Unlimited", n))
		}
		c.settings.MaxLosses = n
		c.isFor("WithMaxLosses", inOpen)
	}
}

// WithParking suspends the run for a [core.Sleep], or a delay before another
// attempt, that is longer than threshold. The run is then paused, and the Info
// of the store has the time at which it can continue: a program such as a
// runner opens it then. Shorter waits take place in the process, as all do
// without this option, and so do delays within a timeout or a deadline.
func WithParking(threshold time.Duration) Option {
	return func(c *config) {
		if threshold <= 0 {
			c.must(fmt.Errorf("state: WithParking(%v): want a time above zero", threshold))
		}
		c.settings.Park = threshold
		c.isFor("WithParking", inOpen)
	}
}
