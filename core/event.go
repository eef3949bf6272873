package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// An ExecutionEvent is one call of an actor that is yet to be made. It is a
// value: its methods return changed copies, and executing it twice is two
// calls.
type ExecutionEvent[In, Out any] struct {
	definition *Definition[In, Out]
	policy     *Policy // the event's own level; nil leaves the decision to the actor
	tag        string
}

// WithRetry sets the most specific level of retry configuration. The levels,
// most specific first, are: event, actor, actor kind and global (both on the
// run), built-in by kind. They do not merge: the first that is set decides
// alone. An invalid configuration is the error of Execute.
func (e ExecutionEvent[In, Out]) WithRetry(c RetryConfig) ExecutionEvent[In, Out] {
	policy, err := NewPolicy(c)
	if err != nil {
		policy = &Policy{err: err}
	}
	e.policy = policy
	return e
}

// WithTag names the call in its address by what it is for ("step:collect")
// instead of by the actor. An empty tag is none.
func (e ExecutionEvent[In, Out]) WithTag(tag string) ExecutionEvent[In, Out] {
	e.tag = tag
	return e
}

// Execute makes the call: preconditions once; then handler, postconditions
// and artifact storage until they succeed or the retry configuration ends it.
//
// In a run, everything that happens is recorded. The error is a *[CallError]
// if the call failed, and an *[InterruptedError] if it stopped without an
// outcome because what is around it ended: the run, the attempt or the group
// that made the call. A context of the caller's own that ends is no interrupt:
// then the call has failed, with ReasonDeadline or ReasonCanceled.
//
// Without a run in ctx, the call follows the same rules with the built-in
// defaults and is not recorded. There a cancelled ctx is all that can be around
// it, and an interrupt; its deadline is the call's own. Either way errors.Is
// finds context.Canceled and context.DeadlineExceeded.
//
// Without a timeout the handler runs on the caller's goroutine. With one it
// runs on another, and a handler that does not return when its context ended
// is abandoned: its scope is closed and its late result dropped.
func (e ExecutionEvent[In, Out]) Execute(ctx context.Context, in In) (Out, error) {
	if e.definition == nil {
		var zero Out
		return zero, errUndefined
	}
	if s := scopeOf(ctx); s != nil {
		t := e.prepare(ctx, s, in)
		err := t.execute()
		return t.result(err)
	}
	return e.executeAlone(ctx, in)
}

// errUndefined is the failure of an event whose actor is a zero value.
var errUndefined = errors.New("core: the actor was never defined: it is a zero value; make it with a constructor, such as decorators.Tool")

// Prepare claims the address of the call now, for a call that is made later:
// several that are prepared in order have the same addresses in every run,
// however their execution interleaves. A prepared call must be executed once,
// by any goroutine.
func (e ExecutionEvent[In, Out]) Prepare(ctx context.Context, in In) *PreparedCall[In, Out] {
	p := &PreparedCall[In, Out]{event: e, in: in}
	if s := scopeOf(ctx); s != nil && e.definition != nil {
		p.call = e.prepare(ctx, s, in)
	}
	return p
}

// A PreparedCall is a call that has its address and was not yet made.
type PreparedCall[In, Out any] struct {
	event ExecutionEvent[In, Out]
	in    In
	call  *typedCall[In, Out] // nil outside a run
	begun atomic.Bool
}

// Address is that of the call; zero outside a run.
func (p *PreparedCall[In, Out]) Address() Address {
	if p.call == nil {
		return Address{}
	}
	return p.call.address
}

// Execute makes the call, as [ExecutionEvent.Execute] does. ctx may be that of
// Prepare or one derived from it.
func (p *PreparedCall[In, Out]) Execute(ctx context.Context) (Out, error) {
	if err := p.check(ctx); err != nil {
		var zero Out
		return zero, err
	}
	if p.call == nil {
		return p.event.executeAlone(ctx, p.in)
	}
	p.call.first.outer = ctx
	if s := scopeOf(ctx); s.isWithin(p.call.parent) {
		p.call.parent = s // its surroundings are those it is executed in
	}
	err := p.call.execute()
	return p.call.result(err)
}

