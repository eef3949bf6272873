package state

import (
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Report counts what a run executed and what it recalled. Groups and their
// branches do not count, only the calls inside them.
type Report struct {
	Restored  int           // calls answered from recorded outcomes
	Executed  int           // calls that ended in this opening of the run
	Attempts  int           // attempts that began in this opening
	Cached    int           // of Executed: calls answered by a cache
	Retries   int           // failed attempts in this opening that are retried
	Exhausted int           // calls that failed in this opening because no attempt, no time or no retry budget was left
	Waited    time.Duration // the delays before those Retries

	// Usage is what the calls of the run have consumed, including before this
	// opening. The Info of the run has it, too, once the run is closed.
	Usage record.Usage

	Compensated   int // calls that were undone in this opening
	Uncompensated int // calls whose compensation failed in this opening

	// Diverged lists the calls that were recorded with another input than they
	// have now.
	Diverged []record.Address

	// Reworded lists the calls of models that were answered from their records
	// although instructions, descriptions of tools, tools or options have
	// changed.
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

// Report returns the counts so far.
func (st *ExecutionState) Report() Report {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	report := st.run.report
	report.Diverged, report.Reworded = slices.Clone(report.Diverged), slices.Clone(report.Reworded)
	return report
}
