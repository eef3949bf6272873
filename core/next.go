package core

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// ErrNotRecorded is found in the error of a call that has no recorded outcome
// and that a strict replay would have to execute.
var ErrNotRecorded = errors.New("core: the call has no recorded outcome, and a strict replay executes nothing")

// ErrNotStored is found in the error of a call that completed and whose actor
// is marked NoStore. A strict replay does not execute such a call, so it cannot
// prove what the call returned.
var ErrNotStored = errors.New("core: the call completed, but its output was not stored (NoStore); a strict replay executes nothing and cannot prove it")

// step is what a call does next.
type step struct {
	do      action
	attempt int32
	err     error // doFail, doRefuse: why
}

// action is the kind of a step.
type action uint8

const (
	doBegin   action = iota // run the preconditions and make the first attempt
	doMake                  // make the attempt
	doReturn                // return the recorded outcome
	doRetrace               // run the handler again for its results, and record nothing
	doAsk                   // ask somebody whether the attempt took effect
	doFail                  // fail: the call is in doubt
	doRefuse                // refuse to run the call
)

// defaultMaxEntries is how often an attempt of an agent is entered without an
// outcome inside it. After that, it is assumed to crash the process.
const defaultMaxEntries = 5

var (
	errEntries    = errors.New("the agent was entered again and again without getting any further")
	errMayHaveRun = errors.New("its handler had begun when the run stopped; whether it took effect is not known, and it asks not to be run again")
	errLeftBehind = errors.New("the process ended during the last attempt; whether the call took effect is not known")
)

// next returns how the call continues: when it begins, when it was restored, and
// after a failed attempt. It depends on p and on what does not change during
// the call, and on nothing else.
func (c *call) next(p *record.Progress) step {
	kind := c.spec.Kind
	if p.Phase == record.PhaseSucceeded && (!p.NoStore || p.Retrace) || p.Phase == record.PhaseFailed {
		if p.Retrace || kind == record.KindGroup || kind == record.KindBranch && p.Phase == record.PhaseSucceeded {
			return step{do: doRetrace, attempt: p.Attempt}
		}
		return step{do: doReturn, attempt: p.Attempt}
	}
	if c.root.settings.Strict && !kind.IsEntered() {
		if p.Phase == record.PhaseSucceeded {
			return step{do: doRefuse, err: ErrNotStored}
		}
		return step{do: doRefuse, err: ErrNotRecorded}
	}
	switch p.Phase {
	case record.PhaseNew:
		return step{do: doBegin}
	case record.PhaseSucceeded: // its output was not kept
		if kind.IsEntered() {
			return step{do: doMake, attempt: p.Attempt}
		}
		return step{do: doMake}
	case record.PhaseRunning, record.PhaseStopped:
		return c.nextInDoubt(p)
	}
	return step{do: doMake, attempt: p.Attempt}
}

// nextInDoubt is the next step of a call whose attempt may or may not have taken
// effect.
func (c *call) nextInDoubt(p *record.Progress) step {
	same := step{do: doMake, attempt: p.Attempt}
	maxAttempts, maxEntries := c.policy.config.MaxAttempts, cmp.Or(c.root.settings.MaxEntries, defaultMaxEntries)
	switch {
	case c.spec.Kind == record.KindAgent && p.Phase == record.PhaseRunning && maxEntries != Unlimited && int(p.Entries) >= maxEntries:
		return step{do: doFail, attempt: p.Attempt, err: fmt.Errorf("%w (%d times)", errEntries, p.Entries)}
	case c.spec.Kind.IsEntered():
		return same
	case c.spec.InDoubt == InDoubtAsk:
		return step{do: doAsk, attempt: p.Attempt}
	case c.spec.InDoubt == InDoubtFail:
		return step{do: doFail, attempt: p.Attempt, err: errMayHaveRun}
	case p.Phase == record.PhaseStopped:
		return same // an interrupt does not count
	case maxAttempts != Unlimited && int(p.Attempt)+1 >= maxAttempts:
		return step{do: doFail, attempt: p.Attempt, err: errLeftBehind}
	}
	return step{do: doMake, attempt: p.Attempt + 1}
}
