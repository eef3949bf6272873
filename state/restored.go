package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
)

// restored is what earlier generations of the run recorded, by call.
type restored struct {
	records []core.Record
	calls   map[core.Address]*track
	inside  map[string]uint64 // the last outcome recorded inside an attempt, by the path of its scope
	values  byPath            // by the call that wrote them
	all     byPath            // every record; nil until somebody asks for what is inside a call
}

// track is what became of one call.
type track struct {
	last     core.Record // the latest record
	retrying core.Record // the latest promise of another attempt
	entries  []uint64    // the started records of the latest attempt
	begun    bool
	input    core.Hash // zero if it was not kept
}

// diverges reports whether the call was recorded with another input.
func (r *restored) diverges(a core.Address, input core.Hash) bool {
	t := r.calls[a]
	return t != nil && !t.input.IsZero() && t.input != input
}

func newRestored(records []core.Record) *restored {
	r := &restored{
		records: records, calls: make(map[core.Address]*track), inside: make(map[string]uint64),
	}
	for i := range records {
		rec := &records[i]
		switch {
		case rec.Kind.IsCall():
			r.follow(rec)
		case rec.Kind == core.KindValue || rec.Kind == core.KindStepResult:
			r.values = append(r.values, placed{rec.Address.String(), i})
		}
	}
	r.values.sort()
	return r
}

func (r *restored) follow(rec *core.Record) {
	t := r.calls[rec.Address]
	if t == nil {
		t = new(track)
		r.calls[rec.Address] = t
	}
	switch rec.Status {
	case core.StatusStarted:
		if t.last.Status != core.StatusStarted || t.last.Attempt != rec.Attempt {
			t.entries = nil
		}
		t.entries = append(t.entries, rec.Seq)
		t.begun = true
		if rec.Detail != nil && !rec.Detail.InputHash.IsZero() {
			t.input = rec.Detail.InputHash
		}
	case core.StatusRetrying:
		t.retrying = *rec
	}
	t.last = *rec
	if rec.IsOutcome() {
		t.retrying = core.Record{}
		for scope := rec.Address.Scope(); scope != ""; scope = outer(scope) {
			r.inside[scope] = rec.Seq
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
	out := &core.Recalled{Begun: t.begun, Attempt: t.last.Attempt}
	switch {
	case t.last.Status == core.StatusFailed && !t.last.WillRetry && rerunFailed:
		return t.rerun(kind)
	case t.last.IsOutcome():
		outcome := t.last
		out.Outcome = &outcome
		return out
	case t.last.Status == core.StatusStarted:
		out.Started = true
		out.Spent = t.retrying.Elapsed + t.retrying.Delay
		out.LastErr = t.retrying.Err
		if kind == core.KindAgent && r.entriesSince(a, t) >= maxEntries {
			out.InDoubt = fmt.Errorf("%w (%d times)", errEntries, maxEntries)
		}
		return out
	}
	out.Spent = t.last.Elapsed
	out.Entered = t.last.Status == core.StatusInterrupted && t.last.Stage == core.StageHandler
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

// valuesOf are the values that the call and those inside it wrote; those
// written outside every call for the zero address.
func (r *restored) valuesOf(a core.Address) []value {
	if len(r.values) == 0 {
		return nil
	}
	return r.valuesAt(r.values.within(a.String()))
}

// valuesBefore are the values that calls wrote which were made by the
// preconditions and by the attempts before that of the number.
func (r *restored) valuesBefore(a core.Address, attempt int) []value {
	if len(r.values) == 0 {
		return nil
	}
	return r.valuesAt(r.values.before(a.String(), attempt))
}

func (r *restored) valuesAt(places []int) []value {
	values := make([]value, len(places))
	for i, at := range places {
		rec := &r.records[at]
		values[i] = value{slot{rec.Kind, rec.Name}, rec.Encoded(), rec.Seq}
	}
	return values
}

// recordsOf are the records of the call and those inside it, in order.
func (r *restored) recordsOf(a core.Address) []core.Record {
	if r.all == nil {
		for i := range r.records {
			r.all = append(r.all, placed{r.records[i].Address.String(), i})
		}
		r.all.sort()
	}
	places := r.all.within(a.String())
	slices.Sort(places)
	records := make([]core.Record, len(places))
	for i, at := range places {
		records[i] = r.records[at]
	}
	return records
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
