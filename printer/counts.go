package printer

import (
	"slices"

	"github.com/reprise-go/reprise/record"
)

// maxFollowed is how many calls that go on, or may be resumed, are followed at
// most. Further ones are counted when they have their outcome.
const maxFollowed = 1 << 16

// maxRuns is how many runs are remembered at most.
const maxRuns = 1 << 12

// counts makes a summary of the records of many runs, with a ledger for each.
type counts struct {
	runs      map[string]*record.Ledger
	forgotten Summary // of runs that are not remembered
	slowest   []SlowCall
	limit     int // of calls
	open      int // calls that the ledgers follow
}

func newCounts(limit int) counts {
	return counts{runs: make(map[string]*record.Ledger), limit: limit}
}

// add counts r, unless it was counted before: records of a run come in order.
func (c *counts) add(r *record.Record) {
	if r.Replayed && r.Status != record.StatusRecovered { // from history: it counts if it is new
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
		c.slow(SlowCall{r.RunID, r.Address, r.Name, r.Elapsed, int(call.Highest)})
	}
}

// ledger is that of a run. Another run is forgotten if there are too many.
func (c *counts) ledger(id string) *record.Ledger {
	if l := c.runs[id]; l != nil {
		return l
	}
	if len(c.runs) >= maxRuns {
		c.forget()
	}
	l := new(record.Ledger)
	c.runs[id] = l
	return l
}

// forget forgets a run, if it can one of which nothing is followed.
func (c *counts) forget() {
	tries := 0
	for id, l := range c.runs {
		if tries++; l.NumOpen() > 0 && tries < 100 {
			continue
		}
		c.forgotten.addRun(l)
		c.open -= l.NumOpen()
		delete(c.runs, id)
		return
	}
}

// total is the summary, for the caller to keep.
func (c *counts) total() Summary {
	var s Summary
	s.Counts = c.forgotten.Counts
	s.addReasons(c.forgotten.Interrupts)
	for _, l := range c.runs {
		s.addRun(l)
	}
	s.Slowest = slices.Clone(c.slowest)
	return s
}

func (s *Summary) addRun(l *record.Ledger) {
	s.Counts = s.Plus(l.Counts())
	s.addReasons(l.Because())
}

func (s *Summary) addReasons(because map[record.InterruptReason]int) {
	for reason, n := range because {
		if s.Interrupts == nil {
			s.Interrupts = make(map[record.InterruptReason]int)
		}
		s.Interrupts[reason] += n
	}
}

// maxSlow is how many of the slowest calls are kept.
const maxSlow = 5

// slow adds a call, in the place of an earlier entry for it.
func (c *counts) slow(call SlowCall) {
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
