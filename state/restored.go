package state

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
)

// restored is what earlier generations of the run recorded, by call.
type restored struct {
	calls  map[core.Address]*track
	inside map[string]uint64        // the last outcome recorded inside an attempt, by the path of its scope
	values map[core.Address][]value // by the call that wrote them, in order
	order  []core.Address           // of those with values, in order
	groups groups                   // nil until one is asked for

	preconditions map[core.Address][]value // by the call whose preconditions wrote them
	diverged      bool                     // calls had other inputs, and were made again
}

// track is what became of one call.
type track struct {
	last     core.Record // the latest record
	retrying core.Record // the latest promise of another attempt
	entries  []uint64    // the started records of the latest attempt
	begun    bool
	first    uint64    // the record that it began with
	diverged uint64    // the latest record that it had another input; 0 for none
	starts   int       // of attempts
	doubt    doubt     // about the latest
	input    core.Hash // zero if it was not kept
}

// diverges reports whether the call was recorded with another input.
func (r *restored) diverges(a core.Address, input core.Hash) bool {
	t := r.calls[a]
	return t != nil && t.differs(input)
}

func newRestored(records []core.Record) *restored {
	r := &restored{
		calls: make(map[core.Address]*track), inside: make(map[string]uint64),
		values: make(map[core.Address][]value), preconditions: make(map[core.Address][]value),
	}
	for i := range records {
		rec := &records[i]
		switch {
		case rec.Kind.IsCall():
			r.follow(rec)
		case rec.Kind == core.KindValue || rec.Kind == core.KindStepResult:
			r.followValue(rec)
		case rec.Kind == core.KindLog && rec.Reason == core.ReasonDivergence && rec.Detail != nil:
			r.followDivergence(rec)
		}
	}
	return r
}

func (r *restored) track(a core.Address) *track {
	t := r.calls[a]
	if t == nil {
		t = new(track)
		r.calls[a] = t
	}
	return t
}

func (r *restored) follow(rec *core.Record) {
	t := r.track(rec.Address)
	switch rec.Status {
	case core.StatusStarted:
		if rec.Reason == core.ReasonDivergence {
			r.beginAnew(rec.Address, t)
		}
		if !t.begun {
			t.first = rec.Seq
		}
		if t.last.Status == core.StatusCompleted {
			delete(r.values, rec.Address) // it writes them again
		}
		if t.last.Status != core.StatusStarted || t.last.Attempt != rec.Attempt {
			t.entries = nil
		}
		t.entries = append(t.entries, rec.Seq)
		t.begun = true
		t.starts++
		if rec.Detail != nil && !rec.Detail.InputHash.IsZero() {
			t.input = rec.Detail.InputHash
		}
	case core.StatusRetrying:
		t.retrying = *rec
	}
	t.doubt = t.doubt.after(rec)
	t.last = *rec
	if rec.IsOutcome() {
		t.retrying = core.Record{}
		for path := rec.Address.Scope(); path != ""; {
			r.inside[path] = rec.Seq
			i := strings.LastIndexByte(path, '/')
			path = path[:max(i, 0)]
		}
	}
}

// maxEntries is how often an attempt of an agent is entered again without an
// outcome inside it: after that it is what ends the process.
const maxEntries = 5

var errEntries = errors.New("the agent was entered again and again without getting any further")

// recall is what is known of the call of s.
func (r *restored) recall(a core.Address, kind core.Kind, rerunFailed bool) *core.Recalled {
	t := r.calls[a]
	if t == nil {
		return nil
	}
	out := &core.Recalled{Begun: t.begun, Attempt: t.last.Attempt, Starts: t.starts}
	switch {
	case t.last.Status == core.StatusFailed && !t.last.WillRetry && rerunFailed:
		return t.rerun(kind)
	case t.last.Status == core.StatusCompleted && isNoStore(&t.last):
		again := t.rerun(kind)
		again.NotStored = true
		return again
	case t.last.IsOutcome():
		outcome := t.last
		out.Outcome = &outcome
		return out
	case t.doubt == doubtStarted:
		out.Started = true
		out.Spent = t.retrying.Elapsed + t.retrying.Delay
		out.LastErr = t.retrying.Err
		if kind == core.KindAgent && r.entriesSince(a, t) >= maxEntries {
			out.InDoubt = fmt.Errorf("%w (%d times)", errEntries, maxEntries)
		}
		return out
	}
	out.Spent = t.last.Elapsed
	out.Entered = t.doubt == doubtInterrupted
	if t.retrying.Attempt == t.last.Attempt && t.retrying.Seq > 0 {
		// The time that the process was down counts as waited.
		out.Delay, out.LastErr = t.retrying.Delay, t.retrying.Err
		out.Wait = min(max(0, time.Until(t.retrying.NextAttemptAt())), t.retrying.Delay)
	}
	return out
}

// rerun sets up a call that failed for good to try once more: what calls
// others is entered again as its last attempt, everything else begins anew.
func (t *track) rerun(kind core.Kind) *core.Recalled {
	if kind == core.KindAgent && t.begun {
		return &core.Recalled{Begun: true, Started: true, Attempt: t.last.Attempt, Spent: 0}
	}
	return &core.Recalled{Begun: t.begun}
}

// entriesSince counts how often the latest attempt was entered since an
// outcome was last recorded inside it.
func (r *restored) entriesSince(a core.Address, t *track) int {
	path := scopePath(a, t.last.Attempt)
	n := 0
	for _, seq := range t.entries {
		if seq > r.inside[path] {
			n++
		}
	}
	return n
}

// scopePath is what stands before the names of calls made by an attempt of the
// call at a.
func scopePath(a core.Address, attempt int) string {
	if attempt == 0 {
		return a.String()
	}
	return fmt.Sprintf("%s@%d", a, attempt+1)
}

// isInside reports whether the scope is one of a call at path, in any attempt.
func isInside(scope, path string) bool {
	rest, ok := strings.CutPrefix(scope, path)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '@')
}
