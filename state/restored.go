package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// restoredRun holds what earlier generations of the run recorded: the state of each call, and the
// numbers of the records that contain the outcomes.
type restoredRun struct {
	found    *snapshot.Run
	ledger   record.Ledger
	calls    map[record.Address]*track
	inside   map[string]uint64 // latest start or outcome of a call inside an attempt, by the attempt's scope path
	ordinals ordinals
	refused  map[uint64]bool // generations that were refused because the program differed
	versions versions
	usage    usage
	values   byPath // values, by the call that wrote them
	all      byPath // every record; nil until the records inside a call are needed

	compensable map[record.Address][]completion // completions of each call that can be compensated, in order; the last may be in doubt
	compensates bool                            // a compensation is on record
	undone      map[record.Address]bool         // compensations that have completed
	claimed     map[string][]record.Address     // claimed calls, by the path of their scope; nil until needed
	hollow      map[record.Address]bool         // completed calls that contain compensated calls; nil until needed
	fork        record.Fork                     // what the parents of a fork did
	effects     effects

	preconditions map[record.Address][]uint64 // values, by the call whose preconditions wrote them
	questions     []uint64                    // questions and answers
	tracks        []track                     // preallocated tracks
	latest        *track                      // the track added or found last; a call has several records in a row
	latestAt      record.Address              // the address of latest

	opening map[string]any  // attributes of the latest opening that has any
	began   uint64          // the record with which the latest opening began
	retryTo uint64          // calls that failed up to this record number are tried again; 0 if none are
	handled handled         // which of these failures the program has handled
	closed  []closedOpening // openings that were closed, in order

	unclaimed bool // some calls are on record without their claims
	overlaps  overlaps

	diverged                bool     // some calls had different inputs and were made again
	restartsAfterDivergence restarts // calls that began again after a divergence; earlier values in them do not count
	restartsAfterCompletion restarts // completed calls that began again; their earlier values do not count
}

// closedOpening holds the numbers of the first and last records of an opening that was closed.
type closedOpening struct{ first, last uint64 }

// isInClosedOpening reports whether the record belongs to an opening that was closed, as opposed to
// one that ended in a crash.
func (r *restoredRun) isInClosedOpening(seq uint64) bool {
	i, _ := slices.BinarySearchFunc(r.closed, seq, func(c closedOpening, seq uint64) int { return cmp.Compare(c.last, seq) })
	return i < len(r.closed) && r.closed[i].first <= seq
}

// track holds the state of one call. Records are identified by their numbers; 0 means no record.
// The Progress does not change once all records have been read.
type track struct {
	record.Progress
	begun         uint64 // the first record
	first         uint64 // the first started record
	entered       uint64 // the latest started record
	whole         uint64 // the latest record with the hash of its whole input
	diverged      uint64 // the latest record that reports a divergence of the call
	ended         uint64 // the latest outcome
	completed     uint64 // the latest completed outcome
	outcome       uint64 // the latest outcome; 0 once a later record has replaced it
	failed        bool   // the outcome is a failure
	refuted       bool   // someone has answered that the call, which was in doubt, failed
	attempts      int32  // number of attempts begun, according to the highest attempt number
	kind          record.Kind
	claimed       bool // the claim of the call is recorded
	resumed       bool // the call was continued in this opening of the run
	asked         bool // in this opening of the run, the program has claimed the call
	toolCall      bool // a model requested the call
	afterReworded bool // as in the record that whole refers to; see record.Detail
	unchanged     bool // in this opening, the call was recalled for the request that is on record
}

// isClaimed reports whether the call's claim is recorded. The claims of an opening that was refused
// do not count.
func (t *track) isClaimed() bool { return t != nil && t.claimed }

