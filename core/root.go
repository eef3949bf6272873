package core

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
)

// A Root numbers the root calls of a run, over all of its contexts.
type Root struct {
	run         Run
	interrupted atomic.Pointer[InterruptedError]
	mu          sync.Mutex
	numbering
}

// NewRoot returns the root of run.
func NewRoot(run Run) *Root { return &Root{run: run} }

// Interrupt tells the calls of the run why their contexts end. It comes before
// these are cancelled: calls that had to ask a context for the cause would
// queue for its lock, all of them. Only the first counts.
func (r *Root) Interrupt(e *InterruptedError) { r.interrupted.CompareAndSwap(nil, e) }

// Context returns ctx with the run's root scope in it. Its calls are
// interrupted when ctx ends.
func (r *Root) Context(ctx context.Context) context.Context {
	return &Scope{outer: ctx, call: &call{run: r.run, root: r}}
}

// A Group is a scope whose branches number their calls each for itself, and
// can be cancelled together without suspending the call that made the group.
// Outside a run its branches are plain contexts.
type Group struct {
	scope  *Scope // nil outside a run
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewGroup claims the next address for a group of the name in the scope of
// ctx. Cancel must be called in the end, also with a nil error.
func NewGroup(ctx context.Context, name string) *Group {
	g := new(Group)
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	if s := scopeOf(ctx); s != nil {
		g.scope = branchScope(g.ctx, s, s.claim(groupPrefix+escape(name)))
	}
	return g
}

// Branch returns the context for branch i, from 1. It is to be called once
// for each i.
func (g *Group) Branch(i int) context.Context {
	if g.scope == nil {
		return g.ctx
	}
	return branchScope(g.ctx, g.scope, newAddress(g.scope.path(), strconv.Itoa(i), 1))
}

// Cancel interrupts the calls of every branch, because err happened to one.
func (g *Group) Cancel(err error) {
	g.cancel(&InterruptedError{Reason: InterruptGroup, Cause: err, origin: g.scope})
}

func branchScope(ctx context.Context, parent *Scope, a Address) *Scope {
	return &Scope{outer: ctx, call: &call{run: parent.call.run, parent: parent, address: a}}
}
