package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Call is a call without its types. The call's progress is not stored here, but in the Progress
// of the call and in the results of the steps.
type Call struct {
	typed              Typed // the part of the call that knows the types
	spec               *Spec
	policy             *Policy
	hasOwnPolicy       bool        // the policy belongs to the event itself
	guarded            bool        // the actor has preconditions
	direct             bool        // claimed when executed, and counted as in progress
	counted            bool        // counted in claims.inProgress, which leaves out recalled calls
	overlaps           bool        // a call with the same name and input was in progress when this one was claimed
	claimed            bool        // claimed, but has no record yet
	keyed              atomic.Bool // the handler asked for the idempotency key
	compensable        bool        // the actor has a compensation
	compensableInDoubt bool        // the actor has a compensation for calls in doubt
	compensatesDoubt   bool        // the call compensates a call in doubt
	root               *Root
	parent             *Scope // scope around the call
	scope              *Scope // scope that numbered it: parent, or a scope around parent
	address            record.Address
	ordinal            int
	toolCall           string // the ID that the model gave the call; empty if no model requested it

	recall     *recall                     // nil if no results can be recalled
	identity   atomic.Pointer[record.Hash] // identity of the input, once it was requested
	guard      *Guard                      // what surrounds its attempts; nil if nothing does
	doubtEntry *completedCall              // the entry that causes the call to be undone if it ends in doubt; nil if there is none
	replaces   *record.Effect              // effect in doubt that the call replaces; nil if there is none

	inputInDoubt []byte // the recorded input, for the question that is asked if the call ends in doubt; nil if nobody is asked

	blockedBy *InterruptedError // why the call must not begin: its scope had stopped when it was claimed

	first Scope // scope of the first attempt made
}

// recall holds what is known about a call when it is claimed, in a run that can be resumed.
type recall struct {
	input    record.Hash      // identity of the input
	oldInput record.Hash      // identity in the old form, from before some values were encoded as JSON; zero if not computed
	inputErr error            // why input is not set
	found    *record.Progress // the progress that was recorded for the call; nil if there is none
	refused  error            // why the call must not begin
}

// execute makes the call, one step after the other, until it has an outcome or
// is suspended. Each step depends only on the records of the call so far, so a
// resumed call continues like one that never stopped.
func (c *Call) execute(first *Scope) error {
	defer c.leave(c.enter(first))
	if err := c.checkMayBegin(); err != nil {
		return err
	}
	var p record.Progress
	returned := false
	defer func() {
		if !returned && !p.HasOutcome() {
			c.abandon()
		}
	}()
	err := c.run(&p, first)
	returned = true
	return err
}

// run executes the steps of the call, starting at progress p.
func (c *Call) run(p *record.Progress, first *Scope) error {
	c.recallProgress(p)
	for s := first; ; s = nil {
		step := c.next(p)
		if step.Do == Return {
			again, err := c.replay(first)
			if !again {
				return c.undo(p, first, err)
			}
			*p, c.recall.found = record.Progress{}, nil
			continue
		}
		if s == nil {
			s = &Scope{outer: first.outer, root: c.root, call: c}
		}
		s.attempt = step.Attempt
		if step.Do == Make && p.Phase == record.StateWaiting {
			c.wait(p, s)
		}
		if err := c.take(p, s, step); err != nil || p.HasOutcome() {
			return c.undo(p, first, err)
		}
	}
}

// abandon suspends the scope around a call whose goroutine ended (runtime.Goexit) before the call
// had an outcome, for example in a RetryWhen function.
func (c *Call) abandon() {
	e := &InterruptedError{Reason: record.InterruptClosed, Cause: errGoexit}
	if c.isRoot() {
		c.root.refused.CompareAndSwap(nil, e)
	}
	c.parent.stop(e)
}

// enter counts a root call as being in progress. It returns the argument to pass to leave.
func (c *Call) enter(first *Scope) (free func()) {
	if c.isRoot() {
		c.root.active.Add(1)
	}
	return c.endWithScope(first)
}

// leave undoes the counting of enter and checkOverlap.
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

// isRoot reports whether the call is made outside any other call.
func (c *Call) isRoot() bool { return c.parent.call == nil && !c.root.isOutside() }

// recallProgress sets p to the recorded progress of the call.
func (c *Call) recallProgress(p *record.Progress) {
	if c.recall == nil || c.recall.found == nil || c.recall.found.Repeat {
		return
	}
	*p = *c.recall.found
	if p.Used != nil {
		c.spend(*p.Used)
	}
}

