package state

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// WithFurtherCalls allows further root calls in a run that has completed or
// failed. Without it, such a call is refused with [ErrEnded], since in most cases a
// program should begin a new run.
func WithFurtherCalls() Option {
	return func(c *config) { c.allowsFurther = true; c.limitTo("WithFurtherCalls", inOpen) }
}

// refuseFurther returns an error for a root call that is not in the records of a run that has
// ended. Once a recorded call is made again, the run is no longer treated as ended. r.mu must be
// held.
func (r *run) refuseFurther(s *engine.Scope, c record.Claim) error {
	ended := r.found.Status == snapshot.StatusCompleted || r.found.Status == snapshot.StatusFailed
	if !ended || r.config.allowsFurther || r.settings.Strict || s.Parent() != nil || r.rootCalls.begun || r.restored.calls[c.Address] != nil {
		return nil
	}
	again := ""
	if r.found.Status == snapshot.StatusFailed {
		again = "; state.Retry and state.WithRerunFailed try again what failed"
	}
	return fmt.Errorf("state: run %s: %w: it is %s, and has no call %s; begin a new run for the call, or open this run with state.WithFurtherCalls%s",
		r.settings.RunID, ErrEnded, r.found.Status, c.Address, again)
}

// hasEnded reports whether the run had an outcome when it was opened and has only repeated recorded
// calls since then. r.mu must be held.
func (r *run) hasEnded() bool {
	return !r.rootCalls.begun && (r.found.Status == snapshot.StatusCompleted || r.found.Status == snapshot.StatusFailed)
}

// noteOnFailure returns what is added to the recorded text in the error of the call: a note that
// the failure is not new. It returns "" unless the run had failed when it was opened, and its last
// root call has recalled this failure. Any other error must have the recorded text, because the
// program may put that text into the input of a later call.
func (r *run) noteOnFailure(s *engine.Scope, failed *record.Record) string {
	if !isRootCall(s) || r.settings.Replays || r.config.allowsFurther {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found.Status != snapshot.StatusFailed || r.rootCalls.begun || failed.Ordinal < len(r.restored.ordinals.at("").claims) {
		return ""
	}
	return "(the recorded failure: nothing ran again); " + howToRetry(r.settings.RunID)
}

// restoreOutcome restores the status of a run that had already ended, if a later process opened the
// run, only repeated the run's calls, and was then killed.
func restoreOutcome(found *snapshot.Run) {
	crashed := found.Status == snapshot.StatusRunning || found.Status == snapshot.StatusInterrupted && found.Stop.Reason == record.InterruptCrash
	for seq := uint64(found.Len()); crashed && seq > found.RetryTo; seq-- {
		rec, err := found.Record(seq)
		switch {
		case err != nil:
			return
		case rec.Kind == record.KindRun && (rec.Status == record.StatusCompleted || rec.Status == record.StatusFailed):
			found.Status, found.Stop = snapshot.StatusCompleted, snapshot.Stop{}
			if rec.Status == record.StatusFailed {
				found.Status = snapshot.StatusFailed
			}
			return
		case rec.Kind == record.KindRun && rec.Status == record.StatusStarted && rec.Reason == record.ReasonNone: // opened again
		case rec.Kind == record.KindLog, rec.Kind.IsCall() && rec.Status == record.StatusRecovered:
		default:
			return // the run went on, or was retried
		}
	}
}
