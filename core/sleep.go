package core

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Sleep returns when d has passed since it was called first, also if the run was
// interrupted meanwhile or its process has ended: a run that is resumed sleeps
// for the rest, and does not sleep again where it has slept. Runners park a run
// that has long to sleep, and open it again when it goes on. Then the attempt is
// suspended, as by [Await], and Sleep returns an *[InterruptedError], which the
// handler returns in turn.
//
// Its error is otherwise that of the end of ctx. A d of zero or less returns at
// once, and outside a run Sleep waits without any record.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	s := inRun(ctx)
	if s == nil || s.call == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	id, claimed, suspended := s.claimQuestion(sleepMark)
	if suspended != nil {
		return suspended
	}
	q := Question{ID: id, Text: fmt.Sprintf("sleeps for %v", d)}
	suspended, err := s.ask(ctx, q, DefaultAnswer{d, encodedNil}, claimed, func([]byte) error { return nil })
	if suspended != nil {
		s.Suspend(suspended)
		return suspended
	}
	return err
}

// encodedNil is what time answers.
var encodedNil = []byte{0xc0}

// Sleeps reports whether the question is a [Sleep], which nobody is to answer.
func (q Question) Sleeps() bool { return strings.Contains(q.ID, sleepMark) }

// sleepsHere reports whether the process waits until then.
func (s *Scope) sleepsHere(due time.Time) bool {
	park := s.root.settings.Park
	return !s.root.settings.Strict && !due.IsZero() && (park == 0 || time.Until(due) <= park)
}

// sleep waits until then, or until ctx or the attempt has ended, or nothing new
// may begin. It returns the suspension that this is, or the end of a context that
// the handler has derived.
func (s *Scope) sleep(ctx context.Context, due time.Time) (*InterruptedError, error) {
	s.call.sleep(ctx, time.Until(due))
	if e := s.ending(); e != nil {
		return e, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.root.draining.Load(), nil
}
