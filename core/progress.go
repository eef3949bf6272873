package core

import (
	"errors"
	"fmt"
	"time"
)

// Progress is what the records of one call come to. The zero Progress is that
// of a call without records.
//
// A call that is running keeps one of itself, and a run that was restored has
// one for each call; both add records in the order in which they were
// appended.
type Progress struct {
	Phase   Phase
	NoStore bool // succeeded, and its output was not kept
	Retrace bool // it has an outcome, and its handler is to run again to compare

	Attempt int32 // the attempt that the call is at, or goes on with
	Starts  int32 // attempts that began, over all openings of the run
	Entries int32 // how often Attempt began since an outcome was recorded inside it
	Ordinal int32 // of its claim

	Spent time.Duration // on attempts and waits before Attempt
	Delay time.Duration // promised before Attempt
	Since time.Time     // when it was promised

	// Used is what was consumed before by the call, and inside it as far as that
	// is not recalled again. Nil for nothing.
	Used *Usage

	Input Hash   // the identity of its input; zero if it was not recorded
	Err   error  // of the attempt before Attempt
	Last  uint64 // the number of the latest record
}

// Phase is how far a call has come.
type Phase uint8

// The phases of a call.
const (
	PhaseNew       Phase = iota // no attempt began
	PhaseRunning                // an attempt began, and no record says how it ended
	PhaseWaiting                // another attempt was promised
	PhaseStopped                // the attempt was interrupted while its handler ran
	PhaseAsking                 // the handler of the attempt waits for an answer
	PhaseSucceeded              // the call completed
	PhaseFailed                 // the call failed for good
)

// HasOutcome reports whether the call has ended.
func (p *Progress) HasOutcome() bool { return p.Phase >= PhaseSucceeded }

// Add takes in the next record of the call.
func (p *Progress) Add(r *Record) {
	p.Last = r.Seq
	if r.Ordinal > 0 {
		p.Ordinal = int32(r.Ordinal)
	}
	if r.Detail != nil && !r.Detail.InputHash.IsZero() {
		p.Input = r.Detail.InputHash
	}
	switch r.Status {
	case StatusStarted:
		if p.Phase != PhaseRunning || p.Attempt != int32(r.Attempt) {
			p.Entries = 0
		}
		p.Phase, p.Attempt, p.Spent = PhaseRunning, int32(r.Attempt), r.Elapsed
		p.Starts++
		p.Entries++
	case StatusCompleted:
		p.Phase, p.Attempt = PhaseSucceeded, int32(r.Attempt)
		p.NoStore = r.Detail != nil && r.Detail.NoStore
	case StatusFailed:
		p.Phase, p.Attempt = PhaseFailed, int32(r.Attempt)
		if r.WillRetry {
			p.promise(r, r.Attempt+1)
		}
	case StatusRetrying:
		p.promise(r, r.Attempt)
	case StatusInterrupted, StatusAwaiting:
		p.stop(r)
	}
}

func (p *Progress) promise(r *Record, attempt int) {
	p.Phase, p.Attempt = PhaseWaiting, int32(attempt)
	p.Spent, p.Delay, p.Since, p.Err = r.Elapsed, r.Delay, r.Time, r.Err
}

// stop takes in a suspension. What stopped before an attempt, or in the wait
// for one, is where it was before: a doubt stays, and so does a promise.
func (p *Progress) stop(r *Record) {
	switch r.Stage {
	case StageWait:
		p.Spent = r.Elapsed
	case StageHandler:
		p.Phase, p.Attempt, p.Spent = PhaseStopped, int32(r.Attempt), r.Elapsed
		if r.Status == StatusAwaiting {
			p.Phase = PhaseAsking
		}
	}
}

// ErrNotRecorded is found in the error of a call that a strict replay would
// have had to execute.
var ErrNotRecorded = errors.New("core: the call has no recorded outcome, and a strict replay executes nothing")

// ErrNotStored is found in the error of a call that completed, and whose actor
// is marked NoStore: a strict replay does not execute it, and so cannot prove
// what it returned.
var ErrNotStored = errors.New("core: the call completed, but its output was not stored (NoStore); a strict replay executes nothing and cannot prove it")

// rules are what decides, beside its records, how a call goes on.
type rules struct {
	kind        Kind
	inDoubt     InDoubt
	maxAttempts int
	strict      bool // nothing is executed, and nothing is waited for
}

// step is what a call does next.
type step struct {
	do      action
	attempt int32
	after   time.Duration // the wait before it
	err     error         // why the call fails or is refused
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

// maxEntries is how often an attempt of an agent is entered without an outcome
// inside it. After that it is taken for what ends the process.
const maxEntries = 5

var (
	errEntries    = fmt.Errorf("the agent was entered again and again without getting any further (%d times)", maxEntries)
	errMayHaveRun = errors.New("its handler had begun when the run stopped; whether it took effect is not known, and it asks not to be run again")
	errLeftBehind = errors.New("the process ended during the last attempt; whether the call took effect is not known")
)

// next is the one place that says how a call goes on, whether it begins, was
// restored, or has just failed an attempt.
func (p *Progress) next(r rules, now time.Time) step {
	if p.Phase == PhaseSucceeded && (!p.NoStore || p.Retrace) || p.Phase == PhaseFailed {
		if p.Retrace || r.kind == KindGroup || r.kind == KindBranch && p.Phase == PhaseSucceeded {
			return step{do: doRetrace, attempt: p.Attempt}
		}
		return step{do: doReturn, attempt: p.Attempt}
	}
	if r.strict && !r.kind.isEntered() {
		if p.Phase == PhaseSucceeded {
			return step{do: doRefuse, err: ErrNotStored}
		}
		return step{do: doRefuse, err: ErrNotRecorded}
	}
	switch p.Phase {
	case PhaseNew:
		return step{do: doBegin}
	case PhaseSucceeded: // its output was not kept
		if r.kind.isEntered() {
			return step{do: doMake, attempt: p.Attempt}
		}
		return step{do: doMake}
	case PhaseWaiting:
		return step{do: doMake, attempt: p.Attempt, after: p.rest(r, now)}
	case PhaseRunning, PhaseStopped:
		return p.inDoubt(r)
	}
	return step{do: doMake, attempt: p.Attempt}
}

// rest is what is left of the promised delay. The time that no process waited
// counts as waited.
func (p *Progress) rest(r rules, now time.Time) time.Duration {
	if r.strict {
		return 0
	}
	return min(max(0, p.Delay-now.Sub(p.Since)), p.Delay)
}

// inDoubt is the step of a call of which nobody knows whether its attempt took
// effect.
func (p *Progress) inDoubt(r rules) step {
	same := step{do: doMake, attempt: p.Attempt}
	switch {
	case r.kind.isEntered():
		if r.kind == KindAgent && p.Phase == PhaseRunning && p.Entries >= maxEntries {
			return step{do: doFail, attempt: p.Attempt, err: errEntries}
		}
		return same
	case r.inDoubt == InDoubtAsk:
		return step{do: doAsk, attempt: p.Attempt}
	case r.inDoubt == InDoubtFail:
		return step{do: doFail, attempt: p.Attempt, err: errMayHaveRun}
	case p.Phase == PhaseStopped:
		return same // an interrupt does not count
	case r.maxAttempts != Unlimited && int(p.Attempt)+1 >= r.maxAttempts:
		return step{do: doFail, attempt: p.Attempt, err: errLeftBehind}
	}
	return step{do: doMake, attempt: p.Attempt + 1}
}
