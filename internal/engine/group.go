package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// group is the state of an attempt of a group. The attempt can be ended before its handler returns.
type group struct {
	cancel   context.CancelCauseFunc
	end      atomic.Pointer[groupEnd] // nil before EndGroup
	recorded bool                     // the group has a recorded outcome
	reason   record.Reason            // why it was recorded as failed
}

// groupEnd says why a group ended before its handler returned.
type groupEnd struct{ cause error }

// timedOut reports whether the group ended because its time was up.
func (g *group) timedOut() bool {
	end := g.end.Load()
	return end != nil && end.cause == ErrGroupTimeout //nolint:errorlint // from this group, not from a group inside it
}

// failure returns the error of a group that failed even though its handler returned no error. It
// returns nil if the group did not fail.
func (g *group) failure() error {
	if end := g.end.Load(); end != nil && end.cause != errEnough { //nolint:errorlint // of this package
		return end.cause
	}
	return nil
}

// TakeBranch marks branch i of the group as taken. It returns an error if the group has no such
// branch, or if the branch was already taken.
func (s *Scope) TakeBranch(i int) error {
	if s == nil || s.call == nil || s.call.spec.Kind != record.KindGroup {
		return errors.New("the branch is made outside the handler of a group")
	}
	if most := s.call.spec.Branches; i < 1 || i > most {
		return fmt.Errorf("the group has the branches 1 to %d", most)
	}
	in := s.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.branches == nil {
		in.branches = make([]bool, s.call.spec.Branches)
	}
	if in.branches[i-1] {
		return errors.New("the group has already made this branch")
	}
	in.branches[i-1] = true
	return nil
}

// beginGroup prepares the scope of a group so that the group can be ended early.
func (s *Scope) beginGroup() {
	ctx, cancel := context.WithCancelCause(s.outer)
	s.outer, s.group = ctx, &group{cancel: cancel}
}

// endGroup frees the resources that beginGroup has allocated.
func (s *Scope) endGroup() { s.group.cancel(nil) }

// EndGroup ends the group whose handler received ctx, and interrupts its other branches. The cause
// is the failure of a branch, [ErrGroupTimeout], or nil. If there is a cause, the group fails with
// the error that its handler then returns, or with the cause if the handler returns no error. If
// the cause is nil, the handler's result is the group's result. Only the first call counts.
// Outside a group, EndGroup does nothing.
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

// LeaveGroup ends the group whose handler received ctx, because the group's caller leaves it before
// all branches have ended. If the caller cannot continue because one of its calls was suspended,
// the group is suspended, too, and its branches run until they end. The group is entered again when
// its caller is entered again.
func LeaveGroup(ctx context.Context) {
	if s := ScopeOf(ctx); s != nil && s.group != nil {
		around := s.call.parent
		e := around.blockedBy()
		if e == nil {
			e = around.suspended() // a root call, which does not block other calls
		}
		if e != nil {
			s.Suspend(e)
			return
		}
	}
	EndGroup(ctx, nil)
}

var errEnough = errors.New("the group needs no more branches")

// MisfitChoice stops the run because the choice that a group recorded, in the call with the given
// address, is no longer among the program's branches. ctx is the context of the group's handler.
// The result is the suspension.
func MisfitChoice(ctx context.Context, choice record.Address, recorded, asked string) error {
	s := ScopeOf(ctx)
	d := &DivergenceError{RunID: s.root.settings.RunID, How: "output", Address: choice, Scope: s.Path(), Recorded: recorded, Asked: asked}
	again, err := s.root.settings.History.Differs(s, d)
	if again || err == nil { // a choice cannot be made again while its group is still running
		err = &InterruptedError{Reason: record.InterruptDiverge, Cause: d}
	}
	e := s.InterruptionBy(err)
	s.stop(e)
	return e
}

// GroupRecorded reports whether the group whose handler received ctx has a recorded outcome. In
// that case, its branches without an outcome were interrupted when the group ended, and do not
// begin. If the group failed, reason is the recorded reason.
func GroupRecorded(ctx context.Context) (reason record.Reason, recorded bool) {
	s := ScopeOf(ctx)
	if s == nil || s.group == nil {
		return record.ReasonNone, false
	}
	return s.group.reason, s.group.recorded
}
