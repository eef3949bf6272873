package printer

import (
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
)

// remembered is how many calls a tally remembers at least.
const remembered = 1 << 15

// tally makes a summary of records. It remembers calls in two generations:
// when the young one is full it becomes the old one, which is forgotten.
type tally struct {
	summary    Summary
	young, old map[callKey]callState
	limit      int                  // of the young
	latest     map[string]time.Time // record of a run
}

type callKey struct {
	run     string
	address core.Address
}

type callState struct {
	kind     core.Kind
	seq      uint64               // of the latest record that was counted
	attempts int                  // that were begun
	end      core.Status          // completed, failed, interrupted, awaiting, recovered; 0 while it goes on
	because  core.InterruptReason // it was interrupted
	waits    bool                 // for its next attempt,
	since    time.Time            // since then
}

func newTally(limit int) tally {
	return tally{young: make(map[callKey]callState), limit: limit, latest: make(map[string]time.Time)}
}

func (t *tally) add(r *core.Record) {
	t.clock(r)
	if !r.Kind.IsCall() {
		return
	}
	key := callKey{r.RunID, r.Address}
	call, known := t.recall(key)
	if r.Seq > 0 && r.Seq <= call.seq {
		return // published again
	}
	if known {
		t.summary.count(&call, -1)
	}
	call.kind = r.Kind
	if call.waits {
		t.summary.Waited += max(0, r.Time.Sub(call.since))
		call.waits = false
	}
	call.advance(r)
	t.summary.count(&call, 1)
	t.remember(key, call)

	if r.Detail != nil && r.Status != core.StatusRecovered {
		t.summary.Usage = t.summary.Usage.Plus(r.Detail.Usage)
	}
	if r.IsOutcome() && r.Kind != core.KindAgent {
		t.summary.slow(SlowCall{r.RunID, r.Address, r.Elapsed, call.attempts})
	}
}

// maxLatest is how many runs are remembered at most.
const maxLatest = 1 << 12

// clock counts the time since the record of the run before. Between the last
// record of a run and its going on it stood still. An answer tells nothing of
// that: it may be recorded while nobody runs the run.
func (t *tally) clock(r *core.Record) {
	if r.Time.IsZero() || r.Kind == core.KindAnswer {
		return
	}
	before, known := t.latest[r.RunID]
	if known && !r.Time.After(before) {
		return
	}
	if begins := r.Kind == core.KindRun && r.Status == core.StatusStarted; known && !begins {
		t.summary.Took += r.Time.Sub(before)
	}
	if !known && len(t.latest) >= maxLatest {
		clear(t.latest)
	}
	t.latest[r.RunID] = r.Time
}

// total is the summary, for others to keep.
func (t *tally) total() Summary {
	s := t.summary
	s.Interrupts, s.Slowest = maps.Clone(s.Interrupts), slices.Clone(s.Slowest)
	return s
}

// advance is what r says about the call.
func (c *callState) advance(r *core.Record) {
	c.seq = max(c.seq, r.Seq)
	switch r.Status {
	case core.StatusStarted:
		c.end, c.attempts = 0, max(c.attempts, r.Attempt+1)
	case core.StatusRetrying:
		c.end, c.waits, c.since = 0, true, r.Time
	case core.StatusCompleted:
		c.end, c.attempts = r.Status, max(c.attempts, r.TotalAttempts())
	case core.StatusFailed:
		c.end, c.attempts = r.Status, max(c.attempts, r.TotalAttempts())
		if r.WillRetry {
			c.end = 0
		}
	case core.StatusInterrupted, core.StatusAwaiting:
		c.end, c.because = r.Status, ""
		if e := r.Interrupt(); e != nil {
			c.because = e.Reason
		}
	case core.StatusRecovered:
		if c.end != core.StatusCompleted && c.end != core.StatusFailed {
			c.end = r.Status
		}
	}
}

// count adds what c contributes n times: 1, or -1 to take it back.
func (s *Summary) count(c *callState, n int) {
	s.Executions.count(c.end, n)
	switch c.kind {
	case core.KindTool:
		s.Tools.count(c.end, n)
	case core.KindLLM:
		s.LLMs.count(c.end, n)
	case core.KindAgent:
		s.Agents.count(c.end, n)
	case core.KindStep:
		s.Steps.count(c.end, n)
	}
	if c.end == core.StatusInterrupted {
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
	case core.StatusCompleted:
		s.SucceededAfterRetry += n
	case core.StatusFailed:
		s.FailedAfterRetries += n
	}
}

func (e *Executions) count(end core.Status, n int) {
	switch end {
	case core.StatusCompleted:
		e.Completed += n
	case core.StatusFailed:
		e.Failed += n
	case core.StatusInterrupted:
		e.Interrupted += n
	case core.StatusAwaiting:
		e.Awaiting += n
	case core.StatusRecovered:
		e.Recovered += n
	default:
		e.GoingOn += n
	}
}

// maxReasons is how many reasons for interrupts are told apart.
const maxReasons = 32

func (s *Summary) countInterrupt(because core.InterruptReason, n int) {
	if because == "" || s.Interrupts[because] == 0 && len(s.Interrupts) >= maxReasons {
		return
	}
	if s.Interrupts == nil {
		s.Interrupts = make(map[core.InterruptReason]int)
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

// slow takes in a call, in the place of what was known of it.
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

func (t *tally) recall(key callKey) (callState, bool) {
	if call, ok := t.young[key]; ok {
		return call, true
	}
	call, ok := t.old[key]
	return call, ok
}

func (t *tally) remember(key callKey, call callState) {
	t.young[key] = call
	if len(t.young) < t.limit {
		return
	}
	// What goes on is taken along, but for no more than half of the place: an
	// ending that never comes must not be waited for.
	t.old, t.young = t.young, make(map[callKey]callState)
	for key, call := range t.old {
		if call.end == 0 && len(t.young) < t.limit/2 {
			t.young[key] = call
		}
	}
}
