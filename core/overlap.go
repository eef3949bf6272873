package core

import (
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/record"
)

// checkOverlap counts a call that is claimed and made at once. Another one that
// is under way in the same scope is made by another goroutine. What they claim
// comes in an order that no resumed run can be held to, so that is recorded as a
// warning, once for each scope. Calls that are recalled are not made: whether they
// overlap is chance, and it was recorded when they were made.
func (c *call) checkOverlap() {
	in := c.scope.claims()
	if in.direct.Add(1) == 1 || c.off != nil || c.recall.found != nil && c.recall.found.HasOutcome() {
		return
	}
	in.mu.Lock()
	reported := in.overlapped
	in.overlapped = true
	in.mu.Unlock()
	if reported {
		return
	}
	rec := record.Record{
		Time: time.Now().Round(0).UTC(), Address: c.scope.Address(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "calls overlap: " + c.address.String() + " began while another call of the same " +
			"attempt was under way. Goroutines of the program's own make calls in no certain order: a run that is resumed can refuse them, or give " +
			"one the result of another. Use actors.Map or actors.Parallel for calls in parallel, or Prepare each call before its goroutine begins; " +
			"core.Step is for what is not a call"},
	}
	_ = c.root.run.Append(c.scope, rec) // a warning that comes too late has nobody to read it
}

// leaveDirect takes back what checkOverlap counted.
func (c *call) leaveDirect() {
	if c.direct {
		c.scope.claims().direct.Add(-1)
	}
}
