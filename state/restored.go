package state

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// restored is what earlier generations of the run recorded, by call: where it
// is, and as little of it as finding that out takes.
type restored struct {
	found  *snapshot.Lazy
	calls  map[core.Address]*track
	inside map[string]uint64 // the last outcome recorded inside an attempt, by the path of its scope
	values byPath            // by the call that wrote them
	all    byPath            // every record; nil until somebody asks for what is inside a call
	groups groups            // nil until one is asked for

	preconditions map[core.Address][]uint64 // values, by the call whose preconditions wrote them
	questions     []uint64                  // and answers
	tracks        []track                   // room for the next

	diverged bool  // calls had other inputs, and were made again
	anew     begun // calls that count from there on, with what is inside them
	again    begun // calls that write their values again from there on
}

// track is what became of one call. Records are known by their numbers; 0
// stands for none.
type track struct {
	last      uint64    // the latest record
	retrying  uint64    // the latest promise of another attempt
	first     uint64    // the record that it began with
	diverged  uint64    // the latest record that it had another input
	input     core.Hash // zero if it was not kept
	entries   []uint64  // the started records of the latest attempt of an agent
	starts    int       // of attempts
	attempt   int       // of the latest record, as what follows
	kind      core.Kind
	status    core.Status
	willRetry bool
	doubt     doubt
	begun     bool
}

func (t *track) isOutcome() bool {
	return t.status == core.StatusCompleted || t.status == core.StatusFailed && !t.willRetry
}

// diverges reports whether the call was recorded with another input.
func (r *restored) diverges(a core.Address, input core.Hash) bool {
	t := r.calls[a]
	return t != nil && t.differs(input)
}

// newRestored refuses what no run has written.
func newRestored(found *snapshot.Lazy) (*restored, error) {
	r := &restored{
		found: found, inside: make(map[string]uint64),
		calls: make(map[core.Address]*track, found.Len()/2), // most have two records or more
	}
	last := uint64(0)
	for rec, err := range found.Heads() {
		if err != nil {
			return nil, err
		}
		if last++; rec.Seq != last {
			return nil, fmt.Errorf("%w: record %d comes as number %d", snapshot.ErrCorrupt, rec.Seq, last)
		}
		if rec.Attempt < 0 || rec.Attempt > math.MaxInt32 || rec.Delay < 0 || rec.Elapsed < 0 {
			return nil, fmt.Errorf("%w: record %d of %s has attempt %d, delay %v, elapsed %v", snapshot.ErrCorrupt, rec.Seq, rec.Address, rec.Attempt, rec.Delay, rec.Elapsed)
		}
		switch {
		case rec.Kind.IsCall():
			r.follow(rec)
		case rec.Kind == core.KindValue || rec.Kind == core.KindStepResult:
			r.followValue(rec)
		case rec.Kind == core.KindQuestion || rec.Kind == core.KindAnswer:
			r.questions = append(r.questions, rec.Seq)
		case rec.Kind == core.KindLog && rec.Reason == core.ReasonDivergence && !rec.InputHash.IsZero():
			r.followDivergence(rec)
		}
	}
	r.dropReplaced()
	r.values.sort()
	r.tracks = nil
	return r, nil
}

func (r *restored) follow(rec *snapshot.Head) {
	t := r.track(rec.Address)
	switch rec.Status {
	case core.StatusStarted:
		if rec.Reason == core.ReasonDivergence {
			r.beginAnew(rec, t)
		}
		if !t.begun {
			t.first = rec.Seq
		}
		if t.status == core.StatusCompleted {
			r.again.at(rec)
		}
		if t.status != core.StatusStarted || t.attempt != rec.Attempt {
			t.entries = nil
		}
		if rec.Kind == core.KindAgent {
			t.entries = append(t.entries, rec.Seq)
		}
		t.begun = true
		t.starts++
		if !rec.InputHash.IsZero() {
			t.input = rec.InputHash
		}
	case core.StatusRetrying:
		t.retrying = rec.Seq
	}
	t.doubt = t.doubt.after(&rec.Record)
	t.last, t.attempt, t.kind, t.status, t.willRetry = rec.Seq, rec.Attempt, rec.Kind, rec.Status, rec.WillRetry
	if rec.IsOutcome() {
		t.retrying = 0
		for scope := rec.Address.Scope(); scope != ""; scope = outer(scope) {
			r.inside[scope] = rec.Seq
		}
	}
}

// track is that of the call.
func (r *restored) track(a core.Address) *track {
	t := r.calls[a]
	if t == nil {
		if len(r.tracks) == 0 {
			r.tracks = make([]track, chunkSize)
		}
		t, r.tracks = &r.tracks[0], r.tracks[1:]
		r.calls[a] = t
	}
	return t
}

