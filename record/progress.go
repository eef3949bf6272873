package record

import (
	"errors"
	"time"
)

// Progress is the state of one call according to its records. The zero Progress
// is the state of a call without records.
//
// A call that is running has a Progress of its own, and a run that was restored
// has one for each call. Both add records in the order in which they were
// appended.
type Progress struct {
	Phase     Phase
	NoStore   bool // succeeded, and its output was not kept
	HasOutput bool // succeeded, and its output is on record
	Retrace   bool // the call has an outcome, and its handler runs again to compare
	Repeat    bool // the call has an outcome, and is made from the beginning to compare
	Again     bool // the call failed for good, and is tried again
	Parked    bool // the run was parked until Attempt is due; Spent includes the whole Delay
	CutOff    bool // an attempt that ended may have taken effect, see InDoubt

	Attempt int32 // the attempt that the call is at, or continues with
	Starts  int32 // attempts that began, over all openings of the run
	Entries int32 // how often in a row Attempt began and was lost, and the start that runs
	Ordinal int32 // of the claim of the call

	Spent time.Duration // on attempts and waits before Attempt
	Delay time.Duration // planned before Attempt
	Since time.Time     // when Delay began

	// Used is what was consumed before by the call, and by the calls inside it
	// that are not recalled again. Nil for nothing.
	Used *Usage

	Input       Hash   // the identity of the input; zero if it was not recorded
	Fingerprint []byte // of the output, if it was not kept: see Detail.Fingerprint
	Err         error  // of the attempt before Attempt
	Last        uint64 // the number of the latest record
}

// Phase is how far a call has come.
type Phase uint8

// The phases of a call.
const (
	PhaseNew       Phase = iota // no attempt began
	PhaseRunning                // an attempt began, and no record says how it ended
	PhaseWaiting                // another attempt is planned
	PhaseStopped                // the attempt was interrupted while its handler ran
	PhaseAsking                 // the handler of the attempt waits for an answer
	PhaseHeld                   // the attempt was interrupted before its handler ran
	PhaseSucceeded              // the call completed
	PhaseFailed                 // the call failed for good
)

// HasOutcome reports whether the call has ended.
func (p *Progress) HasOutcome() bool { return p.Phase >= PhaseSucceeded }

// InDoubt reports whether the call may have taken effect although it did not
// complete: an attempt of it runs, or was cut off. An attempt is cut off if the
// process ended or the run was interrupted while its handler ran; by a timeout,
// also one of the handler's own; by the end of its context; by a panic; and if its
// handler returned, and its output was refused by a postcondition or could not be
// kept, or its error is [ErrInDoubt]. An attempt whose handler returned any other
// error is not.
func (p *Progress) InDoubt() bool {
	return p.CutOff || p.Phase == PhaseRunning || p.Phase == PhaseStopped
}

// Add adds the next record of the call.
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
		p.CutOff = p.InDoubt() // the attempt before it has no end
		p.Phase, p.Attempt, p.Spent, p.Parked, p.Again = PhaseRunning, int32(r.Attempt), r.Elapsed, false, false
		p.Starts++
		p.Entries++
	case StatusCompleted:
		p.Phase, p.Attempt, p.CutOff = PhaseSucceeded, int32(r.Attempt), false
		p.NoStore = r.Detail != nil && r.Detail.NoStore
		if p.NoStore {
			p.Fingerprint = r.Detail.Fingerprint
		}
		p.HasOutput = r.Detail != nil && (len(r.Detail.Output) > 0 || r.Detail.Artifact != "")
	case StatusFailed:
		p.CutOff = p.CutOff || p.Phase == PhaseStopped || p.Phase == PhaseRunning && r.isCutOff()
		p.Phase, p.Attempt = PhaseFailed, int32(r.Attempt)
		if r.WillRetry {
			p.promise(r, r.Attempt+1)
		}
	case StatusRetrying:
		before := p.Err
		if p.promise(r, r.Attempt); before != nil {
			p.Err = before // the failed record has more of the error
		}
	case StatusInterrupted, StatusAwaiting:
		p.stop(r)
	}
}

// isCutOff reports whether the failure that r records is not the word of the handler.
func (r *Record) isCutOff() bool {
	if r.Stage != StageHandler {
		return true // it had returned, or nothing is known of it
	}
	switch r.Class {
	case ClassTimeout, ClassCanceled, ClassPanic:
		return true
	}
	return r.Reason == ReasonInDoubt || isInDoubt(r.Err)
}

// isInDoubt is errors.Is for [ErrInDoubt], and false for an error whose methods panic.
func isInDoubt(err error) (is bool) {
	if kept, ok := err.(*frozenError); ok && kept.isFound { //nolint:errorlint // itself
		return kept.found.InDoubt
	}
	defer func() { _ = recover() }()
	return errors.Is(err, ErrInDoubt)
}

func (p *Progress) promise(r *Record, attempt int) {
	p.Phase, p.Attempt = PhaseWaiting, int32(attempt)
	p.Spent, p.Delay, p.Since, p.Err, p.Parked = r.Elapsed, r.Delay, r.Time, r.Err, false
}

// stop adds a suspension. A call that stopped before an attempt, or while it
// waited for one, keeps its phase: it may still be in doubt or have another
// attempt planned.
func (p *Progress) stop(r *Record) {
	switch r.Stage {
	case StageWait:
		p.Spent, p.Parked = r.Elapsed, r.Status == StatusAwaiting
		if p.Parked && p.Phase == PhaseRunning { // by an interceptor: the attempt is made when the time has passed
			p.Phase, p.Attempt, p.Delay = PhaseWaiting, int32(r.Attempt), r.Delay
		}
		if p.Parked && r.Delay > 0 { // the rest of the delay, by the clock of the record
			p.Since = r.Time.Add(r.Delay - p.Delay)
		}
	case StageIntercept: // nothing of the attempt took effect
		p.Phase, p.Attempt, p.Spent = PhaseHeld, int32(r.Attempt), r.Elapsed
	case StageHandler:
		p.Phase, p.Attempt, p.Spent = PhaseStopped, int32(r.Attempt), r.Elapsed
		if r.Status == StatusAwaiting {
			p.Phase = PhaseAsking
		}
	}
}
