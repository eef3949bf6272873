package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Sleep is core.Sleep.
func Sleep(ctx context.Context, d time.Duration) error {
	if CanAsk(ctx) {
		// Await even if d is not positive. d may be the time until a given instant, and the run may
		// have been stopped before that instant and resumed after it.
		q := Question{Awaits: record.AwaitTime, Text: fmt.Sprintf("sleeps for %v", max(d, 0))}
		return Await(ctx, q, DefaultAnswer{max(d, 1), encodedNil}, func([]byte) error { return nil })
	}
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// encodedNil is the answer to a sleep whose time has passed.
var encodedNil = []byte{0xc0}

// sleepsHere reports whether the process itself waits until due. As with parking, the process keeps
// the run if there is a deadline, since the deadline could not end a parked run.
func (s *Scope) sleepsHere(ctx context.Context, due time.Time) bool {
	if s.root.settings.Strict || due.IsZero() {
		return false
	}
	park := s.root.settings.Park
	_, limited := ctx.Deadline()
	return park == 0 || limited || ctx.Err() != nil || time.Until(due) <= park
}

// sleep waits until due, until ctx or the attempt ends, or until the run drains. It returns the
// suspension if the attempt or the run ended, and an error if a context derived by the handler
// ended. The error is recorded, because the sleep may already be over when the run is resumed.
func (s *Scope) sleep(ctx context.Context, id string, due time.Time) (*InterruptedError, error) {
	s.call.sleep(ctx, time.Until(due), nil)
	if e := s.endCause(); e != nil {
		return e, nil
	}
	if err := context.Cause(ctx); err != nil {
		ended := record.Record{
			Time: time.Now().UTC().Round(0), Address: s.Address(), Attempt: s.Attempt(), Name: id,
			Kind: record.KindAnswer, Status: record.StatusRecorded, Err: err, Class: record.Classify(err),
			Detail: &record.Detail{Output: encodedNil},
		}
		if lost := s.root.run.Append(s, ended); lost != nil {
			return nil, lost
		}
		return nil, err
	}
	return s.root.draining.Load(), nil
}