// maxEntries is how often an attempt of an agent is entered again without an
// outcome inside it: after that it is what ends the process.
const maxEntries = 5

var errEntries = errors.New("the agent was entered again and again without getting any further")

// recall is what is known of the call at the address.
func (r *restored) recall(a core.Address, kind core.Kind, rerunFailed bool) (*core.Recalled, error) {
	t := r.calls[a]
	switch {
	case t == nil || t.last == 0:
		return nil, nil
	case t.status == core.StatusFailed && !t.willRetry && rerunFailed:
		return t.rerun(kind), nil
	case t.isOutcome():
		return r.outcome(t, kind)
	}
	var err error
	var retrying core.Record
	if t.retrying > 0 {
		if retrying, err = r.found.Record(t.retrying); err != nil {
			return nil, err
		}
	}
	out := &core.Recalled{Begun: t.begun, Attempt: t.attempt, Starts: t.starts}
	if t.doubt == doubtStarted {
		out.Started = true
		out.Spent = retrying.Elapsed + retrying.Delay
		out.LastErr = retrying.Err
		if kind == core.KindAgent && r.entriesSince(a, t) >= maxEntries {
			out.InDoubt = fmt.Errorf("%w (%d times)", errEntries, maxEntries)
		}
		return out, nil
	}
	last, err := r.found.Record(t.last)
	if err != nil {
		return nil, err
	}
	out.Spent = last.Elapsed
	out.Entered = t.doubt == doubtInterrupted
	if retrying.Attempt == t.attempt && retrying.Seq > 0 {
		// The time that the process was down counts as waited.
		out.Delay, out.LastErr = retrying.Delay, retrying.Err
		out.Wait = min(max(0, time.Until(retrying.NextAttemptAt())), retrying.Delay)
	}
	return out, nil
}

// outcome answers a call that has ended; one whose output was not kept is made
// again.
func (r *restored) outcome(t *track, kind core.Kind) (*core.Recalled, error) {
	both := new(struct { // of one allocation
		core.Recalled
		outcome core.Record
	})
	var err error
	if both.outcome, err = r.found.Record(t.last); err != nil {
		return nil, err
	}
	if t.status == core.StatusCompleted && isNoStore(&both.outcome) {
		again := t.rerun(kind)
		again.NotStored = true
		return again, nil
	}
	both.Recalled = core.Recalled{Begun: t.begun, Attempt: t.attempt, Starts: t.starts, Outcome: &both.outcome}
	return &both.Recalled, nil
}

// rerun sets up a call that failed for good to try once more: what calls
// others is entered again as its last attempt, everything else begins anew.
func (t *track) rerun(kind core.Kind) *core.Recalled {
	if kind == core.KindAgent && t.begun {
		return &core.Recalled{Begun: true, Started: true, Attempt: t.attempt, Spent: 0}
	}
	return &core.Recalled{Begun: t.begun}
}

// entriesSince counts how often the latest attempt was entered since an
// outcome was last recorded inside it.
func (r *restored) entriesSince(a core.Address, t *track) int {
	last := r.inside[scopePath(a, t.attempt)]
	n := 0
	for _, seq := range t.entries {
		if seq > last {
			n++
		}
	}
	return n
}

// recordsOf are the records of the call and those inside it, in order.
func (r *restored) recordsOf(a core.Address) ([]core.Record, error) {
	if r.all == nil {
		for rec, err := range r.found.Heads() {
			if err != nil {
				return nil, err
			}
			r.all = append(r.all, placed{rec.Address.String(), rec.Seq})
		}
		r.all.sort()
	}
	var numbers []uint64
	for p := range r.all.within(a.String()) {
		numbers = append(numbers, p.seq)
	}
	slices.Sort(numbers)
	records := make([]core.Record, len(numbers))
	for i, seq := range numbers {
		var err error
		if records[i], err = r.found.Record(seq); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// scopePath is what stands before the names of calls made by an attempt of the
// call at a.
func scopePath(a core.Address, attempt int) string {
	if attempt == 0 {
		return a.String()
	}
	return fmt.Sprintf("%s@%d", a, attempt+1)
}

// outer is the path of the scope around the call or branch that the scope is
// of; empty for the run itself.
func outer(scope string) string { return scope[:max(strings.LastIndexByte(scope, '/'), 0)] }

// callOf is the path of the call that the scope is an attempt of, or of the
// branch that it is.
func callOf(scope string) string {
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		return scope[:at]
	}
	return scope
}
