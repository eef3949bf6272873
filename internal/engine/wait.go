package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// wait waits for the rest of the delay before the next attempt. Time in which
// no process ran counts as waited. An error ends the call: it is the suspension
// or the failure that the end of the context causes, or the suspension of a run
// that is parked.
func (c *Call) wait(p *record.Progress, s *Scope) error {
	rest := c.rest(p)
	if !c.ended(s.outer) {
		switch {
		case rest == 0:
			return nil
		case c.parks(s.outer, rest):
			return c.park(p, s, rest)
		}
		began := time.Now()
		c.sleepInSlot(s.outer, rest)
		p.Spent += time.Since(began)
		if !c.ended(s.outer) {
			return nil
		}
	}
	if e := c.stopping(); e != nil {
		return c.suspend(p, s, attempted{}, e, record.StageWait)
	}
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: max(0, s.attempt-1)} // the last attempt that was made
	r := attempted{Result: Result{Err: after(context.Cause(s.outer), p.Err), Stage: record.StageHandler}}
	return c.fail(p, before, classify(r), ownEnd(s.outer))
}

// rest returns what is left of the delay before the next attempt. If the run
// was parked, the whole delay was counted as spent, and the rest is subtracted
// again.
func (c *Call) rest(p *record.Progress) time.Duration {
	if p.Delay == 0 || c.root.settings.Strict {
		return 0
	}
	rest := max(0, min(p.Delay-time.Since(p.Since), p.Delay))
	if p.Parked {
		p.Spent, p.Parked = p.Spent-rest, false
	}
	return rest
}

// sleepInSlot sleeps, and releases the slot of the call meanwhile.
func (c *Call) sleepInSlot(ctx context.Context, d time.Duration) { c.waitInSlot(ctx, d, nil) }

// waitInSlot sleeps until ready is closed, if that is earlier, and releases the
// slot of the call meanwhile.
func (c *Call) waitInSlot(ctx context.Context, d time.Duration, ready <-chan struct{}) {
	if c.guard != nil && c.guard.slot != nil {
		c.guard.slot.Release()
		defer c.guard.slot.Acquire(ctx)
	}
	c.sleepUntil(ctx, d, ready)
}

// parks reports whether the run is parked during the delay. It is not if
// something around the call limits the wait: that time passes in the process.
func (c *Call) parks(ctx context.Context, delay time.Duration) bool {
	threshold := c.root.settings.Park
	if threshold == 0 || delay <= threshold {
		return false
	}
	_, limited := ctx.Deadline()
	return !limited
}

// park suspends the call until the next attempt is due. The whole delay counts
// as time of the call, even if no process runs meanwhile.
func (c *Call) park(p *record.Progress, s *Scope, delay time.Duration) error {
	due := time.Now().Add(delay)
	e := parkedUntil("the next attempt begins", due)
	c.parent.stop(e)
	rec := c.endRecord(record.StatusAwaiting, p, s, &attempted{})
	rec.Stage, rec.Class, rec.Err = record.StageWait, record.ClassCanceled, e
	rec.Delay, rec.Elapsed = delay, rec.Elapsed+delay
	_ = c.append(p, s, &rec) // as in suspend
	return e
}

// parkedUntil is the suspension of a call that waits for time. What says what
// happens then.
func parkedUntil(what string, due time.Time) *InterruptedError {
	return &InterruptedError{
		Reason:  record.InterruptAwait,
		Asks:    record.AsksTime,
		Message: what + " at " + due.UTC().Format(time.RFC3339),
	}
}

// errDeadlineAhead is the cause of a suspension that came before the deadline.
var errDeadlineAhead = fmt.Errorf("%w before the next attempt could begin", context.DeadlineExceeded)

// checkEvery is the interval in which an external checker is asked during a
// wait.
const checkEvery = 100 * time.Millisecond

// sleep returns after d, when ctx ends or when the run drains.
func (c *Call) sleep(ctx context.Context, d time.Duration) { c.sleepUntil(ctx, d, nil) }

// sleepUntil is sleep, and returns also when ready is closed. A nil channel
// never is.
func (c *Call) sleepUntil(ctx context.Context, d time.Duration, ready <-chan struct{}) {
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
	var drained <-chan struct{} // nil outside any run, where nothing is drained
	if !r.isOutside() {
		drained = *r.drain()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-drained:
	case <-ready:
	}
}

// checkpoint returns the error that ends the call if it must not continue.
func (c *Call) checkpoint(p *record.Progress, s *Scope) error {
	if !c.ended(s.outer) {
		return nil
	}
	if e := c.stopping(); e != nil {
		return c.suspend(p, s, attempted{}, e, record.StageEntry)
	}
	return c.refuse(p, s, Result{Err: context.Cause(s.outer), Stage: record.StageEntry}, ownEnd(s.outer))
}

// stopping returns why the call must not continue although its own context has
// not ended: something around it has ended, or the run drains. It returns nil
// otherwise.
func (c *Call) stopping() *InterruptedError {
	if e := c.parent.ending(); e != nil {
		return e
	}
	return c.root.draining.Load()
}

// ended asks the external checker, and reports whether the context or something
// around the call has ended, or the run drains.
func (c *Call) ended(ctx context.Context) bool {
	if poll := c.root.settings.Poll; poll != nil {
		poll(ctx)
	}
	// A context that was derived from the attempt's may end a moment later.
	return ctx.Err() != nil || c.parent.context().Err() != nil || c.root.draining.Load() != nil
}
