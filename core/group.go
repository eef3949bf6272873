package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// group is the end that an attempt of a group has of its own.
type group struct {
	cancel   context.CancelCauseFunc
	end      atomic.Pointer[groupEnd] // nil before EndGroup
	recorded bool                     // its outcome is
}

// groupEnd is why a group has ended before its handler returned.
type groupEnd struct{ cause error }

// timedOut reports whether the group has ended because its time was over.
func (g *group) timedOut() bool {
	end := g.end.Load()
	return end != nil && end.cause == ErrGroupTimeout //nolint:errorlint // itself, not that of a group inside
}

// failure is what the group fails with although its handler returned no error,
// nil for nothing.
func (g *group) failure() error {
	if end := g.end.Load(); end != nil && end.cause != errEnough { //nolint:errorlint // of this package
		return end.cause
	}
	return nil
}

// takeBranch gives the branch of the group to the caller, once.
func (s *Scope) takeBranch(i int) error {
	if s == nil || s.call == nil || s.call.spec.Kind != record.KindGroup {
		return errors.New("it is made outside the handler of a group")
	}
	if most := s.call.spec.Branches; i < 1 || i > most {
		return fmt.Errorf("the group has branches 1 to %d", most)
	}
	in := s.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.branches == nil {
		in.branches = make([]bool, s.call.spec.Branches)
	}
	if in.branches[i-1] {
		return errors.New("the group has made this branch before")
	}
	in.branches[i-1] = true
	return nil
}

// beginGroup gives the scope of a group an end of its own.
func (s *Scope) beginGroup() {
	ctx, cancel := context.WithCancelCause(s.outer)
	s.outer, s.group = ctx, &group{cancel: cancel}
}

// endGroup frees what beginGroup took.
func (s *Scope) endGroup() { s.group.cancel(nil) }

// EndGroup ends the group whose handler ctx was given to, and interrupts its
// other branches. With a cause, which is what happened to one of the branches, or
// [ErrGroupTimeout], the group fails: with what its handler returns then, and with
// the cause if that is nil. Without a cause it has what it needs, and ends as its
// handler does. Only the first call counts. Anywhere else it does nothing.
func EndGroup(ctx context.Context, cause error) {
	if cause == nil {
		cause = errEnough
	}
	s := ScopeOf(ctx)
	if s == nil || s.group == nil || !s.group.end.CompareAndSwap(nil, &groupEnd{cause}) {
		return
	}
	s.group.cancel(&InterruptedError{Reason: record.InterruptGroup, Cause: cause, Origin: s})
}

var errEnough = errors.New("the group has what it needs")

// GroupRecorded reports whether the group whose handler ctx was given to has its
// outcome on record. Its branches that have none were interrupted when it ended,
// and do not begin.
func GroupRecorded(ctx context.Context) bool {
	s := ScopeOf(ctx)
	return s != nil && s.group != nil && s.group.recorded
}
