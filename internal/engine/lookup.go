package engine

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// lookUp completes the call if its outcome can be found in an external system. It reports
// whether the call has ended. The search continues even if the attempt of s ends. r is that
// attempt, or nil if none was made.
func (c *Call) lookUp(p *record.Progress, s *Scope, r *attemptEnd) (ended bool, err error) {
	at := &Scope{outer: s.outer, root: c.root, call: c, attempt: s.attempt}
	defer at.close()
	if s.outer.Err() != nil && c.parent.context().Err() == nil { // a deadline that was set for this call must not end the search
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(s.outer))
		defer cancel(nil)
		around := c.parent.context()
		defer context.AfterFunc(around, func() { cancel(context.Cause(around)) })()
		at.outer = ctx
	}
	found, looked := c.typed.LookUp(at.context())
	switch {
	case looked.Err != nil && found:
		return true, c.refuse(p, s, looked, record.ReasonCondition)
	case looked.Err != nil:
		return true, c.halt(fmt.Errorf("core: it is not known whether %s took effect: %w", c.address, looked.Err))
	case !found:
		return false, nil
	}
	if looked = c.typed.KeepOutput(at.context()); looked.Err != nil {
		return true, c.halt(looked.Err) // the outcome will be found again when it can be recorded
	}
	completed := attemptEnd{Result: looked}
	if r != nil {
		completed.ended, completed.took = r.ended, r.took
	}
	return true, c.complete(p, s, &completed, "the call was looked up and found completed")
}
