package core

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Sleep returns when d has passed since it was first called, even if the run
// was interrupted meanwhile or its process ended: a run that is resumed sleeps
// for the rest of d, and not again if d has passed. A runner parks a run that
// sleeps for long, and opens it again when the time has passed. The attempt is
// then suspended, as by [Await]: Sleep returns an *[InterruptedError], and the
// handler returns that.
//
// Otherwise the error is the cause of the end of ctx. If d is zero or less,
// Sleep returns at once. Outside a run it waits without a record.
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
	q := Question{ID: id, Asks: record.AsksTime, Text: fmt.Sprintf("sleeps for %v", d)}
	suspended, err := s.ask(ctx, q, DefaultAnswer{d, encodedNil}, claimed, func([]byte) error { return nil })
	if suspended != nil {
		s.Suspend(suspended)
		return suspended
	}
	return err
}

// encodedNil is the answer that time gives.
var encodedNil = []byte{0xc0}

// sleepsHere reports whether the process itself waits until due.
func (s *Scope) sleepsHere(due time.Time) bool {
	park := s.root.settings.Park
	return !s.root.settings.Strict && !due.IsZero() && (park == 0 || time.Until(due) <= park)
}

// sleep waits until due, until ctx or the attempt ends, or until the run
// drains. It returns the suspension if the attempt or the run ended, and an
// error if a context ended that the handler has derived.
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
