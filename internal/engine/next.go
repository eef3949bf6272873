package engine

import (
	"errors"

	"github.com/reprise-go/reprise/record"
)

// Rules determine, together with the records of a call, what the call does next.
// They do not change while the call runs.
type Rules struct {
	Kind        record.Kind
	MaxAttempts int  // 0 or negative for no limit
	MaxLosses   int  // how often in a row an attempt may be lost; 0 or negative for no limit
	LossesCount bool // a lost attempt counts as failed

	InDoubt InDoubt // what happens to a call if an attempt may have taken effect; InDoubtDefault means InDoubtRetry

	Strict  bool // execute only agents, groups and branches
	Replays bool // the run is only being replayed
}

// A Step is the next step of a call.
type Step struct {
	Do      Action
	Attempt int32
	Err     error // the reason, for Fail and Refuse
}

// An Action is the kind of a step.
type Action uint8

// The kinds of steps.
const (
	Begin    Action = iota // run the preconditions and make the first attempt
	Make                   // make the attempt
	Return                 // return the recorded outcome
	Retrace                // run the handler again to get its results, without recording anything
	Ask                    // ask somebody whether the attempt took effect
	Fail                   // fail, because the call is in doubt
	StopLoop               // interrupt the run, because the call was lost too often
	Refuse                 // refuse to run the call
)

var (
	// ErrNotRecorded is core.ErrNotRecorded.
	ErrNotRecorded = errors.New("core: the call has no recorded outcome, and a strict replay executes nothing")

	// ErrNotStored is core.ErrNotStored.
	ErrNotStored = errors.New("core: the call completed, but its output was not stored (NoStore), and a strict replay cannot run it again")

	errMayHaveRun = errors.New("its handler had begun when the run stopped; it is not known whether the call took effect, and its actor asks not to run it again")
	errLeftBehind = errors.New("the process ended during the last attempt; it is not known whether the call took effect")
)

// Next returns the next step of a call whose progress is p. It is called when the call begins or
// has been restored, and after each failed attempt.
func Next(p *record.Progress, r Rules) Step {
	switch {
	case !p.HasOutcome():
	case p.Retrace || r.Kind == record.KindGroup || r.Kind == record.KindBranch && p.Phase == record.StateCompleted && !p.HasOutput:
		return Step{Do: Retrace, Attempt: p.Attempt}
	case p.Phase == record.StateFailed || !p.NoStore:
		return Step{Do: Return, Attempt: p.Attempt}
	}
	if r.Strict && !r.Kind.IsEntered() {
		if p.Phase == record.StateCompleted {
			return Step{Do: Refuse, Err: ErrNotStored}
		}
		return Step{Do: Refuse, Err: ErrNotRecorded}
	}
	switch p.Phase {
	case record.StateNew:
		return Step{Do: Begin}
	case record.StateCompleted: // its output was not stored
		if r.Kind.IsEntered() {
			return Step{Do: Make, Attempt: p.Attempt}
		}
		return Step{Do: Make}
	case record.StateRunning, record.StateStopped:
		return nextInDoubt(p, r)
	}
	return Step{Do: Make, Attempt: p.Attempt}
}

// nextInDoubt returns the next step of a call whose attempt may have taken effect, because it was
// interrupted, or lost when the process ended. If the attempt is made again, it keeps its number,
// unless losses count as failures.
func nextInDoubt(p *record.Progress, r Rules) Step {
	same := Step{Do: Make, Attempt: p.Attempt}
	switch {
	case r.Kind.IsParallel():
		return same
	case r.InDoubt == InDoubtAsk && !r.Kind.IsEntered():
		return Step{Do: Ask, Attempt: p.Attempt}
	case r.InDoubt == InDoubtFail && !r.Kind.IsEntered():
		return Step{Do: Fail, Attempt: p.Attempt, Err: errMayHaveRun}
	case p.Phase == record.StateStopped:
		return same
	case r.LossesCount && !r.Kind.IsEntered():
		if r.MaxAttempts > 0 && int(p.Attempt-p.First)+1 >= r.MaxAttempts {
			return Step{Do: Fail, Attempt: p.Attempt, Err: errLeftBehind}
		}
		return Step{Do: Make, Attempt: p.Attempt + 1}
	}
	if r.MaxLosses > 0 && int(p.Entries) >= r.MaxLosses && !r.Replays {
		return Step{Do: StopLoop, Attempt: p.Attempt}
	}
	return same
}