// take executes one step. The call has ended if take returns an error or p has an outcome.
func (c *Call) take(p *record.Progress, s *Scope, step Step) error {
	switch step.Do {
	case Refuse:
		return markPermanent(fmt.Errorf("%s: %w", c.address, step.Err))
	case Retrace:
		return c.retrace(p, s)
	}
	if p.Phase == record.StateWaiting {
		if err := c.endWait(p, s); err != nil {
			return err
		}
	} else if err := c.checkpoint(p, s); err != nil {
		return err
	}
	repeats := c.repeatsDoubt(p)
	if step.Do == Fail || step.Do == Ask || repeats {
		if ended, err := c.lookUp(p, s, nil); ended {
			return err
		}
	}
	if repeats {
		c.warnRepeated()
	}
	switch step.Do {
	case Fail:
		return c.failInDoubt(p, s, step.Err)
	case Ask:
		return c.askInDoubt(p, s, nil)
	case StopLoop:
		return c.stopLoop(p, s)
	case Begin:
		if ended, err := c.takeEffect(p, s); ended || err != nil {
			return err
		}
		if err := c.checkPreconditions(p, s); err != nil {
			return err
		}
	}
	if p.Phase == record.StateCompleted { // the output was not stored, so make the call again
		p.Spent, p.Delay, p.Err = 0, 0, nil
	}
	return c.attempt(p, s)
}

// checkMayBegin returns an error if the call must not begin.
func (c *Call) checkMayBegin() error {
	switch {
	case c.parent.Closed():
		return ErrAttemptOver
	case c.blockedBy != nil:
		if c.parent.call == nil {
			c.root.refused.CompareAndSwap(nil, c.blockedBy)
		}
		c.parent.stop(c.blockedBy)
		return c.blockedBy
	case c.recall != nil && c.recall.refused != nil:
		return c.halt(c.recall.refused)
	case c.compensable:
		return c.checkCompensation()
	}
	return nil
}

// checkPreconditions runs the preconditions, in a separate scope. They do not run again when the
// call is resumed, so they must not affect the numbers of the handler's calls. Goroutines that the
// preconditions started may still use that scope while the attempt runs.
func (c *Call) checkPreconditions(p *record.Progress, s *Scope) error {
	if c.policy.Err != nil {
		return c.refuse(p, s, Result{Err: c.policy.Err, Stage: record.StageDefinition}, record.ReasonPermanent)
	}
	if c.recall != nil && c.recall.inputErr != nil {
		return c.refuse(p, s, Result{Err: c.recall.inputErr, Stage: record.StageEntry}, record.ReasonPermanent)
	}
	if !c.guarded {
		return nil
	}
	before := &Scope{outer: s.outer, root: c.root, call: c, attempt: preconditionsAttempt}
	exit := errGoexit // the failure if the goroutine ends now; nil once user code can no longer end it
	defer func() {
		if exit != nil { // runtime.Goexit, as in attempt
			before.close()
			c.exit(p, s, c.refuse(p, s, Result{Err: exit, Stage: record.StagePrecondition, Panicked: true}, record.ReasonPanic))
		}
	}()
	r := &attemptEnd{Result: c.typed.Require(before.context())}
	exit = errGoexitInError
	before.close()
	c.find(r)
	exit = nil
	if in := before.state.Load(); in != nil {
		s.ensureState().used.Store(in.used.Load())
		s.ensureState().spent.Store(in.spent.Load())
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
	if e := c.parent.endCause(); e != nil {
		return c.suspend(p, s, r, e, record.StageEntry)
	}
	if r.Panicked {
		return c.refuseAttempt(p, s, r, record.ReasonPanic)
	}
	return c.refuseAttempt(p, s, r, record.ReasonPrecondition)
}

// attempt makes one attempt and appends the record of how it ended.
func (c *Call) attempt(p *record.Progress, s *Scope) error {
	if total := c.policy.RetryTimeout; s.attempt > 0 && total > 0 && p.Spent >= total { // the wait took longer than planned
		return c.failWaiting(p, s, p.Err, record.ReasonRetryTimeout)
	}
	began := time.Now()
	if err := c.appendStarted(p, s, began); err != nil {
		return err
	}
	if c.root.settings.Outputs {
		began = time.Now() // storing does not count against the time limits
	}
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		defer s.endGroup() // runs after settle, which reads the state of the context
	}
	exit := errGoexit // the failure if the goroutine ends now; nil once user code can no longer end it
	defer func() {
		if exit != nil { // runtime.Goexit
			c.settleGoexit(p, s, began, exit)
		}
	}()
	var r attemptEnd
	if ofRun, own := c.interceptors(); len(ofRun)+len(own) == 0 {
		r.Result = c.pass(s, began, p.Spent)
	} else {
		r = c.passIntercepted(s, began, p.Spent, ofRun, own)
	}
	exit = errGoexitInError
	c.find(&r)
	exit = nil
	r.end(began)
	return c.settle(p, s, &r)
}

