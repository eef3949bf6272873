package engine

import (
	"slices"

	"github.com/reprise-go/reprise/record"
)

// This file keeps count of the calls that are to be undone if they end in doubt.

// isUndoneInDoubt reports whether the call is to be undone if it ends in doubt.
func (c *Call) isUndoneInDoubt() bool {
	return c.doubtful && !c.isInCompensation() && !c.mayBeParents()
}

// followDoubt follows a record of the call, after which it has come as far as p.
func (c *Call) followDoubt(p *record.Progress, rec *record.Record) {
	switch compensable := rec.Detail != nil && rec.Detail.Compensable; {
	case rec.Status == record.StatusCompleted && compensable: // it was added as completed
	case !p.InDoubt():
		c.dropDoubt()
	case compensable:
		c.makeCompleted().addDoubt(c)
	}
}

// addDoubt adds a call that begins an attempt, or failed in doubt, as the latest.
func (all *completed) addDoubt(c *Call) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.begun = &completedCall{
		Completed: Completed{Address: c.address, Kind: c.spec.Kind, Name: c.spec.Name, Nth: all.number(c), InDoubt: true},
		call:      c,
	}
	all.calls = append(all.calls, c.begun)
	all.used.Store(true)
}

// dropDoubt removes the call: it is not in doubt.
func (c *Call) dropDoubt() {
	if c.begun == nil {
		return
	}
	all := c.makeCompleted()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(c.begun)
}

// take reports whether a call is still in doubt, and has its number kept: if the
// call goes on, that is another effect.
func (all *completed) take(c *completedCall) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !slices.Contains(all.calls, c) {
		return false
	}
	c.taken = true
	return true
}
