package state

import (
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A run that waits for an answer may be opened many times before the answer arrives, and a run that
// has ended may be opened for its result. Such an opening only repeats what is recorded: handlers
// are entered again and suspend at the same questions, or all calls are recalled. Its records are
// published, but they are not written to the journal until one of them contains something new. If
// none does before Close, the journal does not change.
//
// A crash during such an opening loses nothing. The next opening finds the run interrupted, and its
// records are written at once.

// mayRepeat reports whether an opening of a run with that status may record
// nothing new.
func mayRepeat(s snapshot.Status) bool {
	return s == snapshot.StatusPaused || s == snapshot.StatusCompleted || s == snapshot.StatusFailed
}

// maxHeld is the largest number of records that are held back.
const maxHeld = 1 << 13

// isNews reports whether rec contains anything that is not in the records that the run had when it
// was opened.
func (r *run) isNews(rec *record.Record) bool {
	switch {
	case rec.Kind == record.KindRun:
		return false // Close decides
	case rec.Kind == record.KindLog: // a handler that runs again repeats its lines; lines of the run itself are new
		return rec.Reason != record.ReasonNone || rec.Address.IsZero()
	case !rec.Kind.IsCall():
		return true
	}
	t := r.restored.calls[rec.Address]
	if t == nil || t.Last == 0 {
		return true
	}
	switch rec.Status {
	case record.StatusStarted:
		return rec.Reason != record.ReasonNone || t.Phase != record.StateAsking || int(t.Attempt) != rec.Attempt
	case record.StatusAwaiting:
		last, err := r.restored.found.Record(t.Last)
		return err != nil || last.Status != rec.Status || last.Stage != rec.Stage || last.Attempt != rec.Attempt ||
			rec.Detail != nil && !rec.Detail.Usage.IsZero()
	}
	return true
}

// mustNotRepeat reports whether rec, which comes from s, is the start of a call that must not be
// repeated silently, or that must be undone if it ends in doubt. Such a record is always written at
// once.
func mustNotRepeat(s *engine.Scope, rec *record.Record) bool {
	if rec.Status != record.StatusStarted {
		return false
	}
	return s.Spec() != nil && s.Spec().InDoubt != core.InDoubtRetry || rec.Detail != nil && (rec.Detail.Compensable || rec.Detail.Irreversible)
}