// pass makes one pass: it runs the handler and the postconditions, and stores the artifact.
func (c *Call) pass(s *Scope, began time.Time, spent time.Duration) Result {
	timeout, total := c.policy.timeout(c.spec, c.hasOwnPolicy), c.policy.RetryTimeout
	if timeout != 0 || total != 0 {
		return c.passWithin(s, newTimespan(began, timeout, total, spent))
	}
	r := c.typed.Pass(s.context())
	s.close()
	return r
}

// settle decides the result of the attempt and appends its record.
func (c *Call) settle(p *record.Progress, s *Scope, r *attemptEnd) error {
	if s.hasMissedDeadline() {
		c.failOverdue(s, r)
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
			c.poll(s, &r.Result)
		}
	} else if c.find(r); r.traits.Interrupted || r.traits.MarkedInDoubt {
		r.reportedInDoubt = r.traits.MarkedInDoubt && r.Stage == record.StageHandler && !c.spec.Kind.IsEntered()
		r.replace(&settledError{r.Err})
	}
	if r.Err == nil {
		return c.complete(p, s, r, "")
	}
	if r.reportedInDoubt || c.mayHaveActed(r) {
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

// retrace runs the handler again for an attempt that has an outcome, without recording anything.
// The handler gets its results from the calls inside it.
func (c *Call) retrace(p *record.Progress, s *Scope) error {
	if c.spec.Kind == record.KindGroup {
		s.beginGroup()
		defer s.endGroup()
		s.group.recorded = true
		if p.Phase == record.StateFailed {
			recorded, err := c.root.settings.History.Outcome(s)
			if err != nil {
				return c.halt(err)
			}
			s.group.reason = recorded.Failed.Reason
		}
	}
	r := c.pass(s, time.Now(), 0)
	r.Err = replaceEndless(r.Err)
	if in := s.state.Load(); in != nil {
		c.passOnUsage(in)
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
		e := outcome.failure()
		if c.spec.Kind == record.KindGroup && r.Err != nil {
			e.addBranchErrors(r.Err)
		}
		return e
	case !p.HasOutput: // a group, a branch, or NoStore
		return r.Err
	}
	_, err = c.decode(outcome.Output)
	return err
}

// replay returns the recorded outcome without executing anything or waiting. again is set if the
// call must be made again because its output cannot be decoded.
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
		return false, outcome.failure()
	}
	return false, nil
}

// decode decodes the recorded output into the call's output. again is set if the call must be made
// again.
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

// failure returns the error of the call, which must have failed.
func (o Outcome) failure() *CallError {
	e := RecordedFailure(o.Failed)
	e.note = o.Note
	return e
}

// RecordedFailure returns a failed call's error, given the record of its failure.
func RecordedFailure(r *record.Record) *CallError {
	return &CallError{
		Address: r.Address, Name: r.Name, Stage: r.Stage,
		Attempts: r.TotalAttempts(), Reason: r.Reason, Detail: r.Message(), Err: r.Err,
	}
}

// halt suspends the call and everything around it because the run cannot be resumed
// correctly. This is not a failure of the program, and must not be recorded as one.
func (c *Call) halt(err error) error {
	e := c.parent.InterruptionBy(err)
	if c.isRoot() { // the call may have no record in this opening
		c.root.refused.CompareAndSwap(nil, e)
	}
	c.parent.stop(e)
	return e
}

// ownEnd returns the reason for the failure of a call whose own context has ended, or
// ReasonNone if the context has not ended.
func ownEnd(ctx context.Context) record.Reason {
	switch err := ctx.Err(); {
	case err == nil:
		return record.ReasonNone
	case safeIs(err, context.DeadlineExceeded):
		return record.ReasonDeadline
	}
	return record.ReasonContextCanceled
}
