package core

import (
	"context"
	"strconv"
)

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
		address := s.claim(groupPrefix + escape(name))
		if claimed := s.call.root.settings.Claimed; claimed != nil {
			claimed(s, address, Hash{})
		}
		g.scope = branchScope(g.ctx, s, address)
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
	return &Scope{outer: ctx, call: &call{root: parent.call.root, parent: parent, address: a}}
}

// A RecalledGroup is what restored history says of a group that is made again
// and in which a branch may have failed. Branches are numbered from 1.
type RecalledGroup struct {
	// First are the branches that may have failed, in the order in which they
	// did: all their calls have outcomes. Whether one has failed is known when
	// it was made again; so they go first, one after another until one fails.
	First []int

	// Ended are the other branches that have calls, all of them with outcomes.
	Ended []int
}

// groupRecaller is a run that resumes groups.
type groupRecaller interface {
	// RecallGroup returns what was recorded of the group whose scope is s, nil
	// if no branch of it can have failed.
	RecallGroup(s *Scope) *RecalledGroup

	// EndGroup is told that the group has failed as it was recorded, and that
	// nothing in it is executed any more.
	EndGroup(s *Scope)
}

// Recall returns what was recorded of a group that fails fast, nil if none of
// its branches can have failed.
func (g *Group) Recall() *RecalledGroup {
	if g.scope == nil || !g.scope.call.root.settings.Recalls {
		return nil
	}
	if run, ok := g.scope.call.root.run.(groupRecaller); ok {
		return run.RecallGroup(g.scope)
	}
	return nil
}

// End says that the group failed with err, as it had on record. Its calls that
// have no outcome are suspended from now on, as by Cancel; those that have one
// are still recalled, in contexts that go on.
func (g *Group) End(err error) {
	g.scope.stopped.Store(&InterruptedError{Reason: InterruptGroup, Cause: err, origin: g.scope})
	if run, ok := g.scope.call.root.run.(groupRecaller); ok {
		run.EndGroup(g.scope)
	}
}

// Over is why the group that s is a branch of has ended on record (see
// [Group.End]), or a group around that; nil otherwise.
func (s *Scope) Over() *InterruptedError {
	for ; s != nil && !s.IsAttempt(); s = s.call.parent {
		if e := s.stopped.Load(); e != nil && e.origin == s {
			return e
		}
	}
	return nil
}
