package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
)

// An ExecutionEvent describes a call that an actor can make. It is a value: its methods return
// changed copies, and executing it twice makes two calls.
type ExecutionEvent[In, Out any] struct {
	definition *Definition[In, Out]
	policy     *engine.Policy // the event's own level; nil if the actor decides
	tag        string
	branch     int // from 1
	inBranch   bool
	guard      *engine.Guard
}

// WithRetry sets the most specific level of retry configuration. The levels, most specific first,
// are: event, actor by name (on the run), actor, actor kind (on the run), all actors (on the run),
// built-in by kind. Levels are not merged: only the first level that is set applies. If c is
// invalid, Execute returns the error.
func (e ExecutionEvent[In, Out]) WithRetry(c RetryConfig) ExecutionEvent[In, Out] {
	e.policy = policyOrError(c)
	return e
}

// policyOrError returns the policy of c, or a policy whose Err says why c is invalid.
func policyOrError(c RetryConfig) *engine.Policy {
	policy, err := c.Policy()
	if err != nil {
		return &engine.Policy{Err: err}
	}
	return policy
}

// WithInterceptors adds interceptors around the call's attempts. They run inside the actor's
// interceptors.
func (e ExecutionEvent[In, Out]) WithInterceptors(i ...Interceptor) ExecutionEvent[In, Out] {
	e.guard = e.guards().With(i)
	return e
}

// guards returns the event's guard, which includes the actor's guard.
func (e *ExecutionEvent[In, Out]) guards() *engine.Guard {
	if e.guard == nil && e.definition != nil {
		return e.definition.guard
	}
	return e.guard
}

// WithTag puts a tag into the call's address in place of the actor's name. For example, the address
// of a step with the tag "collect" ends in "step:collect". An empty tag changes nothing.
func (e ExecutionEvent[In, Out]) WithTag(tag string) ExecutionEvent[In, Out] {
	e.tag = tag
	return e
}

// Execute makes the call: it runs the preconditions once, and then the handler, the postconditions
// and artifact storage until they succeed or the retry configuration ends the call.
//
// In a run, everything that happens is recorded. The error is a *[CallError] if the call failed,
// and an *[InterruptedError] if it was suspended: either the run, the attempt or the group that
// made the call ended, or the call waits for an answer, a signal or a time. If a context that the
// caller derived for this call ends, that is not an interrupt: the call fails with ReasonDeadline
// or ReasonContextCanceled.
//
// Without a run in ctx, the call follows the same rules with the built-in defaults and is not
// recorded. In that case, canceling ctx interrupts the call, and the deadline of ctx is the call's
// deadline. With or without a run, errors.Is finds context.Canceled in the error if the context was
// canceled, and context.DeadlineExceeded if its deadline passed.
//
// Without a timeout, the handler runs in the caller's goroutine. With a timeout, it runs in another
// goroutine, and a handler that does not return when its context ends is abandoned: its scope is
// closed and its late result is dropped.
func (e ExecutionEvent[In, Out]) Execute(ctx context.Context, in In) (Out, error) {
	if err := e.definition.Check(); err != nil {
		var zero Out
		return zero, err
	}
	if e.inBranch {
		if err := e.takeBranch(ctx); err != nil {
			var zero Out
			return zero, err
		}
	}
	t := e.prepare(ctx, in, true)
	return t.result(t.untyped.Execute())
}

// errUndefined is the error for an event whose actor is a zero value.
var errUndefined = errors.New("core: the actor was never defined: it is a zero value; make it with a constructor, such as decorators.Tool")

// InBranch turns the call into branch i (counted from 1) of the group whose handler makes it, so
// that the call's address ends in i. A handler can make each branch only once. If the call is made
// outside a group, the branch was already made, or i is below 1 or above the group's Branches,
// executing the call returns an error and runs nothing.
func (e ExecutionEvent[In, Out]) InBranch(i int) ExecutionEvent[In, Out] {
	e.branch, e.inBranch = i, true
	return e
}

// takeBranch marks the call's branch as taken, or returns an error if that is not possible.
func (e *ExecutionEvent[In, Out]) takeBranch(ctx context.Context) error {
	if err := engine.ScopeOf(ctx).TakeBranch(e.branch); err != nil {
		return fmt.Errorf("core: InBranch(%d) of %q: %w", e.branch, e.definition.spec.Name, err)
	}
	return nil
}

