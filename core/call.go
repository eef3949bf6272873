package core

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// call is one call, without its types. It does not change while the call is
// made: what happens is in its Progress, and in the results that the steps
// return.
type call struct {
	typed       typed // what needs the types
	spec        *Spec
	policy      *Policy
	custom      bool // the policy is the event's own
	guarded     bool // it has preconditions
	direct      bool // it is claimed when it is executed, and counted
	claimed     bool // and it has no record yet
	compensable bool // its actor has a compensation
	root        *Root
	parent      *Scope // around the call
	scope       *Scope // that numbered it; parent, or around that
	address     record.Address
	ordinal     int

	recall *recall           // nil where nothing is to be recalled
	guard  *guard            // what its attempts wait for, and what may refuse them; nil for nothing
	off    *InterruptedError // the scope around it had stopped or ended when it was claimed
}

// recall is what is known of a call when it is claimed, in a run whose records
// are kept to be resumed.
type recall struct {
	input    record.Hash      // the identity of the input
	inputErr error            // why there is none
	found    *record.Progress // what was recorded; nil for nothing
	refused  error            // why the call must not begin
}

// execute makes the call: one step after the other until it has an outcome or
// is suspended. What comes next depends on nothing but what its records come
// to, so that a call which is resumed goes on like one that never stopped.
func (c *call) execute(first *Scope) error {
	defer c.leaveDirect()
	defer c.rejoin(first)()
	if c.parent.call == nil && !c.root.isOutside() {
		c.root.active.Add(1)
		defer c.root.leave()
	}
	if err := c.mayBegin(); err != nil {
		return err
	}
	var p record.Progress
	if c.recall != nil && c.recall.found != nil {
		p = *c.recall.found
		if p.Used != nil {
			c.spend(*p.Used)
		}
	}
	for s := first; ; s = nil {
		step := c.next(&p)
		if step.do == doReturn {
			return c.undo(&p, first, c.replay(first))
		}
		if s == nil {
			s = &Scope{outer: first.outer, root: c.root, call: c}
		}
		s.attempt = step.attempt
		if err := c.take(&p, s, step); err != nil || p.HasOutcome() {
			return c.undo(&p, first, err)
		}
	}
}

// take takes one step. The call has ended when it returns an error or p has an
// outcome.
func (c *call) take(p *record.Progress, s *Scope, step step) error {
	switch step.do {
	case doRefuse:
		return Permanent(fmt.Errorf("%s: %w", c.address, step.err))
	case doRetrace:
		return c.retrace(s)
	}
	if p.Phase == record.PhaseWaiting && s.attempt > 0 {
		if err := c.wait(p, s); err != nil {
			return err
		}
	} else if err := c.checkpoint(p, s); err != nil {
		return err
	}
	switch step.do {
	case doFail:
		return c.failInDoubt(p, s, step.err)
	case doAsk:
		return c.askInDoubt(p, s)
	case doBegin:
		if err := c.precede(p, s); err != nil {
			return err
		}
	}
	if p.Phase == record.PhaseSucceeded { // its output was not kept: it is made anew
		p.Spent, p.Delay, p.Err = 0, 0, nil
	}
	return c.attempt(p, s)
}

// mayBegin returns the error of a call that must not.
func (c *call) mayBegin() error {
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

// precede runs the preconditions, in a scope of their own: they do not run
// again when the call is resumed, and so must number no call of its handler.
// What they left behind may still use that scope when the attempt begins.
func (c *call) precede(p *record.Progress, s *Scope) error {
	if c.policy.err != nil {
		return c.refuse(p, s, result{err: c.policy.err, stage: record.StageDefinition}, record.ReasonPermanent)
	}
	if c.recall != nil && c.recall.inputErr != nil {
		return c.refuse(p, s, result{err: c.recall.inputErr, stage: record.StageEntry}, record.ReasonPermanent)
	}
	if !c.guarded {
		return nil
	}
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: beforeFirst}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as in attempt
			before.close()
			_ = c.refuse(p, s, result{err: errGoexit, stage: record.StagePrecondition, panicked: true}, record.ReasonPanic)
		}
	}()
	r := c.typed.require(before.context())
	returned = true
	r.err = finite(r.err)
	before.close()
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
		return c.suspend(p, s, attempted{result: r}, e, record.StageEntry)
	case r.err == nil:
		return c.checkpoint(p, s)
	}
	if e := c.parent.ending(); e != nil {
		return c.suspend(p, s, attempted{result: r}, e, record.StageEntry)
	}
	if r.panicked {
		return c.refuse(p, s, r, record.ReasonPanic)
	}
	return c.refuse(p, s, r, record.ReasonPrecondition)
}

// attempt makes one attempt and appends what became of it.
func (c *call) attempt(p *record.Progress, s *Scope) error {
	if total := c.policy.config.RetryTimeout; s.attempt > 0 && total > 0 && p.Spent >= total { // the wait took longer than it should
		before := &Scope{outer: s.outer, root: c.root, call: c, attempt: s.attempt - 1}
		return c.fail(p, before, classify(attempted{result: result{err: p.Err, stage: record.StageHandler}}), record.ReasonRetryTimeout)
	}
	began := time.Now()
	if err := c.appendStarted(p, s, began); err != nil {
		return err
	}
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		defer s.endGroup() // after settle, to which an ended context means something
	}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit: nobody gets the failure, but it is on record
			s.close()
			r := attempted{result: result{err: errGoexit, stage: record.StageHandler, panicked: true}}
			r.end(began)
			_ = c.settle(p, s, &r)
		}
	}()
	var r attempted
	if c.guard == nil {
		r.result = c.pass(s, began, p.Spent)
	} else {
		r.result = c.passGuarded(s, began, p.Spent)
	}
	returned = true
	r.end(began)
	return c.settle(p, s, &r)
}

