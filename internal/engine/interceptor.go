package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/record"
)

// An Interceptor is called around the attempts of calls: of all calls of a run
// (state.WithInterceptors), of one actor ([Spec].Interceptors) or of one event
// ([ExecutionEvent.WithInterceptors]). The run's interceptors are outermost; within each list, the
// first is outermost. Groups have no interceptors, and neither do branches that are functions; the
// calls inside them do. A nil function does nothing.
//
// The comment of core.Interceptor says what the functions may do.
type Interceptor struct {
	Attempt func(ctx context.Context, call *CallInfo, next func(context.Context) error) error
	Retry   func(call *CallInfo, err error) (giveBack func(), refused error)
}

// A CallInfo describes an attempt of a call to an [Interceptor]. Its methods may be used only on
// the goroutine that called the interceptor, and only until the interceptor returns.
type CallInfo struct {
	RunID   string         // empty outside a run
	Tags    []string       // tags of the run; must not be modified
	Address record.Address // address of the call; zero outside a run
	Kind    record.Kind
	Name    string // name of the actor
	Number  int    // number of the attempt, from 1

	in *interception
}

// Input returns the encoded input of the call. It must not be changed.
func (i *CallInfo) Input() ([]byte, error) { return i.in.c.typed.EncodeInput() }

// InputHash returns a hash of the input: of the result of [Definition.Identify]
// if there is one, and otherwise of the whole input. (The method of an
// [Identifier] is not used, because it leaves out parts that an answer may
// depend on.)
func (i *CallInfo) InputHash() (record.Hash, error) { return i.in.c.typed.WholeIdentity() }

var (
	errNoOutput  = errors.New("core: an interceptor asked for the output of an attempt that has not succeeded")
	errNotKept   = errors.New("core: the output of an actor with NoStore is not available to interceptors")
	errAnswered  = errors.New("core: an interceptor answered an attempt that already has a result")
	errDoubted   = errors.New("core: an interceptor answered an attempt that may have taken effect; its actor must not repeat an effect, so the call stays in doubt")
	errNextTwice = errors.New("core: an interceptor called next twice, or after it returned or answered; an attempt is made once")
	errNoAttempt = errors.New("core: an interceptor did not make the attempt, answer it, or return an error")
	errTooLate   = errors.New("core: an interceptor called Wait after the attempt was made")

	errNoTimeLeft = fmt.Errorf("RetryTimeout: %w", context.DeadlineExceeded)

	errForeignContext = errors.New("core: an interceptor called next with a context that is not derived from its own")
)

// Output returns the encoded output of the attempt, once next has succeeded. It must not be
// modified. For an actor with NoStore, Output returns an error.
func (i *CallInfo) Output() ([]byte, error) {
	switch in := i.in; {
	case in.over || in.state != made || in.r.Err != nil:
		return nil, errNoOutput
	case in.c.spec.NoStore:
		return nil, errNotKept
	case in.r.Kept != nil && in.r.Kept.Encoded != nil:
		return in.r.Kept.Encoded, nil
	default:
		return in.c.typed.EncodeOutput()
	}
}

// Answer gives the attempt an output, either without running its handler or after the handler has
// failed. The record of the completed call then has Detail.Cached set. encoded is an output of the
// actor, as returned by [CallInfo.Output]. Postconditions are checked. If they do not hold, or the
// output does not fit the type, Answer returns an error, and next can still be called. Answer also
// returns an error if the handler may have had an effect that must not be repeated: see
// InDoubtPolicy.
func (i *CallInfo) Answer(encoded []byte) error {
	in := i.in
	switch {
	case in.over || in.suspended() != nil || in.state == answered || in.state == made && in.r.Err == nil:
		return errAnswered
	case in.c.spec.NoStore:
		return errNotKept
	case in.state == made && in.c.mustNotRepeat() && (in.r.traits.MarkedInDoubt || in.c.mayHaveActed(&in.r)):
		return errDoubted
	}
	ctx, cancel := in.limitedContext()
	defer cancel()
	if r := in.c.typed.Answer(ctx, encoded); r.Err != nil {
		in.c.typed.Clear()
		return r.Err
	}
	in.state = answered
	return nil
}

// Answered reports whether an interceptor has answered the attempt.
func (i *CallInfo) Answered() bool { return i.in.state == answered }

// Annotate sets an attribute of the attempt, like [Annotate]. It has no effect once Attempt has
// returned.
func (i *CallInfo) Annotate(key string, value any) {
	if !i.in.over {
		i.in.s.ensureState().annotate(key, value)
	}
}

