package engine

import (
	"slices"

	"github.com/reprise-go/reprise/record"
)

// This file keeps track of the calls that must be undone if they end in doubt.

// isUndoneInDoubt reports whether the call must be undone if it ends in doubt.
func (c *Call) isUndoneInDoubt() bool {
	return c.compensableInDoubt && !c.isInCompensation() && !c.mayShareParentEffect()
}

// followDoubt updates the calls to be undone after a record of the call has been appended. p is the
// call's progress after that record.
func (c *Call) followDoubt(p *record.Progress, rec *record.Record) {
	switch compensable := rec.Detail != nil && rec.Detail.Compensable; {
	case rec.Status == record.StatusCompleted && compensable: // it was added when the call completed
	case !p.InDoubt():
		c.dropDoubt()
	case compensable:
		c.makeCompensables().addDoubt(c)
	}
}

// addDoubt adds, as the latest call, a call that begins an attempt or has failed in doubt.
func (all *compensableCalls) addDoubt(c *Call) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.doubtEntry = &completedCall{
		Completed: Completed{Address: c.address, Kind: c.spec.Kind, Name: c.spec.Name, Nth: all.number(c), InDoubt: true},
		call:      c,
	}
	all.calls = append(all.calls, c.doubtEntry)
	all.used.Store(true)
}

// dropDoubt removes the call because it is not in doubt.
func (c *Call) dropDoubt() {
	if c.doubtEntry == nil {
		return
	}
	all := c.makeCompensables()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(c.doubtEntry)
}

// take reports whether a call is still in doubt. If so, it reserves the number of the call's
// compensation: if the call continues after that, its effect is a different one.
func (all *compensableCalls) take(c *completedCall) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !slices.Contains(all.calls, c) {
		return false
	}
	c.taken = true
	return true
}
