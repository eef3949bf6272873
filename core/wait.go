package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// checkEvery is how often an external checker is asked during a wait.
const checkEvery = 100 * time.Millisecond

// wait lets d pass before the next attempt. It is done, with the suspension
// or the failure, as soon as the context has ended.
func (c *call) wait(s *Scope, d time.Duration) (done bool, err error) {
	if c.interrupted(s.outer) {
		return true, c.stopWaiting(s)
	}
	if d > 0 {
		c.release()
		switch {
		case c.root == nil:
			c.body.waiting().sleep(s.outer, d)
		case c.root.settings.Check == nil:
			c.root.settings.waiting.sleep(s.outer, d)
		default:
			c.sleepChecking(s.outer, d)
		}
		if c.interrupted(s.outer) {
			return true, c.stopWaiting(s)
		}
	}
	return false, nil
}

// sleepChecking sleeps in steps, with the external checker asked in between.
func (c *call) sleepChecking(ctx context.Context, d time.Duration) {
	settings := c.root.settings
	for end := time.Now().Add(d); d > 0 && ctx.Err() == nil; d = time.Until(end) {
		settings.waiting.sleep(ctx, min(d, checkEvery))
		settings.Check(ctx)
	}
}

// interrupted asks the external checker and then the context.
func (c *call) interrupted(ctx context.Context) bool {
	if c.root != nil {
		if check := c.root.settings.Check; check != nil {
			check(ctx)
		}
	}
	// A context that was derived from the attempt's may end a moment later.
	return ctx.Err() != nil || c.parent != nil && ctx != context.Context(c.parent) && c.parent.Err() != nil
}

// stopWaiting is what the end of the context during a wait means.
func (c *call) stopWaiting(s *Scope) error {
	if e := c.suspension(s.outer); e != nil {
		return c.suspend(s, e, StageWait)
	}
	return c.failWaiting(s)
}

// failWaiting ends a call whose own context ended during a wait.
func (c *call) failWaiting(s *Scope) error {
	if c.r.err == nil {
		c.r.err = c.lastErr // that of the process before
	}
	c.r.err = after(context.Cause(s.outer), c.r.err)
	return c.failBefore(s, ownEnd(s.outer))
}

func randomUnit() float64 { return rand.Float64() }

// errDeadlineAhead is the cause of a suspension that came before its time.
var errDeadlineAhead = fmt.Errorf("%w before the next attempt could begin", context.DeadlineExceeded)
