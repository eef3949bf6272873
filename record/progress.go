package record

import (
	"errors"
	"reflect"
	"time"
)

// Progress is the state of one call according to its records. The zero Progress
// is the state of a call without records.
//
// A running call has a Progress, and a restored run has a Progress for each call. In both cases,
// records are added in the order in which they were appended.
type Progress struct {
	Phase     State // according to the records of the call alone
	NoStore   bool  // the call completed, and its output was not kept
	HasOutput bool  // the call completed, and its output is recorded
	Retrace   bool  // the call has an outcome, and its handler runs again to compare the calls that it makes
	Repeat    bool  // the call has an outcome, and is made from the beginning to compare the calls that it makes
	Again     bool  // the call failed for good and is being tried again
	Parked    bool  // the run was parked until Attempt is due; Spent includes the whole Delay
	CutOff    bool  // an attempt that has ended may have taken effect; see InDoubt

	Attempt int32 // the current attempt, or the one with which the call continues
	First   int32 // the attempt from which attempts are counted; above 0 for a call that was undone and is made again
	Starts  int32 // attempts that have begun, over all openings of the run
	Entries int32 // how often in a row Attempt began and was lost, including a start that still runs
	Ordinal int32 // from the call's claim

	Spent time.Duration // time spent on attempts and waits before Attempt
	Delay time.Duration // planned wait before Attempt
	Since time.Time     // when Delay began

	// Used is what the call has already consumed. It includes what the calls inside it have
	// consumed, if their outcomes will not be restored. Used is nil if nothing was consumed.
	Used *Usage

	Input       Hash   // the identity of the input; zero if it was not recorded
	Fingerprint []byte // fingerprint of an output that was not kept; see Detail.Fingerprint
	Err         error  // error of the attempt before Attempt
	Last        uint64 // the number of the latest record
}

// HasOutcome reports whether the call has ended.
func (p *Progress) HasOutcome() bool { return p.Phase >= StateCompleted }

// InDoubt reports whether the call may have taken effect although it did not complete, because one
// of its attempts is running or was cut off. An attempt was cut off if
//   - the process ended or the run was interrupted while its handler ran;
//   - it timed out (the timeout may be the handler's own), its context ended, or it panicked;
//   - a postcondition refused the handler's output, or the output could not be kept; or
//   - its error is [ErrInDoubt].
//
// If the handler of an attempt returned any other error, the attempt was not cut off.
func (p *Progress) InDoubt() bool {
	return p.CutOff || p.Phase == StateRunning || p.Phase == StateStopped
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
		if p.Phase != StateRunning || p.Attempt != int32(r.Attempt) {
			p.Entries = 0
		}
		if p.HasOutcome() {
			p.First = 0
			if int32(r.Attempt) > p.Attempt { // otherwise, the call begins again or continues
				p.First = int32(r.Attempt)
			}
		}
		p.CutOff = p.InDoubt() // no record says how the previous attempt ended
		p.Phase, p.Attempt, p.Spent, p.Parked, p.Again = StateRunning, int32(r.Attempt), r.Elapsed, false, false
		p.Starts++
		p.Entries++
	case StatusCompleted:
		p.Phase, p.Attempt, p.CutOff = StateCompleted, int32(r.Attempt), false
		p.NoStore = r.Detail != nil && r.Detail.NoStore
		if p.NoStore {
			p.Fingerprint = r.Detail.Fingerprint
		}
		p.HasOutput = r.Detail != nil && (len(r.Detail.Output) > 0 || r.Detail.Artifact != "")
	case StatusFailed:
		p.CutOff = p.CutOff || p.Phase == StateStopped || p.Phase == StateRunning && r.isCutOff()
		p.Phase, p.Attempt = StateFailed, int32(r.Attempt)
		if r.WillRetry {
			p.promise(r, r.Attempt+1)
		}
	case StatusRetrying:
		before := p.Err
		if p.promise(r, r.Attempt); before != nil {
			p.Err = before // the failed record contains more information about the error
		}
	case StatusInterrupted, StatusAwaiting:
		p.stop(r)
	}
}

// isCutOff reports whether the attempt that failed with r was cut off, as [Progress.InDoubt] describes.
func (r *Record) isCutOff() bool {
	if r.Stage != StageHandler {
		return true // the handler had returned, or nothing is known about it
	}
	switch r.Class {
	case ClassTimeout, ClassCanceled, ClassPanic:
		return true
	}
	return r.Reason == ReasonInDoubt || isInDoubt(r.Err)
}

// isInDoubt reports whether errors.Is finds [ErrInDoubt] in err. It returns false if a method of an
// error panics.
func isInDoubt(err error) (is bool) {
	if kept, ok := err.(*frozenError); ok && kept.hasTraits { //nolint:errorlint // err itself, not one that it wraps
		return kept.traits.InDoubt
	}
	if reflect.TypeOf(err) == plainType { // Keep returns such errors
		return err == ErrInDoubt //nolint:errorlint // it wraps nothing
	}
	defer func() { _ = recover() }()
	return errors.Is(err, ErrInDoubt)
}

// promise records that the given attempt follows after the delay in r.
func (p *Progress) promise(r *Record, attempt int) {
	p.Phase, p.Attempt = StateWaiting, int32(attempt)
	p.Spent, p.Delay, p.Since, p.Err, p.Parked = r.Elapsed, r.Delay, r.Time, r.Err, false
}

// stop adds a suspension. A call that stopped before an attempt, or while it waited for one, keeps
// its phase: it may still be in doubt or have a planned attempt.
func (p *Progress) stop(r *Record) {
	switch r.Stage {
	case StageWait:
		p.Spent, p.Parked = r.Elapsed, r.Status == StatusAwaiting
		if p.Parked && p.Phase == StateRunning { // by an interceptor: the attempt is made when the delay has passed
			p.Phase, p.Attempt, p.Delay = StateWaiting, int32(r.Attempt), r.Delay
		}
		if p.Parked && r.Delay > 0 { // r.Delay is the rest of the delay at the time of the record
			p.Since = r.Time.Add(r.Delay - p.Delay)
		}
	case StageIntercept: // the attempt had no effect
		p.Phase, p.Attempt, p.Spent = StateHeld, int32(r.Attempt), r.Elapsed
	case StageHandler:
		p.Phase, p.Attempt, p.Spent = StateStopped, int32(r.Attempt), r.Elapsed
		if r.Status == StatusAwaiting {
			p.Phase = StateAsking
		}
	}
}
