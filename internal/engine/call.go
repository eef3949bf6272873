package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Call is one call, without its types. It does not change while the call runs:
// what happens is in its Progress, and in the results that the steps return.
type Call struct {
	typed       Typed // the part that needs the types
	spec        *Spec
	policy      *Policy
	custom      bool        // the policy is the event's own
	guarded     bool        // the actor has preconditions
	direct      bool        // claimed when executed, and counted as under way
	counted     bool        // among those that are not recalled
	overlaps    bool        // another call with its name and input was under way when it was claimed
	claimed     bool        // and without a record yet
	keyed       atomic.Bool // its handler asked for its idempotency key
	compensable bool        // the actor has a compensation
	doubtful    bool        // and one for calls in doubt
	ofDoubt     bool        // it is the compensation of a call in doubt
	root        *Root
	parent      *Scope // the scope around the call
	scope       *Scope // the scope that numbered it: parent, or one around parent
	address     record.Address
	ordinal     int
	toolCall    string // the ID that a model gave the call; empty if none asked for it

	recall     *recall                     // nil if nothing can be recalled
	identified atomic.Pointer[record.Hash] // the identity of the input, if somebody asked for it
	guard      *Guard                      // what attempts have around them; nil for nothing
	begun      *completedCall              // what is to be undone if the call ends in doubt; nil for nothing
	instead    *record.Effect              // an effect in doubt in whose place the call is made; nil for none
	off        *InterruptedError           // why the call must not begin: its scope had stopped when it was claimed

	first Scope // of the first attempt that is made
}

// recall is what is known of a call when it is claimed, in a run whose records
// are kept so that it can be resumed.
type recall struct {
	input    record.Hash      // the identity of the input
	before   record.Hash      // what it was before some values were kept as JSON; zero if nobody asked
	inputErr error            // why input is not set
	found    *record.Progress // what was recorded of the call; nil for nothing
	refused  error            // why the call must not begin
}

// execute makes the call, one step after the other, until it has an outcome or
// is suspended. Each step depends only on the records of the call so far, so a
// resumed call continues like one that never stopped.
func (c *Call) execute(first *Scope) error {
	defer c.leave(c.enter(first))
	if err := c.mayBegin(); err != nil {
		return err
	}
	var p record.Progress
	c.recallProgress(&p)
	for s := first; ; s = nil {
		step := c.next(&p)
		if step.Do == Return {
			again, err := c.replay(first)
			if !again {
				return c.undo(&p, first, err)
			}
			p, c.recall.found = record.Progress{}, nil
			continue
		}
		if s == nil {
			s = &Scope{outer: first.outer, root: c.root, call: c}
		}
		s.attempt = step.Attempt
		if step.Do == Make && p.Phase == record.PhaseWaiting {
			c.wait(&p, s)
		}
		if err := c.take(&p, s, step); err != nil || p.HasOutcome() {
			return c.undo(&p, first, err)
		}
	}
}

// enter counts a root call as under way. What it returns is for leave.
func (c *Call) enter(first *Scope) (free func()) {
	if c.isRoot() {
		c.root.active.Add(1)
	}
	return c.rejoin(first)
}

// leave undoes what enter and checkOverlap did.
func (c *Call) leave(free func()) {
	if c.isRoot() {
		c.root.leave()
	}
	if free != nil {
		free()
	}
	if c.direct {
		c.leaveDirect()
	}
}

// isRoot reports whether the call is made by no other.
func (c *Call) isRoot() bool { return c.parent.call == nil && !c.root.isOutside() }

// recallProgress sets p to what was recorded of the call.
func (c *Call) recallProgress(p *record.Progress) {
	if c.recall == nil || c.recall.found == nil || c.recall.found.Repeat {
		return
	}
	*p = *c.recall.found
	if p.Used != nil {
		c.spend(*p.Used)
	}
}

// take takes one step. The call has ended if take returns an error or p has an
// outcome.
func (c *Call) take(p *record.Progress, s *Scope, step Step) error {
	switch step.Do {
	case Refuse:
		return permanent(fmt.Errorf("%s: %w", c.address, step.Err))
	case Retrace:
		return c.retrace(p, s)
	}
	if p.Phase == record.PhaseWaiting {
		if err := c.endWait(p, s); err != nil {
			return err
		}
	} else if err := c.checkpoint(p, s); err != nil {
		return err
	}
	if step.Do == Fail || step.Do == Ask {
		if ended, err := c.lookUp(p, s, nil); ended {
			return err
		}
	}
	switch step.Do {
	case Fail:
		return c.failInDoubt(p, s, step.Err)
	case Ask:
		return c.askInDoubt(p, s, nil)
	case SetAside:
		return c.setAside(p, s)
	case Begin:
		if ended, err := c.takeEffect(p, s); ended || err != nil {
			return err
		}
		if err := c.precede(p, s); err != nil {
			return err
		}
	}
	if p.Phase == record.PhaseSucceeded { // the output was not kept: make it again
		p.Spent, p.Delay, p.Err = 0, 0, nil
	}
	return c.attempt(p, s)
}