// Usage returns the usage of the attempt so far, without the calls inside it.
func (i *CallInfo) Usage() record.Usage {
	if in := i.in.s.state.Load(); in != nil {
		if used := in.used.Load(); used != nil {
			return *used
		}
	}
	return record.Usage{}
}

// AddUsage adds u to the attempt's usage, like [AddUsage]. It has no effect once Attempt has
// returned.
func (i *CallInfo) AddUsage(u record.Usage) {
	if !i.in.over {
		addUsage(&i.in.s.ensureState().used, u)
	}
}

// Compensable reports whether the call may have to be compensated once it has completed: its actor
// has a compensation, or it has already made calls that can be compensated.
func (i *CallInfo) Compensable() bool {
	c := i.in.c
	return c.compensable || c.compensableInDoubt || c.containsCompensable()
}

// Made reports whether the handler of the attempt has run, even if an interceptor has
// answered since.
func (i *CallInfo) Made() bool { return i.in.ran() }

// Err returns the error of the handler, as next returned it, even if an interceptor has
// answered since. It returns nil if the handler has not failed.
func (i *CallInfo) Err() error {
	if i.in.failed == nil {
		return nil
	}
	return i.in.failed
}

// RunCounts returns the counts of the run since it began. They include this attempt, which has
// already begun. Outside a run, they are zero.
func (i *CallInfo) RunCounts() record.Counts {
	return i.in.c.root.settings.RunCounts()
}

// Wait waits for d before the attempt. If ctx ends, the run is interrupted, or nothing new may
// begin in the run, Wait returns an error that the interceptor must return. The reason why, such as
// "the limit of requests per minute", is logged in the run. If the wait would not end before
// RetryTimeout or the deadline of ctx, Wait returns an error at once. If the wait is longer than
// the threshold of state.WithParking, the run is parked: Wait returns an error at once, and the
// attempt is made when the time has passed.
func (i *CallInfo) Wait(ctx context.Context, d time.Duration, why string) error {
	return i.waitFor(ctx, nil, d, d, why)
}

// WaitFor is like Wait, but waits until ready is closed, for a time that is not known exactly.
// expected is how long this is likely to take; it is used in the log line, for time limits, and to
// decide whether to park the run.
func (i *CallInfo) WaitFor(ctx context.Context, ready <-chan struct{}, expected time.Duration, why string) error {
	if isClosed(ready) {
		expected = 0
	}
	return i.waitFor(ctx, ready, expected, noEnd, why)
}

// noEnd is longer than any wait.
const noEnd = 100 * 365 * 24 * time.Hour

func (i *CallInfo) waitFor(ctx context.Context, ready <-chan struct{}, d, most time.Duration, why string) error {
	in := i.in
	if in.over || in.state != begun {
		return errTooLate
	}
	if d <= 0 {
		return in.stopError(ctx)
	}
	if total := in.c.policy.RetryTimeout; total > 0 && in.spentUntil(time.Now()) >= total-d {
		return fmt.Errorf("core: waiting %v for %s would take too long: %w", d, why, errNoTimeLeft)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return fmt.Errorf("core: waiting %v for %s would take too long: %w", d, why, context.DeadlineExceeded)
	}
	if in.c.parks(ctx, d) && !in.c.root.isOutside() {
		return in.park(d, why)
	}
	i.Log(slog.LevelInfo, fmt.Sprintf("waits %v for %s", d, why), map[string]any{"wait": d.String()})
	in.c.sleepOutsideSlot(ctx, most, ready)
	return in.stopError(ctx)
}

// park suspends the attempt, and the run with it, until the attempt may be made.
func (in *interception) park(d time.Duration, why string) error {
	e := parkedUntil("the attempt waits for "+why+" and begins", time.Now().Add(d))
	in.parked = d
	in.s.Suspend(e)
	return e
}

// Log appends a line to the log of the run, with the address of the call. The
// values of metadata must be allowed in a record ([record.Detail]). The line is
// lost outside a run, or if the run is closed.
func (i *CallInfo) Log(level slog.Level, message string, metadata map[string]any) {
	c := i.in.c
	if c.root.isOutside() {
		return
	}
	_ = c.root.run.Append(nil, record.Record{
		Time: time.Now().Round(0).UTC(), Kind: record.KindLog, Status: record.StatusRecorded, Address: c.address,
		Detail: &record.Detail{Severity: level, Message: message, Metadata: metadata},
	})
}
