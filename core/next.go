package core

import (
	"cmp"
	"errors"

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
	doBegin    action = iota // run the preconditions and make the first attempt
	doMake                   // make the attempt
	doReturn                 // return the recorded outcome
	doRetrace                // run the handler again for its results, and record nothing
	doAsk                    // ask somebody whether the attempt took effect
	doFail                   // fail: the call is in doubt
	doSetAside               // interrupt the run: the call was lost too often
	doRefuse                 // refuse to run the call
)

// defaultMaxLosses is how often in a row an attempt may be lost. After that, it is
// assumed to end its process.
const defaultMaxLosses = 5

var (
	errMayHaveRun = errors.New("its handler had begun when the run stopped; whether it took effect is not known, and it asks not to be run again")
	errLeftBehind = errors.New("the process ended during the last attempt; whether the call took effect is not known")
)

// next returns how the call continues: when it begins, when it was restored, and
// after a failed attempt. It depends on p and on what does not change during
// the call, and on nothing else.
func (c *call) next(p *record.Progress) step {
	kind := c.spec.Kind
	switch {
	case !p.HasOutcome():
	case p.Retrace || kind == record.KindGroup || kind == record.KindBranch && p.Phase == record.PhaseSucceeded && !p.HasOutput:
		return step{do: doRetrace, attempt: p.Attempt}
	case p.Phase == record.PhaseFailed || !p.NoStore:
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
// effect: it was interrupted, or it was lost because the process ended. In both
// cases the attempt is made again under its own number.
func (c *call) nextInDoubt(p *record.Progress) step {
	same := step{do: doMake, attempt: p.Attempt}
	kind, config := c.spec.Kind, &c.policy.config
	switch {
	case kind.IsParallel():
		return same
	case c.spec.InDoubt == InDoubtAsk && !kind.IsEntered():
		return step{do: doAsk, attempt: p.Attempt}
	case c.spec.InDoubt == InDoubtFail && !kind.IsEntered():
		return step{do: doFail, attempt: p.Attempt, err: errMayHaveRun}
	case p.Phase == record.PhaseStopped:
		return same
	case config.LossesCount && !kind.IsEntered():
		if config.MaxAttempts != Unlimited && int(p.Attempt)+1 >= config.MaxAttempts {
			return step{do: doFail, attempt: p.Attempt, err: errLeftBehind}
		}
		return step{do: doMake, attempt: p.Attempt + 1}
	}
	if limit := c.maxLosses(); limit != Unlimited && int(p.Entries) >= limit && !c.root.settings.Replays {
		return step{do: doSetAside, attempt: p.Attempt}
	}
	return same
}

// maxLosses returns how often in a row the call may be lost.
func (c *call) maxLosses() int {
	return cmp.Or(c.policy.config.MaxLosses, c.root.settings.MaxLosses, defaultMaxLosses)
}
