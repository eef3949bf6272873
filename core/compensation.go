package core

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
)

// A Compensation undoes the calls of one actor. See [Definition.Compensate] and
// [Definition.CompensateInDoubt].
type Compensation = engine.Compensation

// completedCall is the input of a compensation: a call that completed.
type completedCall[In, Out any] struct {
	In  In  `json:"input"`
	Out Out `json:"output"`
}

// callInDoubt is the input of the compensation of a call in doubt.
type callInDoubt[In any] struct {
	In      In   `json:"input"`
	InDoubt bool `json:"in_doubt"` // always true
}

// Compensate returns a copy whose completed calls are undone by f when the call around them fails
// for good, or when their run is cancelled. The calls made by all attempts of the failed call are
// compensated, in the reverse order of their completion. Groups and branches do not count as calls
// around them, unless a group is the root call. A completed call that has a compensation is undone
// by that compensation alone; any other completed call is undone by the compensations of the calls
// inside it.
//
// A call that did not complete is not undone, even if it is in doubt and may have taken effect; use
// [Definition.CompensateInDoubt] to undo such calls, too.
//
// Each compensation is a recorded call of kind [record.KindCompensation]. Its address is the
// address of the call that it undoes, followed by @undo/ and the actor's name. It has the actor's
// retry configuration and attempt timeout, and its own attempts. A compensation that fails for good
// does not stop the others: the error of the failed call then contains a *[CompensationError], and
// the call still counts as made (see state.Retry). If a run stops before all compensations have an
// outcome, it continues with the remaining ones when it is resumed. The time limits of the calls
// around a compensation do not apply to it; interrupting the run stops it. Calls made by f are not
// compensated.
//
// If the process ends while a compensation is running, the compensation is made again. If the
// actor's InDoubt is not InDoubtRetry, the compensation instead fails with ErrInDoubt, as it does
// after any attempt that may have taken effect (see [InDoubtPolicy]). [RetryConfig.MaxLosses]
// applies to compensations, too: after that many losses, the run is interrupted, and the remaining
// compensations wait until it is resumed. Calls to services should use the [IdempotencyKey] of the
// compensation's context.
//
// A stored run must know the compensations of its actors when it is opened (see
// state.WithCompensations), because it may have to undo what an earlier process did. Compensate
// panics for an actor whose output is not stored (Spec.NoStore).
func (d *Definition[In, Out]) Compensate(f func(context.Context, In, Out) error) *Definition[In, Out] {
	d.mustHaveFunction("Compensate", f == nil)
	d.spec.mustStoreOutput()
	own := compensatingActor(&d.spec, d.policy, func(ctx context.Context, done any) error {
		call := done.(completedCall[In, Out]) //nolint:forcetypeassert // made by c.compensate below
		return f(ctx, call.In, call.Out)
	})
	c := *d
	c.compensate = func(at *engine.Scope, nth int, found *record.Progress, in In, out Out) error {
		return own.undo(at, nth, found, completedCall[In, Out]{in, out}, false)
	}
	undo := func(at *engine.Scope, nth int, found *record.Progress, encodedIn, encodedOut []byte) error {
		var in In
		var out Out
		if err := decodeUndone(at, encodedIn, &in, "input"); err != nil {
			return err
		}
		if err := decodeUndone(at, encodedOut, &out, "output"); err != nil {
			return err
		}
		return c.compensate(at, nth, found, in, out)
	}
	c.compensation = d.spec.compensation(d.compensation, undo)
	return &c
}

func (s *Spec) mustStoreOutput() {
	if s.NoStore {
		panic(fmt.Sprintf("core: %q is NoStore, and its compensation needs the output; use one or the other", s.Name))
	}
}

// decodeUndone decodes the input or the output of a call that is being undone. at is the scope of
// that call.
func decodeUndone(at *engine.Scope, encoded []byte, v any, what string) error {
	if err := record.Decode(encoded, v); err != nil {
		return at.InterruptionBy(fmt.Errorf("core: compensate %s: its recorded %s: %w", at.Address(), what, err))
	}
	return nil
}

// compensation returns a copy of before that undoes completed calls with undo, or a new
// compensation if before is nil.
func (s *Spec) compensation(before *Compensation, undo engine.Undo) *Compensation {
	if before == nil {
		return engine.NewCompensation(s.Kind, s.Name, undo)
	}
	return before.With(undo)
}