// mayBegin returns an error if the call must not begin.
func (c *Call) mayBegin() error {
	switch {
	case c.parent.Closed():
		return ErrAttemptOver
	case c.off != nil:
		if c.parent.call == nil {
			c.root.refused.CompareAndSwap(nil, c.off)
		}
		c.parent.stop(c.off)
		return c.off
	case c.recall != nil && c.recall.refused != nil:
		return c.halt(c.recall.refused)
	case c.compensable:
		return c.checkCompensation()
	}
	return nil
}

// precede runs the preconditions in a scope of their own. They do not run again
// when the call is resumed, so they must not number any call of the handler.
// Goroutines that they started may still use that scope while the attempt runs.
func (c *Call) precede(p *record.Progress, s *Scope) error {
	if c.policy.Err != nil {
		return c.refuse(p, s, Result{Err: c.policy.Err, Stage: record.StageDefinition}, record.ReasonPermanent)
	}
	if c.recall != nil && c.recall.inputErr != nil {
		return c.refuse(p, s, Result{Err: c.recall.inputErr, Stage: record.StageEntry}, record.ReasonPermanent)
	}
	if !c.guarded {
		return nil
	}
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: beforeFirst}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as in attempt
			before.close()
			_ = c.refuse(p, s, Result{Err: errGoexit, Stage: record.StagePrecondition, Panicked: true}, record.ReasonPanic)
		}
	}()
	r := &attempted{Result: c.typed.Require(before.context())}
	returned = true
	before.close()
	c.find(r)
	if in := before.inside.Load(); in != nil {
		s.inner().used.Store(in.used.Load())
		s.inner().spent.Store(in.spent.Load())
	}
	e := before.suspended()
	if e == nil {
		e = c.checkEnd(before)
	}
	switch {
	case e != nil:
		return c.suspend(p, s, r, e, record.StageEntry)
	case r.Err == nil:
		return c.checkpoint(p, s)
	}
	if e := c.parent.ending(); e != nil {
		return c.suspend(p, s, r, e, record.StageEntry)
	}
	if r.Panicked {
		return c.refuseAttempt(p, s, r, record.ReasonPanic)
	}
	return c.refuseAttempt(p, s, r, record.ReasonPrecondition)
}

// attempt makes one attempt and appends its end.
func (c *Call) attempt(p *record.Progress, s *Scope) error {
	if total := c.policy.RetryTimeout; s.attempt > 0 && total > 0 && p.Spent >= total { // the wait took longer than planned
		return c.failWaiting(p, s, p.Err, record.ReasonRetryTimeout)
	}
	began := time.Now()
	if err := c.appendStarted(p, s, began); err != nil {
		return err
	}
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		defer s.endGroup() // after settle, which reads the state of the context
	}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit: nobody receives the failure, but it is recorded
			c.settleGoexit(p, s, began)
		}
	}()
	var r attempted
	if ofRun, own := c.interceptors(); len(ofRun)+len(own) == 0 {
		r.Result = c.pass(s, began, p.Spent)
	} else {
		r = c.passIntercepted(s, began, p.Spent, ofRun, own)
	}
	returned = true
	c.find(&r)
	r.end(began)
	return c.settle(p, s, &r)
}

// settleGoexit settles an attempt whose handler ended its goroutine.
func (c *Call) settleGoexit(p *record.Progress, s *Scope, began time.Time) {
	s.close()
	r := attempted{Result: Result{Err: errGoexit, Stage: record.StageHandler, Panicked: true}}
	r.end(began)
	_ = c.settle(p, s, &r)
}

// pass runs the handler, the postconditions and artifact storage once.
func (c *Call) pass(s *Scope, began time.Time, spent time.Duration) Result {
	timeout, total := c.policy.timeout(c.spec, c.custom), c.policy.RetryTimeout
	if timeout != 0 || total != 0 {
		return c.passWithin(s, newTimespan(began, timeout, total, spent))
	}
	r := c.typed.Pass(s.context())
	s.close()
	return r
}

