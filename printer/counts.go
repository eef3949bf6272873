package printer

import (
	"slices"

	"github.com/reprise-go/reprise/record"
)

// maxFollowed is the maximum number of calls without an outcome that are tracked. Any further call
// is counted only when its outcome arrives.
const maxFollowed = 1 << 16

// maxRuns is the maximum number of runs for which a ledger is kept.
const maxRuns = 1 << 12

// counts summarizes the records of many runs. It keeps a ledger for each run.
type counts struct {
	runs    map[string]*record.Ledger
	evicted Summary // totals of evicted runs
	slowest []SlowCall
	limit   int // maximum number of open calls
	open    int // number of open calls in all ledgers
}

func newCounts(limit int) counts {
	return counts{runs: make(map[string]*record.Ledger), limit: limit}
}

// add counts r unless it was counted before. The records of a run must
// arrive in order.
func (c *counts) add(r *record.Record) {
	if r.Replayed && r.Status != record.StatusRecovered { // a record from history counts unless it was counted before
		again := *r
		again.Replayed = false
		r = &again
	}
	l := c.ledger(r.RunID)
	before := l.NumOpen()
	if l.Limit = before + c.limit - c.open; l.Limit == 0 {
		l.Limit = -1
	}
	change := l.Add(r)
	c.open += l.NumOpen() - before
	if call := change.Call; call != nil && r.IsOutcome() && !r.Kind.IsParallel() && r.Kind != record.KindAgent {
		c.addSlow(SlowCall{r.RunID, r.Address, r.Name, r.Elapsed, int(call.Highest)})
	}
}

// ledger returns the ledger of a run. It evicts another run if there are too many.
func (c *counts) ledger(id string) *record.Ledger {
	if l := c.runs[id]; l != nil {
		return l
	}
	if len(c.runs) >= maxRuns {
		c.evict()
	}
	l := new(record.Ledger)
	c.runs[id] = l
	return l
}

// evict removes a run, preferably one without open calls, and keeps its totals.
func (c *counts) evict() {
	tries := 0
	for id, l := range c.runs {
		if tries++; l.NumOpen() > 0 && tries < 100 {
			continue
		}
		c.evicted.addRun(l)
		c.open -= l.NumOpen()
		delete(c.runs, id)
		return
	}
}

// total returns the summary. The summary belongs to the caller.
func (c *counts) total() Summary {
	var s Summary
	s.Counts = c.evicted.Counts
	s.addReasons(c.evicted.Interrupts)
	for _, l := range c.runs {
		s.addRun(l)
	}
	s.Slowest = slices.Clone(c.slowest)
	return s
}

func (s *Summary) addRun(l *record.Ledger) {
	s.Counts = s.Plus(l.Counts())
	s.addReasons(l.Interrupts())
}

func (s *Summary) addReasons(reasons map[record.InterruptReason]int) {
	for reason, n := range reasons {
		if s.Interrupts == nil {
			s.Interrupts = make(map[record.InterruptReason]int)
		}
		s.Interrupts[reason] += n
	}
}

// maxSlow is the number of slowest calls that are kept.
const maxSlow = 5

// addSlow adds a call to the slowest calls if it is one of them. It replaces an earlier entry
// for the same call.
func (c *counts) addSlow(call SlowCall) {
	c.slowest = slices.DeleteFunc(c.slowest, func(s SlowCall) bool { return s.Address == call.Address && s.RunID == call.RunID })
	i := len(c.slowest)
	for i > 0 && c.slowest[i-1].Elapsed < call.Elapsed {
		i--
	}
	if i == maxSlow {
		return
	}
	c.slowest = slices.Insert(c.slowest, i, call)
	c.slowest = c.slowest[:min(len(c.slowest), maxSlow)]
}
