package state

import (
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Report says what a run did itself, and what it had from its records. Groups
// and their branches do not count: they hold the calls that do.
type Report struct {
	Restored  int           // calls answered from recorded outcomes
	Executed  int           // calls that ended here
	Attempts  int           // that were begun here: claimed, whatever became of them
	Cached    int           // of Executed: calls that a cache answered
	Retries   int           // that were promised here after a failure
	Exhausted int           // calls that failed here because no attempt, no time or no retry budget was left
	Waited    time.Duration // promised before retries here

	// Usage is what the calls of the run have consumed, also before it was
	// opened: it is in the Info of the run, too, once that is closed.
	Usage record.Usage

	Compensated   int // calls that were undone here
	Uncompensated int // calls whose compensation failed here

	// Diverged are the calls that were recorded with another input than they
	// have now.
	Diverged []record.Address

	// Reworded are the calls of models that were answered from their records
	// although instructions, texts of tools, tools or options are others now.
	Reworded []record.Address
}

func (r *Report) count(rec *record.Record) {
	if rec.Detail != nil {
		r.Usage = r.Usage.Plus(rec.Detail.Usage)
	}
	switch {
	case rec.Kind.IsParallel():
	case rec.Status == record.StatusStarted:
		r.Attempts++
	case rec.IsOutcome():
		r.Executed++
		if rec.Detail != nil && rec.Detail.Cached {
			r.Cached++
		}
		switch {
		case rec.Kind != record.KindCompensation:
		case rec.Status == record.StatusCompleted:
			r.Compensated++
		default:
			r.Uncompensated++
		}
		if rec.Reason.IsExhaustion() {
			r.Exhausted++
		}
	case rec.WillRetry:
		r.Retries++
		r.Waited += rec.Delay
	}
}

// Report returns what the run did so far.
func (st *ExecutionState) Report() Report {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	report := st.run.report
	report.Diverged, report.Reworded = slices.Clone(report.Diverged), slices.Clone(report.Reworded)
	return report
}
