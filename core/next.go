package core

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// ErrNotRecorded is found in the error of a call that a strict replay would
// have had to execute.
var ErrNotRecorded = errors.New("core: the call has no recorded outcome, and a strict replay executes nothing")

// ErrNotStored is found in the error of a call that completed, and whose actor
// is marked NoStore: a strict replay does not execute it, and so cannot prove
// what it returned.
var ErrNotStored = errors.New("core: the call completed, but its output was not stored (NoStore); a strict replay executes nothing and cannot prove it")

// rules are what decides, beside its records, how a call goes on.
type rules struct {
	kind        record.Kind
	inDoubt     InDoubt
	maxAttempts int
	maxEntries  int
	strict      bool // nothing is executed, and nothing is waited for
}

// entriesUsed reports whether the attempt of an agent is not to be entered again.
func (r *rules) entriesUsed(p *record.Progress) bool {
	return r.maxEntries != Unlimited && int(p.Entries) >= cmp.Or(r.maxEntries, defaultMaxEntries)
}

// step is what a call does next.
type step struct {
	do      action
	attempt int32
	err     error // why the call fails or is refused
}

// action is the kind of a step.
type action uint8

const (
	doBegin   action = iota // run the preconditions and make the first attempt
	doMake                  // make the attempt
	doReturn                // return the recorded outcome
	doRetrace               // run the handler to have its results again, and record nothing
	doAsk                   // ask somebody what became of the attempt
	doFail                  // fail: the call is in doubt
	doRefuse                // refuse to run
)

// defaultMaxEntries is how often an attempt of an agent is entered without an
// outcome inside it. After that it is taken for what ends the process.
const defaultMaxEntries = 5

var (
	errEntries    = errors.New("the agent was entered again and again without getting any further")
	errMayHaveRun = errors.New("its handler had begun when the run stopped; whether it took effect is not known, and it asks not to be run again")
	errLeftBehind = errors.New("the process ended during the last attempt; whether the call took effect is not known")
)

// next is the one place that says how a call goes on, whether it begins, was
// restored, or has just failed an attempt.
func next(p *record.Progress, r rules) step {
	if p.Phase == record.PhaseSucceeded && (!p.NoStore || p.Retrace) || p.Phase == record.PhaseFailed {
		if p.Retrace || r.kind == record.KindGroup || r.kind == record.KindBranch && p.Phase == record.PhaseSucceeded {
			return step{do: doRetrace, attempt: p.Attempt}
		}
		return step{do: doReturn, attempt: p.Attempt}
	}
	if r.strict && !isEntered(r.kind) {
		if p.Phase == record.PhaseSucceeded {
			return step{do: doRefuse, err: ErrNotStored}
		}
		return step{do: doRefuse, err: ErrNotRecorded}
	}
	switch p.Phase {
	case record.PhaseNew:
		return step{do: doBegin}
	case record.PhaseSucceeded: // its output was not kept
		if isEntered(r.kind) {
			return step{do: doMake, attempt: p.Attempt}
		}
		return step{do: doMake}
	case record.PhaseRunning, record.PhaseStopped:
		return inDoubt(p, r)
	}
	return step{do: doMake, attempt: p.Attempt}
}

// inDoubt is the step of a call of which nobody knows whether its attempt took
// effect.
func inDoubt(p *record.Progress, r rules) step {
	same := step{do: doMake, attempt: p.Attempt}
	switch {
	case isEntered(r.kind):
		if r.kind == record.KindAgent && p.Phase == record.PhaseRunning && r.entriesUsed(p) {
			return step{do: doFail, attempt: p.Attempt, err: fmt.Errorf("%w (%d times)", errEntries, p.Entries)}
		}
		return same
	case r.inDoubt == InDoubtAsk:
		return step{do: doAsk, attempt: p.Attempt}
	case r.inDoubt == InDoubtFail:
		return step{do: doFail, attempt: p.Attempt, err: errMayHaveRun}
	case p.Phase == record.PhaseStopped:
		return same // an interrupt does not count
	case r.maxAttempts != Unlimited && int(p.Attempt)+1 >= r.maxAttempts:
		return step{do: doFail, attempt: p.Attempt, err: errLeftBehind}
	}
	return step{do: doMake, attempt: p.Attempt + 1}
}
