package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/reprise-go/reprise/record"
)

// wait waits for the rest of the delay before the next attempt, unless the run is parked. Time
// during which no process was running counts toward the delay. Many calls may be waiting at once,
// each with a stack of its own, so wait keeps little on the stack, which lets the runtime shrink
// it.
func (c *Call) wait(p *record.Progress, s *Scope) {
	rest := c.remainingDelay(p)
	if rest == 0 || c.askChecker(s.outer) || c.parks(s.outer, rest) {
		return
	}
	began := time.Now()
	if c.guard == nil && c.root.settings.Poll == nil {
		c.root.sleep(s.outer, rest, nil)
	} else {
		c.sleepOutsideSlot(s.outer, rest, nil)
	}
	p.Spent += time.Since(began)
}

// endWait returns nil if the next attempt may begin. Otherwise, it returns the error with which the
// call ends: the suspension or failure caused by the end of the context, or the suspension of a
// parked run.
func (c *Call) endWait(p *record.Progress, s *Scope) error {
	if !c.askChecker(s.outer) {
		if rest := c.remainingDelay(p); rest > 0 && c.parks(s.outer, rest) {
			return c.park(p, s, rest)
		}
		return nil
	}
	if e := c.stopCause(); e != nil {
		return c.suspend(p, s, nil, e, record.StageWait)
	}
	return c.failWaiting(p, s, newAfterError(context.Cause(s.outer), p.Err), ownEnd(s.outer))
}

// failWaiting fails the call before the attempt of s begins. err is the error of the last attempt
// that was made, or wraps it. The failure is recorded for that attempt.
func (c *Call) failWaiting(p *record.Progress, s *Scope, err error, reason record.Reason) error {
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: max(0, s.attempt-1)}
	f := c.classify(&attemptEnd{Result: Result{Err: err, Stage: record.StageHandler}})
	return c.fail(p, before, &f, reason)
}

// remainingDelay returns the rest of the delay before the next attempt. If the run was parked, the
// whole delay has already been counted as spent, so remainingDelay subtracts the rest from it.
func (c *Call) remainingDelay(p *record.Progress) time.Duration {
	if p.Delay == 0 || c.root.settings.Strict {
		return 0
	}
	rest := max(0, min(p.Delay-time.Since(p.Since), p.Delay))
	if p.Parked {
		p.Spent, p.Parked = p.Spent-rest, false
	}
	return rest
}

// sleepOutsideSlot releases the call's slot while it sleeps for d. It returns early when ready is
// closed. ready may be nil.
func (c *Call) sleepOutsideSlot(ctx context.Context, d time.Duration, ready <-chan struct{}) {
	if c.guard != nil && c.guard.slot != nil {
		c.guard.slot.Release()
		defer c.guard.slot.Acquire(ctx)
	}
	c.sleep(ctx, d, ready)
}

// parks reports whether to park the run during the delay. The run is not parked if something around
// the call sets a deadline; the wait then takes place in the process.
func (c *Call) parks(ctx context.Context, delay time.Duration) bool {
	threshold := c.root.settings.Park
	if threshold == 0 || delay <= threshold {
		return false
	}
	_, limited := ctx.Deadline()
	return !limited
}

// park suspends the call until the next attempt is due. The whole delay counts as time spent by the
// call, even if no process runs in the meantime.
func (c *Call) park(p *record.Progress, s *Scope, delay time.Duration) error {
	due := time.Now().Add(delay)
	e := parkedUntil("the next attempt begins", due)
	c.parent.stop(e)
	var rec record.Record
	c.describeEnd(&rec, record.StatusAwaiting, p, s, nil)
	rec.Stage, rec.Class, rec.Err = record.StageWait, record.ClassCanceled, e
	rec.Delay, rec.Elapsed = delay, addDuration(rec.Elapsed, delay)
	_ = c.append(p, s, &rec) // as in suspend
	return e
}

// addDuration returns the sum of two non-negative durations, or the maximum time.Duration if the
// sum would overflow.
func addDuration(a, b time.Duration) time.Duration {
	return a + min(b, math.MaxInt64-a)
}

// parkedUntil returns the suspension of a call that waits until due. what describes what happens at
// that time.
func parkedUntil(what string, due time.Time) *InterruptedError {
	return &InterruptedError{
		Reason:  record.InterruptAwait,
		Awaits:  record.AwaitTime,
		Message: what + " at " + due.UTC().Format(time.RFC3339),
	}
}

// errDeadlineAhead is the cause of a suspension that occurs before the deadline has passed.
var errDeadlineAhead = fmt.Errorf("%w before the next attempt could begin", context.DeadlineExceeded)

// checkEvery is the interval at which a waiting call asks an external checker.
const checkEvery = 100 * time.Millisecond

// sleep returns after d, or earlier if ctx ends, the run drains, or ready is closed.
func (c *Call) sleep(ctx context.Context, d time.Duration, ready <-chan struct{}) {
	poll := c.root.settings.Poll
	if poll == nil {
		c.root.sleep(ctx, d, ready)
		return
	}
	for end := time.Now().Add(d); d > 0 && ctx.Err() == nil && c.root.draining.Load() == nil && !isClosed(ready); d = time.Until(end) {
		c.root.sleep(ctx, min(d, checkEvery), ready)
		poll(ctx)
	}
}

func isClosed(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	default:
		return false
	}
}

func (r *Root) sleep(ctx context.Context, d time.Duration, ready <-chan struct{}) {
	var drained <-chan struct{} // nil outside any run, where there is no draining
	if !r.isOutside() {
		drained = *r.drain()
	}
	timer := time.NewTimer(d)
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-drained:
	case <-ready:
	}
	timer.Stop()
}

// checkpoint returns the error that ends the call if it must not continue.
func (c *Call) checkpoint(p *record.Progress, s *Scope) error {
	if !c.askChecker(s.outer) {
		return nil
	}
	if e := c.stopCause(); e != nil {
		return c.suspend(p, s, nil, e, record.StageEntry)
	}
	return c.refuse(p, s, Result{Err: context.Cause(s.outer), Stage: record.StageEntry}, ownEnd(s.outer))
}

// stopCause returns why the call must not continue: a surrounding scope has ended, or the run is
// draining. Otherwise, it returns nil, even if the call's own context has ended.
func (c *Call) stopCause() *InterruptedError {
	if e := c.parent.endCause(); e != nil {
		return e
	}
	return c.root.draining.Load()
}

// askChecker asks the external checker. It then reports whether ctx or a surrounding scope has
// ended, or the run is draining.
func (c *Call) askChecker(ctx context.Context) bool {
	if poll := c.root.settings.Poll; poll != nil {
		poll(ctx)
	}
	// If ctx is derived from the attempt's context, it may end slightly after it, so check both.
	return ctx.Err() != nil || c.parent.context().Err() != nil || c.root.draining.Load() != nil
}
