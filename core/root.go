package core

import (
	"context"
	"sync/atomic"
)

// A Root numbers the root calls of a run, over all of its contexts.
type Root struct {
	run         Run
	settings    *Settings // of the run
	clock       clock
	interrupted atomic.Pointer[InterruptedError]
	counts      numbering
}

// NewRoot returns the root of run.
func NewRoot(run Run) *Root { return &Root{run: run, settings: run.Settings()} }

// Interrupt tells the calls of the run why their contexts end. It comes before
// these are cancelled: calls that had to ask a context for the cause would
// queue for its lock, all of them. Only the first counts.
func (r *Root) Interrupt(e *InterruptedError) { r.interrupted.CompareAndSwap(nil, e) }

// Context returns ctx with the run's root scope in it. Its calls are
// interrupted when ctx ends.
func (r *Root) Context(ctx context.Context) context.Context {
	return &Scope{outer: ctx, call: &call{root: r}}
}