// newRestoredRun restores the state of a run from its records. It rejects records that no run could
// have written.
func newRestoredRun(found *snapshot.Run) (*restoredRun, error) {
	r := &restoredRun{
		found: found, inside: make(map[string]uint64), ordinals: make(ordinals),
		calls: make(map[record.Address]*track, found.Len()/2), // most calls have two or more records
	}
	var last, generation uint64
	r.refused = make(map[uint64]bool)
	for rec, err := range found.Scan() {
		if err != nil {
			return nil, err
		}
		if last++; rec.Seq != last {
			return nil, fmt.Errorf("%w: record %d where record %d is expected", snapshot.ErrCorrupt, rec.Seq, last)
		}
		if rec.Attempt < 0 || rec.Attempt > math.MaxInt32 || rec.Delay < 0 || rec.Elapsed < 0 {
			return nil, fmt.Errorf("%w: record %d of %s has attempt %d, delay %v, elapsed %v", snapshot.ErrCorrupt, rec.Seq, rec.Address, rec.Attempt, rec.Delay, rec.Elapsed)
		}
		r.ledger.Add(rec)
		if rec.Generation != generation {
			r.voidRefused(generation)
			generation = rec.Generation
		}
		if isRefusal(rec) {
			r.refused[rec.Generation] = true
		}
		switch {
		case rec.Kind == record.KindRun && rec.Status == record.StatusStarted:
			r.began = rec.Seq
			if opened := openedWith(rec); opened != nil {
				r.opening = opened
			}
			if rec.Reason == record.ReasonRetry {
				r.retryTo = rec.Seq
			}
		case rec.Kind == record.KindRun:
			if rec.Detail != nil && rec.Detail.Fork != nil {
				r.fork = *rec.Detail.Fork
				r.effects.inherit(r.fork.Effects)
			}
			r.closed = append(r.closed, closedOpening{r.began, rec.Seq})
		case rec.Kind.IsCall():
			r.follow(rec)
			r.effects.follow(rec)
			r.effects.leftBy(rec)
		case rec.Kind == record.KindValue:
			r.followValue(rec)
		case rec.Kind == record.KindVersion:
			r.versions.add(rec)
		case rec.Kind == record.KindQuestion || rec.Kind == record.KindAnswer:
			r.questions = append(r.questions, rec.Seq)
			r.ordinals.addListed(rec)
		case rec.Kind == record.KindLog && rec.Reason == record.ReasonDivergence && rec.Detail != nil && !rec.Detail.InputHash.IsZero():
			r.followDivergence(rec)
		case rec.Kind == record.KindLog && rec.Reason == record.ReasonDivergence && rec.Ordinal > 0:
			r.ordinals.at(rec.Name).uncheck(rec.Ordinal) // no longer compared
		}
	}
	r.voidRefused(generation)
	r.versions.drop(r.refused, r.ordinals)
	r.dropReplaced()
	r.values.sort()
	r.tracks, r.latest = nil, nil
	return r, nil
}

func (r *restoredRun) follow(rec *record.Record) {
	t := r.track(rec.Address)
	switch {
	case t.claimed || rec.Kind == record.KindCompensation: // already added, or not claimed by a program
	case rec.Ordinal > 0:
		r.ordinals.add(rec)
		t.claimed = true
	default: // from a refused opening, in the run from which this one was forked
		r.unclaimed = true
	}
	r.ordinals.addListed(rec)
	r.usage.add(rec)
	if rec.Status == record.StatusCompleted && rec.Reason == record.ReasonDivergence && beginsAnew(rec) {
		r.beginAnew(rec, t)
	}
	if rec.Status == record.StatusStarted {
		if t.HasOutcome() && !t.NoStore { // what follows a call that was made again may differ
			r.ordinals.uncheckAfter(rec.Address, r.calls)
		}
		if rec.Reason == record.ReasonDivergence {
			r.beginAnew(rec, t)
		}
		if t.first == 0 {
			t.first = rec.Seq
			r.dropPreconditions(rec.Address, r.began) // the preconditions ran again in this opening
		}
		if rec.Detail != nil && rec.Detail.Overlaps {
			r.overlaps.add(rec)
		}
		if t.Phase == record.StateCompleted {
			r.restartsAfterCompletion.add(rec)
		}
		t.Progress = r.progressAtRest(t, rec.Address)
		r.startOver(t, rec)
		t.entered = rec.Seq
		if rec.Detail != nil && !rec.Detail.WholeInput.IsZero() {
			t.whole, t.afterReworded = rec.Seq, rec.Detail.AfterReworded
		}
	}
	r.loosenAfter(rec, t)
	if t.begun == 0 {
		t.begun = rec.Seq
	}
	t.kind = rec.Kind
	t.toolCall = t.toolCall || rec.Detail != nil && rec.Detail.ToolCall != ""
	t.Add(rec)
	t.followOutcome(rec)
	r.followCompensable(t, rec)
	if rec.IsOutcome() || rec.Status == record.StatusStarted {
		for scope := rec.Address.Scope(); scope != ""; scope = outerScope(scope) {
			r.inside[scope] = rec.Seq
		}
	}
}

// followOutcome updates the latest outcome and the number of attempts, which the method replace
// uses.
func (t *track) followOutcome(rec *record.Record) {
	if t.outcome = 0; rec.IsOutcome() {
		t.outcome, t.ended, t.failed = rec.Seq, rec.Seq, rec.Status == record.StatusFailed
		t.refuted = t.failed && engine.IsAnsweredFailed(rec.Err)
		if !t.failed {
			t.completed = rec.Seq
		}
	}
	if rec.Status == record.StatusStarted {
		t.attempts = max(t.attempts, int32(rec.Attempt)+1)
	}
}

