package state

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// A Host configures how a program that executes runs on behalf of others, such as a runner, opens
// those runs.
type Host struct {
	// Owner identifies who opens the run, for example by host and process. Other processes that
	// find the run open see this name in the run's Info and in snapshot.LockedError. Owner may be
	// empty.
	Owner string

	// Check is called with the run's Info before the run is opened. If Check returns an error, the
	// run is left unchanged, and Open returns the error. Check may be nil.
	Check func(snapshot.Info) error

	// Existing is called with the run before anything is recorded. If it returns an error, the run
	// does not change, and Open returns the error. If Existing is set and the run does not exist,
	// Open fails with snapshot.ErrNotFound instead of creating the run. Existing may be nil.
	Existing func(*snapshot.Run) error

	// Compensating is called before Open compensates the calls of a run that was cancelled. Open
	// then closes the run and returns ErrCancelled. Only these methods of st may be called: Report,
	// Interrupt with the reason shutdown, and, after that, Close. They may also be called after
	// Open has returned. Compensating may be nil.
	Compensating func(st *ExecutionState)

	// RootsAtClose leaves the outcomes and suspensions of root calls to the sync at the end of the
	// run: they are guaranteed to be on disk only once Close has returned without an error. This
	// saves a sync in a program that makes one call and closes the run before it uses the result.
	// It applies to SyncOutcomes, the default.
	RootsAtClose bool
}

// WithHost opens the run on behalf of others. See [Host].
func WithHost(h Host) Option {
	return func(c *config) { c.host = h; c.limitTo("WithHost", inOpen) }
}

// WithRerunFailed makes a resumed run try the calls that failed for good again. Use it once the
// cause of the failure has been removed. Failed tools, LLMs and steps run again with all their
// attempts. Failed agents around them are entered again as their last attempt, so that calls that
// have completed stay restored. If a call then fails again, that failure is final again. The
// opening's first record shows which failures are tried again, so after a crash, the next opening
// also tries them again. [Retry] does the same from any process, without changing the program. Its
// documentation describes what happens to failures that the program has handled, to calls that
// failed in doubt, to calls that were compensated, and to calls that could not be compensated. If
// the run stopped during the compensations for a failure, the opening first finishes these and
// retries nothing: open the run again to retry it.
func WithRerunFailed() Option {
	return func(c *config) { c.rerunFailed = true; c.limitTo("WithRerunFailed", inOpen) }
}

// WithWait makes [Open] wait while another process has the run open, until the context passed to
// Open ends. Without it, Open returns snapshot.ErrLocked.
func WithWait() Option { return func(c *config) { c.wait = true; c.limitTo("WithWait", inOpen) } }

// openOptions returns the options for the store's method Open.
func (c *config) openOptions() snapshot.OpenOptions {
	return snapshot.OpenOptions{
		Create: c.host.Existing == nil, Wait: c.wait, Metadata: c.metadata, Retry: c.levels, Owner: c.host.Owner, Check: c.host.Check,
	}
}

// checkExisting calls the host's Existing function with the run.
func (c *config) checkExisting(found *snapshot.Run) error {
	if c.host.Existing == nil {
		return nil
	}
	if err := c.host.Existing(found); err != nil {
		return fmt.Errorf("state: open run %s: %w", found.RunID, err)
	}
	return nil
}

// WithMaxLosses sets how many times in a row the process may end during the same attempt of a call.
// It applies to calls whose retry configuration does not set MaxLosses; see [core.RetryConfig].
// Defaults to 5. [core.Unlimited] is for a program, such as a runner, that itself limits how often
// it opens a run again.
func WithMaxLosses(n int) Option {
	return func(c *config) {
		if n < 1 && n != core.Unlimited {
			c.refuse(fmt.Errorf("state: WithMaxLosses(%d): want 1 or more, or core.Unlimited", n))
		}
		c.settings.MaxLosses = n
		c.limitTo("WithMaxLosses", inOpen)
	}
}

// WithParking suspends the run during any [core.Sleep] or retry delay that is longer than
// threshold. The run is then paused, and its Info contains the time at which it can continue, so
// that a program such as a runner can open it at that time. Shorter waits, and delays within a
// timeout or a deadline, take place in the process, as all waits do without this option.
func WithParking(threshold time.Duration) Option {
	return func(c *config) {
		if threshold <= 0 {
			c.refuse(fmt.Errorf("state: WithParking(%v): want a positive duration", threshold))
		}
		c.settings.Park = threshold
		c.limitTo("WithParking", inOpen)
	}
}