func (p *PreparedCall[In, Out]) check(ctx context.Context) error {
	if p.event.definition == nil {
		return errUndefined
	}
	name := p.event.definition.spec.Name
	if !p.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("core: the prepared call of %q was executed before; Prepare another", name)
	}
	s := scopeOf(ctx)
	if (p.call == nil) != (s == nil) || s != nil && s.call.root != p.call.root {
		return fmt.Errorf("core: the prepared call of %q is executed with a context of another run than it was prepared with", name)
	}
	return nil
}

// typedCall is a call with its types. One allocation holds the call, its
// first attempt, its input and its output.
type typedCall[In, Out any] struct {
	call
	definition *Definition[In, Out]
	first      Scope
	in         In
	out        Out
}

func (e *ExecutionEvent[In, Out]) newCall(ctx context.Context, in In) *typedCall[In, Out] {
	d := e.definition
	t := &typedCall[In, Out]{definition: d, in: in}
	t.body, t.spec = t, &d.spec
	t.first.outer, t.first.call = ctx, &t.call
	return t
}

// prepare makes a call within a run, with its address.
func (e *ExecutionEvent[In, Out]) prepare(ctx context.Context, s *Scope, in In) *typedCall[In, Out] {
	t := e.newCall(ctx, in)
	t.root, t.parent = s.call.root, s
	settings := t.root.settings
	t.policy, t.custom = e.level(settings), e.policy != nil
	segment := e.definition.segment
	if e.tag != "" {
		segment = tagPrefix + escape(e.tag)
	}
	t.address = s.claim(segment)
	if settings.Claimed != nil {
		hash, _ := t.inputHash() // without one the attempt will say so
		settings.Claimed(s, t.address, hash)
	}
	return t
}

// level finds the retry configuration that decides.
func (e *ExecutionEvent[In, Out]) level(settings *Settings) *Policy {
	d := e.definition
	switch {
	case e.policy != nil:
		return e.policy
	case d.policy != nil:
		return d.policy
	case d.spec.Kind == KindStep:
		return builtInOnce
	case settings != nil && settings.RetryByKind[d.spec.Kind] != nil:
		return settings.RetryByKind[d.spec.Kind]
	case settings != nil && settings.Retry != nil:
		return settings.Retry
	}
	return builtIn(d.spec.Kind)
}

// executeAlone makes the call outside any run.
func (e *ExecutionEvent[In, Out]) executeAlone(ctx context.Context, in In) (out Out, err error) {
	t := e.tryAlone(ctx, in, &out)
	if t == nil {
		return out, nil
	}
	if t.r.err != nil {
		err = t.goOn(&t.first)
	} else {
		err = t.execute()
	}
	return t.result(err)
}

// tryAlone makes the first attempt of a call without time limits with nothing
// but the stack: mostly it is the last. It returns nil if it was, and
// otherwise the call, which is to go on from there.
func (e *ExecutionEvent[In, Out]) tryAlone(ctx context.Context, in In, out *Out) *typedCall[In, Out] {
	policy, custom := e.level(nil), e.policy != nil
	config := &policy.config
	var r result
	if policy.timeout(&e.definition.spec, custom) == 0 && config.RetryTimeout == 0 && config.RetryWhen == nil && policy.err == nil &&
		len(e.definition.requires) == 0 && ctx.Err() == nil {
		if e.definition.pass(ctx, in, out, &r); r.err == nil {
			return nil
		}
	}
	t := e.newCall(ctx, in)
	t.policy, t.custom, t.r = policy, custom, r
	return t
}

func (t *typedCall[In, Out]) result(err error) (Out, error) {
	if err != nil {
		var zero Out
		return zero, err
	}
	return t.out, nil
}