// Prepare claims the call's address now, for a call that is made later. Calls that are always
// prepared in the same order have the same addresses in every run, regardless of the order in which
// they are executed. A prepared call must be executed once, on any goroutine.
func (e ExecutionEvent[In, Out]) Prepare(ctx context.Context, in In) *PreparedCall[In, Out] {
	p := new(PreparedCall[In, Out])
	if p.err = e.definition.Check(); p.err == nil && e.inBranch {
		p.err = e.takeBranch(ctx)
	}
	if p.err != nil {
		return p
	}
	p.call = e.prepare(ctx, in, false)
	return p
}

// A PreparedCall is a call that already has its address but has not been made yet.
type PreparedCall[In, Out any] struct {
	call  *typedCall[In, Out] // nil if the call cannot be made
	err   error               // why the call cannot be made
	begun atomic.Bool
}

// Address returns the address of the call; it is zero outside a run.
func (p *PreparedCall[In, Out]) Address() record.Address {
	if p.call == nil {
		return record.Address{}
	}
	return p.call.untyped.Address()
}

// Recorded returns how the call ended according to the restored records: StatusCompleted or
// StatusFailed, or 0 if it has no recorded outcome.
func (p *PreparedCall[In, Out]) Recorded() record.Status {
	if p.call == nil {
		return 0
	}
	return p.call.untyped.Recorded()
}

// Execute makes the call, as [ExecutionEvent.Execute] does. ctx may be the context passed to
// Prepare, or a context derived from it.
func (p *PreparedCall[In, Out]) Execute(ctx context.Context) (Out, error) {
	if err := p.check(ctx); err != nil {
		var zero Out
		return zero, err
	}
	return p.call.result(p.call.untyped.ExecuteWith(ctx))
}

// InSlot sets the slot that the call holds while it is executed.
func (p *PreparedCall[In, Out]) InSlot(slot engine.Slot) {
	if p.call != nil {
		p.call.untyped.InSlot(slot)
	}
}

func (p *PreparedCall[In, Out]) check(ctx context.Context) error {
	if p.call == nil {
		if p.err == nil {
			return errors.New("core: the prepared call is a zero PreparedCall; Prepare returns one")
		}
		return p.err
	}
	name := p.call.definition.spec.Name
	if !p.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("core: the prepared call of %q was already executed; prepare another one", name)
	}
	if !p.call.untyped.IsOf(ctx) {
		return fmt.Errorf("core: the prepared call of %q belongs to another run than the context", name)
	}
	return nil
}

// prepare returns the call. If the call is in a run, prepare claims its address. direct is set if
// the call is executed at once.
func (e *ExecutionEvent[In, Out]) prepare(ctx context.Context, in In, direct bool) *typedCall[In, Out] {
	around := engine.ScopeOf(ctx)
	var t *typedCall[In, Out]
	if around != nil {
		t = new(typedCall[In, Out])
	} else {
		alone := new(struct {
			call   typedCall[In, Out]
			around engine.Scope
		})
		t, around = &alone.call, &alone.around
		around.InitOutside(ctx)
	}
	t.definition, t.in = e.definition, in
	plan := e.plan(around.Settings())
	plan.Direct = direct
	t.untyped.Prepare(ctx, around, t, &plan)
	return t
}

// plan returns the untyped part of the call.
func (e *ExecutionEvent[In, Out]) plan(settings *engine.Settings) engine.Plan {
	d := e.definition
	p := engine.Plan{
		Spec: &d.erased, Policy: e.level(settings), OfEvent: e.policy != nil, Guard: e.guards(), Segment: d.segment, Branch: e.branch,
		Guarded: len(d.requires) > 0, Compensable: d.compensation != nil, Doubtful: d.compensateInDoubt != nil,
	}
	if e.tag != "" {
		p.Segment = segment.OfTag(e.tag)
	}
	return p
}

// level returns the policy of the most specific level that is set.
func (e *ExecutionEvent[In, Out]) level(settings *engine.Settings) *engine.Policy {
	if e.policy != nil {
		return e.policy
	}
	kind := e.definition.spec.Kind
	if kind == record.KindCompensation {
		kind = e.definition.compensates
	}
	return level(settings, e.definition.spec.Name, kind, e.definition.policy)
}

// level returns the policy of the most specific level that is set, leaving out the event's own
// level. own is the actor's policy, or nil if it has none.
func level(settings *engine.Settings, name string, kind record.Kind, own *engine.Policy) *engine.Policy {
	if p := settings.RetryByActor[name]; p != nil && isActor(kind) {
		return p
	}
	switch {
	case own != nil:
		return own
	case !isActor(kind):
		return builtInNoRetry
	case settings.RetryByKind[kind] != nil:
		return settings.RetryByKind[kind]
	case settings.Retry != nil:
		return settings.Retry
	}
	return builtIn(kind)
}
