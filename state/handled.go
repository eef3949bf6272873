package state

import (
	"errors"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// isRetried reports whether the call failed for good, and is to be tried again. A failure that the
// program has handled stays, and so do all failures inside a call whose outcome stays.
func (r *restoredRun) isRetried(t *track, a record.Address) bool {
	if !r.isUnhandled(t, a) {
		return false
	}
	for scope := a.Scope(); scope != "" && t.kind != record.KindCompensation; scope = outerScope(scope) {
		around, err := record.ParseAddress(callOf(scope))
		if err != nil {
			continue
		}
		switch p := r.calls[around]; {
		case p == nil:
		case p.completed > t.Last: // the surrounding call completed without this call, though it may have been undone since
			return false
		case p.Phase == record.StateFailed && !r.isUnhandled(p, around):
			return false
		case p.kind == record.KindCompensation: // the calls around it do not count
			return true
		}
	}
	return true
}

// isUnhandled reports whether the call failed for good, the run was retried after that, and the
// program had not handled the failure. It does not consider the surrounding calls.
func (r *restoredRun) isUnhandled(t *track, a record.Address) bool {
	switch {
	case t.Phase != record.StateFailed || t.Last > r.retryTo:
		return false
	case t.kind == record.KindCompensation:
		return r.isUndoRetried(a)
	}
	return !r.isHandled(t, a)
}

// isUndoRetried reports whether the compensation at a, which has failed, is tried again. It is not
// tried again if the failure that caused it stays.
func (r *restoredRun) isUndoRetried(a record.Address) bool {
	undone, err := record.ParseAddress(callOf(a.Scope()))
	if err != nil {
		return true
	}
	cause := r.failedAround(undone)
	return cause.IsZero() || r.calls[cause].Last > r.retryTo
}

// handled holds what isHandled needs, from the records up to retryTo.
type handled struct {
	later map[string]laterCalls // by the path of the scope; nil until needed
	ends  map[uint64]failedEnd  // of surrounding calls that failed, by the numbers of their records
}

// A failedEnd holds the error with which a call failed.
type failedEnd struct {
	err   error
	named map[string]bool // calls directly inside that the error names, in addition to those in its recorded text
}

// laterCalls holds, for one scope, the number of the first record of the call or question that began
// last.
type laterCalls struct {
	any   uint64
	model uint64 // calls to a model
	own   uint64 // all except the calls that a model requested
}

// isHandled reports whether the program has handled the failure of the call: it made another call
// or asked a question in the same scope afterwards, and the surrounding call did not fail with this
// failure. If it did fail with it, the later call may have been a clean-up, or another goroutine's.
//
// The tool calls that a model requested are made together, and their failures are handled by the
// next call to the model. The branches of a group do not depend on each other's failures.
func (r *restoredRun) isHandled(t *track, a record.Address) bool {
	if a.IsBranch() {
		return false
	}
	later := r.laterCalls()[a.Scope()]
	if t.toolCall {
		if later.model > t.Last {
			return true
		}
		later.any = later.own
	}
	return later.any > t.Last && !r.endedCallAround(a)
}

func (r *restoredRun) laterCalls() map[string]laterCalls {
	if r.handled.later != nil {
		return r.handled.later
	}
	r.handled.later = make(map[string]laterCalls)
	for a, t := range r.calls {
		if t.begun > r.retryTo {
			continue
		}
		later := r.handled.later[a.Scope()]
		later.any = max(later.any, t.begun)
		if t.kind == record.KindLLM {
			later.model = max(later.model, t.begun)
		}
		if !t.toolCall {
			later.own = max(later.own, t.begun)
		}
		r.handled.later[a.Scope()] = later
	}
	for _, seq := range r.questions {
		rec, err := r.found.Record(seq)
		if err != nil || seq > r.retryTo || rec.Detail == nil {
			continue
		}
		for _, c := range rec.Detail.Unrecorded {
			if c.Kind == record.KindQuestion {
				later := r.handled.later[c.Address.Scope()]
				later.any, later.own = max(later.any, seq), max(later.own, seq)
				r.handled.later[c.Address.Scope()] = later
			}
		}
	}
	return r.handled.later
}

// endedCallAround reports whether the call around a failed with an error that contains the failure
// of the call at a, or that names that call in its text.
func (r *restoredRun) endedCallAround(a record.Address) bool {
	around, err := record.ParseAddress(callOf(a.Scope()))
	if err != nil {
		return false // only the outcome of a run's last root call counts
	}
	p := r.calls[around]
	if p == nil || p.ended == 0 || !p.failed {
		return false
	}
	end, err := r.failedEnd(p.ended)
	switch {
	case err != nil:
		return true // the store cannot be read, which will stop the run
	case end.err == nil:
		return false
	}
	// A tool that makes calls is tried again from its first attempt on, but only the error of its
	// last attempt is known.
	path := a.String()
	path = pathOfAttempt(callOf(a.Scope()), int(p.attempts)-1) + path[strings.LastIndexByte(path, '/'):]
	if end.named[path] {
		return true
	}
	for err := end.err; ; {
		var inside *core.CallError
		if !errors.As(err, &inside) {
			return namesCall(end.err.Error(), path)
		}
		if namesCall(inside.Address.String(), path) {
			return true
		}
		err = inside.Err
	}
}

// failedEnd returns the end of a call from the record with the given number.
func (r *restoredRun) failedEnd(seq uint64) (failedEnd, error) {
	if end, known := r.handled.ends[seq]; known {
		return end, nil
	}
	rec, err := r.found.Record(seq)
	if err != nil {
		return failedEnd{}, err
	}
	end := failedEnd{err: rec.Err}
	if rec.Detail != nil && len(rec.Detail.NamedCalls) > 0 {
		end.named = make(map[string]bool)
		for _, a := range rec.Detail.NamedCalls {
			end.named[a.String()] = true
		}
	}
	if r.handled.ends == nil {
		r.handled.ends = make(map[uint64]failedEnd)
	}
	r.handled.ends[seq] = end
	return end, nil
}

// namesCall reports whether the text contains the path of a call, or of a call inside it.
func namesCall(text, path string) bool {
	for {
		before, after, found := strings.Cut(text, path)
		if !found {
			return false
		}
		begins := before == "" || strings.ContainsAny(before[len(before)-1:], " \t\n\"'([,;=")
		ends := after == "" || strings.ContainsAny(after[:1], "/@ \t\n\"')],;") || strings.HasPrefix(after, ": ")
		if begins && ends {
			return true
		}
		text = after
	}
}
