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
// ([ExecutionEvent.WithInterceptors]). Those of the run are outermost, and of
// each list the first is. Groups and their branches have no interceptors; the
// calls inside them do. A nil function does nothing.
//
// What the functions may do is documented at core.Interceptor.
type Interceptor struct {
	Attempt func(ctx context.Context, call *CallInfo, next func(context.Context) error) error
	Retry   func(call *CallInfo, err error) (giveBack func(), refused error)
}

// A CallInfo is an attempt of a call as an [Interceptor] sees it. Its methods
// are for the goroutine that called the interceptor, and until that returns.
type CallInfo struct {
	RunID   string         // empty outside a run
	Tags    []string       // of the run; they must not be changed
	Address record.Address // of the call; zero outside a run
	Kind    record.Kind
	Name    string // of the actor
	Number  int    // of the attempt, from 1

	in *interception
}

// Input returns the encoded input of the call. It must not be changed.
func (i *CallInfo) Input() ([]byte, error) { return i.in.c.typed.EncodeInput() }

// InputHash returns a hash of the input: of what [Definition.Identify] makes of
// it, or else of all of it. (The method of an [Identifier] is not used, since
// it leaves out parts that an answer may depend on.)
func (i *CallInfo) InputHash() (record.Hash, error) { return i.in.c.typed.WholeIdentity() }

var (
	errNoOutput  = errors.New("core: an interceptor asks for an output, and the attempt has not succeeded")
	errNotKept   = errors.New("core: the output of an actor that is NoStore is not given to interceptors")
	errAnswered  = errors.New("core: an interceptor answers an attempt that has a result")
	errNextTwice = errors.New("core: an interceptor called next twice, or after it had returned or answered; an attempt is made once")
	errNoAttempt = errors.New("core: an interceptor neither made the attempt nor answered it nor returned an error")
	errTooLate   = errors.New("core: an interceptor waits after the attempt was made")

	errNoTimeLeft = fmt.Errorf("RetryTimeout: %w", context.DeadlineExceeded)

	errForeignContext = errors.New("core: an interceptor called next with a context that is not derived from its own")
)

// Output returns the encoded output of the attempt after next succeeded. It
// must not be changed. It is an error for an actor that is NoStore.
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

// Answer gives the attempt an output without its handler, or after the handler
// failed: the record of the completed call has Detail.Cached set. Encoded is an
// output of the actor as [CallInfo.Output] returned it. Postconditions are
// checked. If they do not hold, or the output does not fit the type, Answer
// returns an error, and next can still be called.
func (i *CallInfo) Answer(encoded []byte) error {
	in := i.in
	switch {
	case in.over || in.suspended() != nil || in.state == answered || in.state == made && in.r.Err == nil:
		return errAnswered
	case in.c.spec.NoStore:
		return errNotKept
	}
	ctx, cancel := in.limited()
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

// Annotate sets an attribute of the attempt, as [Annotate] does, until Attempt
// returns.
func (i *CallInfo) Annotate(key string, value any) {
	if !i.in.over {
		i.in.s.inner().annotate(key, value)
	}
}

// Usage returns what the attempt itself has consumed so far, without the calls
// inside it.
func (i *CallInfo) Usage() record.Usage {
	if in := i.in.s.inside.Load(); in != nil {
		if used := in.used.Load(); used != nil {
			return *used
		}
	}
	return record.Usage{}
}

// AddUsage counts u for the attempt, as [AddUsage] does, until Attempt returns.
func (i *CallInfo) AddUsage(u record.Usage) {
	if !i.in.over {
		addUsage(&i.in.s.inner().used, u)
	}
}

// Made reports whether the handler of the attempt has run.
func (i *CallInfo) Made() bool { return i.in.state == made }

// RunCounts returns the numbers of the run, over all its openings. They include
// this attempt, which has begun. Outside a run they are zero.
func (i *CallInfo) RunCounts() record.Counts {
	if counts := i.in.c.root.settings.Counts; counts != nil {
		return counts()
	}
	return record.Counts{}
}

// Wait waits for d before the attempt, or until ctx ends, the run is
// interrupted, or nothing new may begin in it, and then returns an error that
// the interceptor must return. The wait is recorded as a line of the log that
// says why, such as "the limit of requests per minute". A wait that does not
// end before RetryTimeout or the deadline of ctx does not begin. One that is
// longer than the run waits in the process (state.WithParking) parks the run:
// Wait returns an error at once, and the attempt is made when the time has
// passed.
func (i *CallInfo) Wait(ctx context.Context, d time.Duration, why string) error {
	return i.waitFor(ctx, nil, d, d, why)
}

// WaitFor is Wait for a time that is not known exactly: until ready is closed.
// Expected is how long that is likely to take, for the line in the log, the
// limits of time and the decision to park the run.
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
		return in.stopping(ctx)
	}
	if total := in.c.policy.RetryTimeout; total > 0 && in.spentUntil(time.Now()) >= total-d {
		return fmt.Errorf("core: a wait of %v for %s does not end in time: %w", d, why, errNoTimeLeft)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return fmt.Errorf("core: a wait of %v for %s does not end in time: %w", d, why, context.DeadlineExceeded)
	}
	if in.c.parks(ctx, d) && !in.c.root.isOutside() {
		return in.park(d, why)
	}
	i.Log(slog.LevelInfo, fmt.Sprintf("waits %v for %s", d, why), map[string]any{"wait": d.String()})
	in.c.sleepInSlot(ctx, most, ready)
	return in.stopping(ctx)
}

// park suspends the attempt, and with it the run, until it may be made.
func (in *interception) park(d time.Duration, why string) error {
	e := parkedUntil("the attempt waits for "+why+" and begins", time.Now().Add(d))
	in.parked = d
	in.s.Suspend(e)
	return e
}

// Log appends a line to the log of the run, with the address of the call. The
// values of metadata are those that a record can have ([record.Detail]). The
// line is lost outside a run, and if the run is closed.
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
