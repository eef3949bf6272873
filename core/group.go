package core

import (
	"context"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// group is the end that an attempt of a group has of its own.
type group struct {
	cancel context.CancelCauseFunc
	failed atomic.Bool
}

// beginGroup gives the scope of a group an end of its own.
func (s *Scope) beginGroup() {
	ctx, cancel := context.WithCancelCause(s.outer)
	s.outer, s.group = ctx, &group{cancel: cancel}
}

// endGroup frees what beginGroup took.
func (s *Scope) endGroup() { s.group.cancel(nil) }

// FailGroup ends the group whose handler ctx was given to, because cause
// happened to one of its branches: its other branches are interrupted, and the
// group fails whatever its handler returns. Only the first cause counts.
// Anywhere else it does nothing.
func FailGroup(ctx context.Context, cause error) {
	s := scopeOf(ctx)
	if s == nil || s.group == nil || !s.group.failed.CompareAndSwap(false, true) {
		return
	}
	s.group.cancel(&InterruptedError{Reason: record.InterruptGroup, Cause: cause, Origin: s})
}