// pass is one pass through handler, postconditions and artifact storage.
func (c *call) pass(s *Scope, began time.Time, spent time.Duration) result {
	timeout, total := c.policy.timeout(c.spec, c.custom), c.policy.config.RetryTimeout
	if timeout != 0 || total != 0 {
		return c.passWithin(s, newTimespan(began, timeout, total, spent))
	}
	r := c.typed.pass(s.context())
	s.close()
	return r
}

// settle decides what the end of an attempt means, and appends it.
func (c *call) settle(p *record.Progress, s *Scope, r *attempted) error {
	if s.isDoomed() {
		c.overdue(s, &r.result)
	}
	if r.err == nil && s.group != nil {
		r.err = s.group.failure()
	}
	if e := c.suspension(s, r.err); e != nil {
		return c.suspend(p, s, *r, e, record.StageHandler)
	}
	if e := c.checkEnd(s); e != nil {
		return c.suspend(p, s, *r, e, record.StageHandler)
	}
	if r.err == nil {
		if c.policy.config.RetryWhen != nil {
			c.polled(s, &r.result)
		}
	} else if IsSuspension(r.err) {
		r.err = &settledError{r.err}
	}
	if r.err == nil {
		return c.complete(p, s, r, "")
	}
	f := classify(*r)
	v := c.decide(p, s, &f)
	switch {
	case v.suspended != nil && !v.promised:
		return c.suspend(p, s, f.attempted, v.suspended, record.StageHandler)
	case v.reason != record.ReasonNone:
		return c.fail(p, s, f, v.reason)
	}
	if err := c.retry(p, s, f, v); err != nil || v.suspended == nil {
		return err
	}
	promised := &Scope{outer: s.outer, root: c.root, call: c, attempt: p.Attempt}
	return c.suspend(p, promised, attempted{}, v.suspended, record.StageWait)
}

// retrace runs the handler of an attempt again that has an outcome, and records
// nothing: its results come from the calls inside.
func (c *call) retrace(s *Scope) error {
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		s.group.recorded = true
		defer s.endGroup()
	}
	r := c.pass(s, time.Now(), 0)
	if in := s.inside.Load(); in != nil {
		c.passOn(in)
	}
	e := c.suspension(s, r.err)
	if e == nil {
		e = c.checkEnd(s)
	}
	if e != nil {
		c.parent.stop(e)
		return e
	}
	traced := c.record(record.StatusCompleted, s.attempt, time.Now())
	if r.err != nil {
		traced.Status, traced.Err = record.StatusFailed, r.err
	} else if r.kept != nil {
		traced.Detail = &record.Detail{Output: r.kept.encoded, Artifact: r.kept.artifact}
	}
	outcome, err := c.root.run.Replay(s, &traced)
	switch {
	case err != nil:
		return c.halt(err)
	case outcome.Status == record.StatusFailed:
		e := recordedFailure(&outcome)
		if c.spec.Kind == record.KindGroup && r.err != nil {
			e.Err = r.err // with what the branches really returned
		}
		return e
	case c.spec.Kind == record.KindGroup || c.spec.Kind == record.KindBranch || c.spec.NoStore:
		return r.err
	}
	return c.decode(&outcome)
}

// replay returns the recorded outcome: nothing runs and nothing waits.
func (c *call) replay(s *Scope) error {
	outcome, err := c.root.run.Replay(s, nil)
	if err != nil {
		return c.halt(err)
	}
	if outcome.Status == record.StatusFailed {
		return recordedFailure(&outcome)
	}
	return c.decode(&outcome)
}

// decode makes the recorded output that of the call.
func (c *call) decode(outcome *record.Record) error {
	lost, err := c.typed.decodeOutput(outcome.Encoded())
	if err != nil {
		return c.halt(&DecodeError{c.address, err})
	}
	if len(lost) == 0 {
		return nil
	}
	d := &DivergenceError{
		RunID: c.root.settings.RunID, How: "output", Address: c.address, Scope: c.scope.Path(), Ordinal: c.ordinal,
		Recorded: "with these fields", Asked: "without them", Fields: lost,
	}
	if err := c.root.run.Refuse(c.scope, d); err != nil {
		return c.halt(err)
	}
	return nil
}

// recordedFailure is the error of a call as it was when the record was made.
func recordedFailure(r *record.Record) *CallError {
	return &CallError{
		Address: r.Address, Name: r.Name, Stage: r.Stage,
		Attempts: r.TotalAttempts(), Reason: r.Reason, Detail: r.Message(), Err: r.Err,
	}
}

// halt suspends the call and what is around it: resuming went wrong, which is
// not a failure of the program and must not become one on record.
func (c *call) halt(err error) error {
	e := c.parent.interruptionBy(err)
	c.parent.stop(e)
	return e
}

// ownEnd is the reason that the end of the context given to a call is,
// ReasonNone while it goes on.
func ownEnd(ctx context.Context) record.Reason {
	switch err := ctx.Err(); {
	case err == nil:
		return record.ReasonNone
	case is(err, context.DeadlineExceeded):
		return record.ReasonDeadline
	}
	return record.ReasonCanceled
}
