package state

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// WithExisting makes [Open] refuse a run that does not exist, with
// snapshot.ErrNotFound, instead of beginning it. Check is called with the run as
// it was found, before anything is recorded. Its error leaves the run as it was
// and is what Open returns.
func WithExisting(check func(*snapshot.Run) error) Option {
	return func(c *config) {
		if check == nil {
			c.must(errors.New("state: WithExisting got nil"))
		}
		c.existing = check
		c.isFor("WithExisting", inOpen)
	}
}

// WithOwner says who opens the run, such as a host and a process: for others who
// find it open, in what the store knows of it and in snapshot.LockedError.
func WithOwner(owner string) Option {
	return func(c *config) { c.owner = owner; c.isFor("WithOwner", inOpen) }
}

// openOptions are what the store is asked for.
func (c *config) openOptions() snapshot.OpenOptions {
	return snapshot.OpenOptions{
		Create: c.existing == nil, Wait: c.wait, Metadata: c.metadata, Retry: c.retryLevels(), Owner: c.owner,
	}
}

// checkExisting asks WithExisting about the run that was found.
func (c *config) checkExisting(found *snapshot.Run) error {
	if c.existing == nil {
		return nil
	}
	if err := c.existing(found); err != nil {
		return fmt.Errorf("state: open run %s: %w", found.RunID, err)
	}
	return nil
}