// CompensateInDoubt returns a copy whose calls in doubt are undone by f. f receives only the call's
// input, because a call in doubt has no output. CompensateInDoubt is for sagas that must not leave
// any effect behind. It is unknown whether the call took effect, so f must accept that there may be
// nothing to undo, and that the call may already have been undone. Completed calls are undone by
// the function given to Compensate, which must have been called before.
//
// A call is in doubt if it did not complete and one of its attempts was cut off:
//   - the process ended, or the run was interrupted, while the handler ran, and the
//     call ended without being made again: the run was cancelled, or the call around
//     it failed for another reason, or another branch ended the group (actors.First);
//   - a timeout ended it: AttemptTimeout, RetryTimeout, or a timeout inside the handler, such as an
//     HTTP client's; or its context ended;
//   - the handler panicked;
//   - the handler returned an output, but a postcondition refused the output or it could
//     not be stored.
//
// Every call that failed with [ErrInDoubt] is in doubt, too: because of InDoubtFail or
// RetryConfig.LossesCount, because somebody answered that it failed (InDoubtAsk), or because its
// handler returned an error marked by [InDoubt]. A call is not in doubt if every attempt ended with
// another error from the handler, or because RetryWhen asked for another attempt. A handler that
// does not know whether it took effect must therefore mark its error with [InDoubt]. A single
// attempt that was cut off puts the call in doubt until the call completes, no matter what later
// attempts return. A call that waits for an answer or for its next attempt is in doubt only if an
// earlier attempt was cut off. A call that is made again after a crash, and completes, is undone
// once, by Compensate.
//
// Everything else is as for Compensate: when calls are undone, which calls are left to the
// compensation of a call around them, the records, the address, the attempts and the
// IdempotencyKey. In the order of compensations, the position of a call in doubt is the point at
// which it failed or, if it has no outcome, at which its last attempt began. The handler of an
// attempt that was abandoned after a timeout may still be running: f should make the service refuse
// late requests. In a fork, a call that the parent run may have made under the same idempotency key
// is left to the parent run.
//
// CompensateInDoubt panics for an agent, because an agent is never in doubt itself, and for an
// actor without Compensate.
func (d *Definition[In, Out]) CompensateInDoubt(f func(context.Context, In) error) *Definition[In, Out] {
	d.mustHaveFunction("CompensateInDoubt", f == nil)
	d.spec.mustSupportDoubt("CompensateInDoubt")
	d.spec.mustHaveCompensation(d.compensation)
	own := compensatingActor(&d.spec, d.policy, func(ctx context.Context, begun any) error {
		return f(ctx, begun.(callInDoubt[In]).In) //nolint:forcetypeassert // made by c.compensateInDoubt below
	})
	c := *d
	c.compensateInDoubt = func(at *engine.Scope, nth int, found *record.Progress, in In) error {
		return own.undo(at, nth, found, callInDoubt[In]{in, true}, true)
	}
	c.compensation = d.compensation.InDoubt(func(at *engine.Scope, nth int, found *record.Progress, encoded, _ []byte) error {
		var in In
		if err := decodeUndone(at, encoded, &in, "input"); err != nil {
			return err
		}
		return c.compensateInDoubt(at, nth, found, in)
	})
	return &c
}

// mustSupportDoubt panics if calls of the actor are never in doubt. method is the name of the
// calling method, for the message.
func (s *Spec) mustSupportDoubt(method string) {
	if s.Kind.IsEntered() {
		panic(fmt.Sprintf("core: %s does not apply to %q, which is never in doubt itself; use it for the calls that %[2]q makes", method, s.Name))
	}
}

func (s *Spec) mustHaveCompensation(c *Compensation) {
	if c == nil {
		panic(fmt.Sprintf("core: %q has CompensateInDoubt, but nothing undoes its completed calls; call Compensate first", s.Name))
	}
}

// compensatingActor returns an actor whose calls undo the calls of the actor with the given spec
// and policy.
func compensatingActor(spec *Spec, policy *engine.Policy, f func(context.Context, any) error) *Definition[any, struct{}] {
	own := &Definition[any, struct{}]{ // with any, all instantiations of Compensate share one type
		spec: Spec{
			Kind: record.KindCompensation, Name: spec.Name, Description: spec.Description,
			Retry: spec.Retry, AttemptTimeout: spec.AttemptTimeout, InDoubt: min(spec.InDoubt, InDoubtFail),
		},
		segment: segment.Of(spec.Name), policy: policy, compensates: spec.Kind,
		handler: func(ctx context.Context, done any) (struct{}, error) { return struct{}{}, f(ctx, done) },
	}
	own.erased = own.spec.erased()
	return own
}

// Compensations returns the actor's compensation, if it has one.
func (d *Definition[In, Out]) Compensations() []*Compensation {
	if d == nil || d.compensation == nil {
		return nil
	}
	return []*Compensation{d.compensation}
}

// undo makes the nth compensation of a call, counted from 1. at is the scope of that call. A
// compensation has no ordinal, because the program does not claim it.
func (d *Definition[In, Out]) undo(at *engine.Scope, nth int, found *record.Progress, in In, ofDoubt bool) error {
	t := &typedCall[In, Out]{definition: d, in: in}
	e := d.Event()
	plan := e.plan(at.Settings())
	t.untyped.PrepareCompensation(at, t, &plan, nth, found, ofDoubt)
	return t.untyped.Execute()
}

func (t *typedCall[In, Out]) Compensate(at *engine.Scope, nth int, found *record.Progress) error {
	return t.definition.compensate(at, nth, found, t.in, t.out)
}

func (t *typedCall[In, Out]) CompensateInDoubt(at *engine.Scope, nth int, found *record.Progress) error {
	return t.definition.compensateInDoubt(at, nth, found, t.in)
}
