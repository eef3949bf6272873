package printer

import (
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
	limit      int // of the young
}

type callKey struct {
	run     string
	address core.Address
}

type callState struct {
	kind     core.Kind
	seq      uint64      // of the latest record that was counted
	attempts int         // that were begun
	end      core.Status // completed, failed, interrupted, recovered; 0 while it goes on
	waits    bool        // for its next attempt,
	since    time.Time   // since then
}

func newTally(limit int) tally {
	return tally{young: make(map[callKey]callState), limit: limit}
}

func (t *tally) add(r *core.Record) {
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
		c.end = core.StatusInterrupted
	case core.StatusRecovered:
		if c.end != core.StatusCompleted && c.end != core.StatusFailed {
			c.end = r.Status
		}
	}
}

// count adds what c contributes n times: 1, or -1 to take it back.
func (s *Summary) count(c *callState, n int) {
	switch c.kind {
	case core.KindTool:
		s.Tools += n
	case core.KindLLM:
		s.LLMs += n
	case core.KindAgent:
		s.Agents += n
	}
	retries := max(c.attempts-1, 0)
	s.Attempts += n * c.attempts
	s.Retries += n * retries
	if retries > 0 {
		s.Retried += n
	}
	switch c.end {
	case core.StatusCompleted:
		s.Completed += n
		if retries > 0 {
			s.SucceededAfterRetry += n
		}
	case core.StatusFailed:
		s.Failed += n
		if retries > 0 {
			s.FailedAfterRetries += n
		}
	case core.StatusInterrupted:
		s.Interrupted += n
	case core.StatusRecovered:
		s.Recovered += n
	}
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
