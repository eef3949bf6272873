package engine

import (
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A sameCall identifies calls that differ only in the order of their claims.
type sameCall struct {
	name  string
	input record.Hash
}

// checkOverlap counts a call that is claimed and executed at once. If another such call is in
// progress in the same scope, it was made by another goroutine, and the order of the claims may
// differ between runs. This is recorded as a warning, once per scope. If the other call has the
// same name and input, this call is also marked, because the two cannot be distinguished when the
// run is resumed. Recalled calls do not count, because they are not executed: whether they overlap
// is random, and any overlap was recorded when they ran.
func (c *Call) checkOverlap() {
	in := c.scope.claims()
	among := in.direct.Add(1)
	if c.blockedBy != nil || c.recall.found != nil && c.recall.found.HasOutcome() {
		return
	}
	same := sameCall{c.spec.Name, c.recall.input}
	in.mu.Lock()
	if in.inProgress == nil {
		in.inProgress = make(map[sameCall]int)
	}
	in.inProgress[same]++
	c.counted, c.overlaps = true, in.inProgress[same] > 1
	reported := in.overlapped || among == 1
	in.overlapped = in.overlapped || among > 1
	in.mu.Unlock()
	if reported {
		return
	}
	rec := record.Record{
		Time: time.Now().Round(0).UTC(), Address: c.scope.Address(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "calls overlap: " + c.address.String() + " began while another call of the same " +
			"attempt was in progress. The order of calls from a program's own goroutines is not deterministic, so a resumed run may refuse " +
			"them. Use actors.Map or actors.Parallel for calls in parallel, or Prepare each call before its goroutine begins; " +
			"core.Step is for code that is not a call"},
	}
	_ = c.root.run.Append(c.scope, rec) // if the attempt is over, the warning is lost
}

// leaveDirect undoes what checkOverlap counted for a direct call.
func (c *Call) leaveDirect() {
	in := c.scope.claims()
	in.direct.Add(-1)
	if !c.counted {
		return
	}
	same := sameCall{c.spec.Name, c.recall.input}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.inProgress[same]--; in.inProgress[same] == 0 {
		delete(in.inProgress, same)
	}
}
