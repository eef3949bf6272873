package printer

import (
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// maxFollowed is how many calls that go on, or may be resumed, are followed at
// most. Further ones are counted when they have their outcome.
const maxFollowed = 1 << 16

// counts makes a summary of records.
type counts struct {
	summary Summary
	runs    map[string]runState
	calls   map[callKey]callState // without an outcome that was counted
	limit   int                   // of calls
}

// runState is how far a run was counted.
type runState struct {
	first      uint64 // generation of a new record; 0 before there is one
	generation uint64 // of the latest record
	seq        uint64 // of the latest record
	latest     time.Time
}

type callKey struct {
	run     string
	address record.Address
}

type callState struct {
	kind     record.Kind
	attempts int                    // that were begun
	end      record.Status          // completed, failed, interrupted, awaiting, recovered; 0 while it goes on
	because  record.InterruptReason // it was interrupted
	waits    bool                   // for its next attempt,
	since    time.Time              // since then
}

func newCounts(limit int) counts {
	return counts{runs: make(map[string]runState), calls: make(map[callKey]callState), limit: limit}
}

// add counts r, unless it was counted before: records of a run come in order.
func (c *counts) add(r *record.Record) {
	run, known := c.runs[r.RunID]
	if run.first == 0 && !r.Replayed {
		run.first = r.Generation
	}
	if r.Seq > 0 && r.Seq <= run.seq && r.Generation <= run.generation {
		return
	}
	if r.Seq > 0 { // below the latest if that was not kept
		run.seq, run.generation = r.Seq, max(run.generation, r.Generation)
	}
	c.clock(&run, known, r)
	c.remember(r.RunID, run)
	if r.Kind.IsCall() && !r.Kind.IsParallel() {
		c.call(r, run)
	}
	if r.Kind.IsCall() && r.Detail != nil && r.Status != record.StatusRecovered {
		c.summary.Usage = c.summary.Usage.Plus(r.Detail.Usage)
	}
}

func (c *counts) call(r *record.Record, run runState) {
	key := callKey{r.RunID, r.Address}
	call, known := c.calls[key]
	switch {
	case r.Status == record.StatusRecovered && known && call.end == r.Status:
		return
	case r.Status == record.StatusRecovered && !known && run.first > 0 && r.Generation >= run.first:
		return // its outcome was counted
	case !known && !r.IsOutcome() && len(c.calls) >= c.limit:
		return
	}
	if known {
		c.summary.count(&call, -1)
	}
	call.kind = r.Kind
	if call.waits {
		c.summary.Waited += max(0, r.Time.Sub(call.since))
		call.waits = false
	}
	call.advance(r)
	c.summary.count(&call, 1)
	if !r.IsOutcome() {
		c.calls[key] = call
		return
	}
	delete(c.calls, key)
	if r.Kind != record.KindAgent {
		c.summary.slow(SlowCall{r.RunID, r.Address, r.Name, r.Elapsed, call.attempts})
	}
}

// clock counts the time since the record of the run before. Between the last
// record of a run and its resumption it stood still. An answer does not count:
// it may be recorded while nobody runs the run.
func (c *counts) clock(run *runState, known bool, r *record.Record) {
	if r.Time.IsZero() || r.Kind == record.KindAnswer || !r.Time.After(run.latest) {
		return
	}
	if begins := r.Kind == record.KindRun && r.Status == record.StatusStarted; known && !run.latest.IsZero() && !begins {
		c.summary.Took += r.Time.Sub(run.latest)
	}
	run.latest = r.Time
}

// maxRuns is how many runs are remembered at most.
const maxRuns = 1 << 12

func (c *counts) remember(id string, run runState) {
	if _, known := c.runs[id]; !known && len(c.runs) >= maxRuns {
		for other := range c.runs { // any of them
			delete(c.runs, other)
			break
		}
	}
	c.runs[id] = run
}

// total is the summary, for the caller to keep.
func (c *counts) total() Summary {
	s := c.summary
	s.Interrupts, s.Slowest = maps.Clone(s.Interrupts), slices.Clone(s.Slowest)
	return s
}

// advance adds what r says about the call.
func (c *callState) advance(r *record.Record) {
	switch r.Status {
	case record.StatusStarted:
		c.end, c.attempts = 0, max(c.attempts, r.Attempt+1)
	case record.StatusRetrying:
		c.end, c.waits, c.since = 0, true, r.Time
	case record.StatusCompleted:
		c.end, c.attempts = r.Status, max(c.attempts, r.TotalAttempts())
	case record.StatusFailed:
		c.end, c.attempts = r.Status, max(c.attempts, r.TotalAttempts())
		if r.WillRetry {
			c.end = 0
		}
	case record.StatusInterrupted, record.StatusAwaiting:
		c.end, c.because = r.Status, ""
		if e := r.Interrupt(); e != nil {
			c.because = e.Reason
		}
	case record.StatusRecovered:
		c.end = r.Status
	}
}

// count adds what c contributes n times: 1, or -1 to take it back.
func (s *Summary) count(c *callState, n int) {
	s.Executions.count(c.end, n)
	switch c.kind {
	case record.KindTool:
		s.Tools.count(c.end, n)
	case record.KindLLM:
		s.LLMs.count(c.end, n)
	case record.KindAgent:
		s.Agents.count(c.end, n)
	case record.KindStep:
		s.Steps.count(c.end, n)
	}
	if c.end == record.StatusInterrupted {
		s.countInterrupt(c.because, n)
	}
	s.Attempts += n * c.attempts
	retries := max(c.attempts-1, 0)
	if retries == 0 {
		return
	}
	s.Retries += n * retries
	s.Retried += n
	switch c.end {
	case record.StatusCompleted:
		s.SucceededAfterRetry += n
	case record.StatusFailed:
		s.FailedAfterRetries += n
	}
}

func (e *Executions) count(end record.Status, n int) {
	switch end {
	case record.StatusCompleted:
		e.Completed += n
	case record.StatusFailed:
		e.Failed += n
	case record.StatusInterrupted:
		e.Interrupted += n
	case record.StatusAwaiting:
		e.Awaiting += n
	case record.StatusRecovered:
		e.Recovered += n
	default:
		e.GoingOn += n
	}
}

// maxReasons is how many reasons for interrupts are counted separately.
const maxReasons = 32

func (s *Summary) countInterrupt(because record.InterruptReason, n int) {
	if because == "" || s.Interrupts[because] == 0 && len(s.Interrupts) >= maxReasons {
		return
	}
	if s.Interrupts == nil {
		s.Interrupts = make(map[record.InterruptReason]int)
	}
	if s.Interrupts[because] += n; s.Interrupts[because] <= 0 {
		delete(s.Interrupts, because)
	}
	if len(s.Interrupts) == 0 {
		s.Interrupts = nil
	}
}

// maxSlow is how many of the slowest calls are kept.
const maxSlow = 5

// slow adds a call, in the place of an earlier entry for it.
func (s *Summary) slow(call SlowCall) {
	s.Slowest = slices.DeleteFunc(s.Slowest, func(c SlowCall) bool { return c.Address == call.Address && c.RunID == call.RunID })
	i := len(s.Slowest)
	for i > 0 && s.Slowest[i-1].Elapsed < call.Elapsed {
		i--
	}
	if i == maxSlow {
		return
	}
	s.Slowest = slices.Insert(s.Slowest, i, call)
	s.Slowest = s.Slowest[:min(len(s.Slowest), maxSlow)]
}