// settle decides what the end of the attempt means and appends it.
func (c *Call) settle(p *record.Progress, s *Scope, r *attempted) error {
	if s.isDoomed() {
		c.overdue(s, r)
	}
	if r.Err == nil && s.group != nil {
		r.replace(s.group.failure())
	}
	if e := c.suspension(s, r.Err); e != nil {
		return c.suspend(p, s, r, e, r.suspendedAt())
	}
	if e := c.checkEnd(s); e != nil {
		return c.suspend(p, s, r, e, r.suspendedAt())
	}
	if r.Err == nil {
		if c.policy.Polls {
			c.polled(s, &r.Result)
		}
	} else if c.find(r); r.traits.Interrupted || r.traits.Doubted {
		r.doubted = r.traits.Doubted && r.Stage == record.StageHandler && !c.spec.Kind.IsEntered()
		r.replace(&settledError{r.Err})
	}
	if r.Err == nil {
		return c.complete(p, s, r, "")
	}
	if r.doubted {
		if settled, err := c.settleDoubt(p, s, r); settled {
			return err
		}
	}
	f := c.classify(r)
	v := c.decide(p, s, &f)
	switch {
	case v.suspended != nil && !v.promised:
		return c.suspend(p, s, r, v.suspended, r.suspendedAt())
	case v.reason != record.ReasonNone:
		if !f.refused && f.Stage == record.StageHandler {
			if ended, err := c.lookUp(p, s, r); ended {
				return err
			}
		}
		return c.fail(p, s, &f, v.reason)
	}
	if err := c.retry(p, s, &f, v); err != nil || v.suspended == nil {
		return err
	}
	promised := &Scope{outer: s.outer, root: c.root, call: c, attempt: p.Attempt}
	return c.suspend(p, promised, nil, v.suspended, record.StageWait)
}

// retrace runs the handler of an attempt again that already has an outcome, and
// records nothing: its results come from the calls inside it.
func (c *Call) retrace(p *record.Progress, s *Scope) error {
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		s.group.recorded = true
		defer s.endGroup()
	}
	r := c.pass(s, time.Now(), 0)
	r.Err = finite(r.Err)
	if in := s.inside.Load(); in != nil {
		c.passOn(in)
	}
	e := c.suspension(s, r.Err)
	if e == nil {
		e = c.checkEnd(s)
	}
	if e != nil {
		c.parent.stop(e)
		return e
	}
	outcome, err := c.root.settings.History.Outcome(s)
	if err != nil {
		return c.halt(err)
	}
	var traced record.Record
	c.describe(&traced, record.StatusCompleted, s.attempt, time.Now())
	if r.Err != nil {
		traced.Status, traced.Err = record.StatusFailed, r.Err
	} else if r.Kept != nil {
		traced.Detail = &record.Detail{Output: r.Kept.Encoded, Artifact: r.Kept.Artifact}
	}
	if err := c.root.settings.History.Replay(s, &traced); err != nil {
		return c.halt(err)
	}
	switch {
	case outcome.Failed != nil:
		e := recordedFailure(outcome.Failed)
		if c.spec.Kind == record.KindGroup && r.Err != nil {
			e.Err = r.Err // the errors that the branches returned
		}
		return e
	case !p.HasOutput: // a group, a branch, or NoStore
		return r.Err
	}
	_, err = c.decode(outcome.Output)
	return err
}

// replay returns the recorded outcome. Nothing runs and nothing waits. Again is set
// if the call is to be made again, because its output cannot be read.
func (c *Call) replay(s *Scope) (again bool, err error) {
	outcome, err := c.root.settings.History.Outcome(s)
	if err != nil {
		return false, c.halt(err)
	}
	if outcome.Failed == nil {
		if again, err := c.decode(outcome.Output); again || err != nil {
			return again, err
		}
	}
	if err := c.root.settings.History.Replay(s, nil); err != nil {
		return false, c.halt(err)
	}
	if outcome.Failed != nil {
		return false, recordedFailure(outcome.Failed)
	}
	return false, nil
}

// decode makes the recorded output the output of the call. Again is set if the call is
// to be made again instead.
func (c *Call) decode(output []byte) (again bool, err error) {
	lost, err := c.typed.DecodeOutput(output)
	if err == nil && len(lost) == 0 {
		return false, nil
	}
	d := &DivergenceError{RunID: c.root.settings.RunID, How: "output", Address: c.address, Scope: c.scope.Path(), Ordinal: c.ordinal}
	if d.Recorded, d.Asked, d.Fields = "with these fields", "without them", lost; err != nil {
		d.Recorded, d.Asked = "another type", err.Error()
	}
	if again, err = c.root.settings.History.Differs(c.scope, d); err != nil {
		return false, c.halt(err)
	}
	return again, nil
}

// recordedFailure returns the error of a call from the record of its failure.
func recordedFailure(r *record.Record) *CallError {
	return &CallError{
		Address: r.Address, Name: r.Name, Stage: r.Stage,
		Attempts: r.TotalAttempts(), Reason: r.Reason, Detail: r.Message(), Err: r.Err,
	}
}

// halt suspends the call and everything around it because resuming went wrong.
// That is not a failure of the program and must not be recorded as one.
func (c *Call) halt(err error) error {
	e := c.parent.InterruptionBy(err)
	c.parent.stop(e)
	return e
}

// ownEnd returns the reason why a call fails whose own context has ended, and
// ReasonNone while the context has not ended.
func ownEnd(ctx context.Context) record.Reason {
	switch err := ctx.Err(); {
	case err == nil:
		return record.ReasonNone
	case is(err, context.DeadlineExceeded):
		return record.ReasonDeadline
	}
	return record.ReasonCanceled
}