// replace marks rec as replacing the call's outcome if rec is the call's first record after that
// outcome.
func (r *restoredRun) replace(rec *record.Record) {
	t := r.calls[rec.Address]
	if t == nil || t.outcome == 0 {
		return
	}
	replaced := &record.Replaced{Seq: t.outcome, Status: record.StatusCompleted, Attempts: int(t.attempts)}
	if t.failed {
		replaced.Status = record.StatusFailed
	}
	t.outcome = 0
	if rec.Detail == nil {
		rec.Detail = new(record.Detail)
	}
	rec.Detail.Replaces = replaced
}

// progressAtRest returns the progress of a call between two openings. If the run was closed
// normally, an attempt that was still running counts as stopped, not as lost. If another call began
// or ended inside an attempt, it was not that attempt itself that ended the process, so its losses
// are counted from zero again.
func (r *restoredRun) progressAtRest(t *track, a record.Address) record.Progress {
	p := t.Progress
	if p.Phase != record.StateRunning {
		return p
	}
	if r.isInClosedOpening(t.Last) {
		p.Phase, p.Entries = record.StateStopped, 0
	} else if r.inside[scopePath(a, int(p.Attempt))] > t.entered {
		p.Entries = 0
	}
	return p
}

// track returns the call's track, and creates it if there is none.
func (r *restoredRun) track(a record.Address) *track {
	if r.latest != nil && r.latestAt == a {
		return r.latest
	}
	t := r.calls[a]
	if t == nil {
		if len(r.tracks) == 0 {
			r.tracks = make([]track, chunkSize)
		}
		t, r.tracks = &r.tracks[0], r.tracks[1:]
		r.calls[a] = t
	}
	r.latest, r.latestAt = t, a
	return t
}

// progress returns the progress of the call at the given address, or nil if it has none. The result
// must not be changed.
func (r *restoredRun) progress(a record.Address) *record.Progress {
	return r.progressOf(r.calls[a], a)
}

// progressOf is like progress, but for a caller that already has the call's track. t is nil if the
// call has no track.
func (r *restoredRun) progressOf(t *track, a record.Address) *record.Progress {
	if t == nil || t.Last == 0 {
		return nil
	}
	if t.Phase == record.StateCompleted && r.usage.own == nil {
		return &t.Progress
	}
	p := r.progressAtRest(t, a)
	if r.isRetried(t, a) {
		t.retry(&p)
	}
	p.Used = r.usage.of(a, t, &p)
	return &p
}

// retry lets a call that failed for good run again. A call that makes other calls continues with
// its last attempt; any other call starts over.
func (t *track) retry(p *record.Progress) {
	p.Err, p.Spent, p.Delay, p.Again = nil, 0, 0, true
	p.CutOff = p.CutOff && !t.refuted
	switch {
	case t.first == 0:
		p.Phase = record.StateNew
	case t.kind.IsEntered():
		p.Phase, p.Entries = record.StateRunning, 0
	default:
		p.Phase, p.Attempt = record.StateWaiting, 0
	}
}

// recordsOf returns the records of the call and of all calls inside it, in order.
func (r *restoredRun) recordsOf(a record.Address) ([]record.Record, error) {
	if r.all == nil {
		for rec, err := range r.found.Records() {
			if err != nil {
				return nil, err
			}
			r.all = append(r.all, placedRecord{rec.Address.String(), rec.Seq})
		}
		r.all.sort()
	}
	var numbers []uint64
	for p := range r.all.within(a.String()) {
		numbers = append(numbers, p.seq)
	}
	slices.Sort(numbers)
	records := make([]record.Record, len(numbers))
	for i, seq := range numbers {
		var err error
		if records[i], err = r.found.Record(seq); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// scopePath returns the path of the scope that belongs to an attempt of the call at a.
func scopePath(a record.Address, attempt int) string { return pathOfAttempt(a.String(), attempt) }

// pathOfAttempt is scopePath for the call with the given path.
func pathOfAttempt(path string, attempt int) string {
	if attempt == 0 {
		return path
	}
	return fmt.Sprintf("%s@%d", path, attempt+1)
}

// outerScope returns the path of the scope around the call or branch to which the scope belongs.
// The path is empty if that scope is the run itself.
func outerScope(scope string) string { return scope[:max(strings.LastIndexByte(scope, '/'), 0)] }

// callOf returns the path of the call or branch to which the scope belongs.
func callOf(scope string) string {
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		return scope[:at]
	}
	return scope
}
