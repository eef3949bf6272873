package core

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// group is the end that an attempt of a group has of its own.
type group struct {
	cancel   context.CancelCauseFunc
	ended    atomic.Bool // by FailGroup or EndGroup
	timedOut atomic.Bool
	recorded bool // its outcome is
}

// beginGroup gives the scope of a group an end of its own.
func (s *Scope) beginGroup() {
	ctx, cancel := context.WithCancelCause(s.outer)
	s.outer, s.group = ctx, &group{cancel: cancel}
}

// endGroup frees what beginGroup took.
func (s *Scope) endGroup() { s.group.cancel(nil) }

// FailGroup ends the group whose handler ctx was given to, because cause
// happened to one of its branches, or because its time is over, which is the
// cause [ErrGroupTimeout]: its other branches are interrupted. The handler
// returns the failure. Only the first cause counts. Anywhere else it does
// nothing.
func FailGroup(ctx context.Context, cause error) {
	s := scopeOf(ctx)
	if s == nil || s.group == nil || !s.group.ended.CompareAndSwap(false, true) {
		return
	}
	s.group.timedOut.Store(cause == ErrGroupTimeout) //nolint:errorlint // itself, not that of a group inside
	s.group.cancel(&InterruptedError{Reason: record.InterruptGroup, Cause: cause, Origin: s})
}

// EndGroup ends the group whose handler ctx was given to, because what its
// other branches have to say is not needed any more: they are interrupted. The
// group ends as its handler does.
func EndGroup(ctx context.Context) { FailGroup(ctx, errEnough) }

var errEnough = errors.New("the group has what it needs")

// GroupRecorded reports whether the group whose handler ctx was given to has its
// outcome on record. Its branches that have none were interrupted when it ended,
// and do not begin.
func GroupRecorded(ctx context.Context) bool {
	s := scopeOf(ctx)
	return s != nil && s.group != nil && s.group.recorded
}
