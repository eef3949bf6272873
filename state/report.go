package state

import (
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Report counts what a run executed and what it recalled. Only the calls inside groups and
// branches are counted, not the groups and branches themselves.
type Report struct {
	Restored  int           // calls answered from recorded outcomes
	Executed  int           // calls that ended in this opening of the run
	Attempts  int           // attempts that began in this opening
	Cached    int           // those of Executed that were answered by a cache
	Retries   int           // those of Attempts that have a new number, after a failed attempt
	Exhausted int           // calls that failed in this opening because no attempts, time or retry budget was left
	Waited    time.Duration // total time for which calls waited for their next attempts while the run was open

	// Usage is what the run's calls have consumed in this opening and all earlier ones. When the
	// run is closed, this usage is also stored in its Info.
	Usage record.Usage

	Compensated   int // calls that were undone in this opening
	Uncompensated int // calls whose compensation failed in this opening

	// Diverged lists the calls that differ from the recorded ones.
	Diverged []record.Address

	// Reworded lists the LLM calls that were answered from their records even though their
	// instructions, tool descriptions, tools or options have changed.
	Reworded []record.Address

	// LeftOver lists effects of irreversible calls, such as payments. These effects exist or may
	// exist, but the attempt that made the calls has ended, and no later call has taken the effects
	// over. Once the run has ended, the list includes effects that a fork inherits from its
	// parents.
	LeftOver []record.Effect

	// The fields below are not derived from the records. All of them except Records cover only this
	// opening.
	Records         uint64 // the Seq of the latest record
	Abandoned       int64  // attempts that did not return when their time was up
	LateReturns     int64  // those of Abandoned that returned later
	PublisherPanics int64  // panics in publishers, which the run ignores
}

// Report returns the counts so far. The counts of calls come from the run's [record.Ledger].
func (st *ExecutionState) Report() Report {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	r := st.run
	n := r.tally().OpeningCounts()
	return Report{
		Restored: n.Recalled, Executed: n.Outcomes, Attempts: n.Attempts, Cached: n.Cached,
		Retries: n.Retries, Exhausted: n.Exhausted, Waited: n.Waited, Usage: n.Usage,
		Compensated: n.Undone, Uncompensated: n.NotUndone,
		Diverged: slices.Clone(r.report.Diverged), Reworded: slices.Clone(r.report.Reworded), LeftOver: r.leftOver(),
		Records: uint64(r.keeper.len()), Abandoned: r.settings.Late.Abandoned.Load(),
		LateReturns: r.settings.Late.Returned.Load(), PublisherPanics: r.out.panics.Load(),
	}
}

// ledgerOf returns the ledger of the records of a run.
func ledgerOf(records []record.Record) *record.Ledger {
	l := new(record.Ledger)
	for i := range records {
		l.Add(&records[i])
	}
	return l
}
