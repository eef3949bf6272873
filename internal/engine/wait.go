package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// wait waits for the rest of the delay before the next attempt, unless the run is
// parked meanwhile. Time in which no process ran counts as waited. Many calls may wait
// at once, each with its stack: what is on it while they do is little, and the runtime
// takes the rest away.
func (c *Call) wait(p *record.Progress, s *Scope) {
	rest := c.rest(p)
	if rest == 0 || c.ended(s.outer) || c.parks(s.outer, rest) {
		return
	}
	began := time.Now()
	if c.guard == nil && c.root.settings.Poll == nil {
		c.root.sleep(s.outer, rest, nil)
	} else {
		c.sleepInSlot(s.outer, rest, nil)
	}
	p.Spent += time.Since(began)
}

// endWait returns nil if the next attempt may begin. An error ends the call: it is the
// suspension or the failure that the end of the context causes, or the suspension of a
// run that is parked.
func (c *Call) endWait(p *record.Progress, s *Scope) error {
	if !c.ended(s.outer) {
		if rest := c.rest(p); rest > 0 && c.parks(s.outer, rest) {
			return c.park(p, s, rest)
		}
		return nil
	}
	if e := c.stopping(); e != nil {
		return c.suspend(p, s, nil, e, record.StageWait)
	}
	return c.failWaiting(p, s, after(context.Cause(s.outer), p.Err), ownEnd(s.outer))
}

// failWaiting fails the call before the attempt of s, with err: that of the last
// attempt that was made, to which the failure belongs.
func (c *Call) failWaiting(p *record.Progress, s *Scope, err error, reason record.Reason) error {
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: max(0, s.attempt-1)}
	f := c.classify(&attempted{Result: Result{Err: err, Stage: record.StageHandler}})
	return c.fail(p, before, &f, reason)
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

// sleepInSlot sleeps until ready is closed, if that is earlier, and releases the
// slot of the call meanwhile. A nil ready never is.
func (c *Call) sleepInSlot(ctx context.Context, d time.Duration, ready <-chan struct{}) {
	if c.guard != nil && c.guard.slot != nil {
		c.guard.slot.Release()
		defer c.guard.slot.Acquire(ctx)
	}
	c.sleep(ctx, d, ready)
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
	var rec record.Record
	c.describeEnd(&rec, record.StatusAwaiting, p, s, nil)
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

// sleep returns after d, when ctx ends, when the run drains, or when ready is closed.
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
	var drained <-chan struct{} // nil outside any run, where nothing is drained
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
	if !c.ended(s.outer) {
		return nil
	}
	if e := c.stopping(); e != nil {
		return c.suspend(p, s, nil, e, record.StageEntry)
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
