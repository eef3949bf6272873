package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Scope is one attempt of a call, seen from inside: what numbers the calls
// that its handler makes. What the preconditions of a call do has a scope of
// its own, and so has the root of a run.
//
// It is for many goroutines. Nothing that is done in it lands once it is
// closed.
type Scope struct {
	outer   context.Context // what the attempt was called with
	root    *Root
	call    *call  // whose attempt it is; nil for a root
	limit   *limit // its own end in time; nil if it has none
	group   *group // its own end by a failure; nil if it is not a group
	attempt int32
	closed  atomic.Bool
	inside  atomic.Pointer[inside] // nil until something is done in the scope
}

// inside is what was done in a scope. Most attempts of tools have none.
type inside struct {
	claims    claims
	questions int // asked by the attempt; guarded by the lock of its claims

	// stopped is the suspension of a call inside: the attempt is suspended
	// too, whatever its handler makes of the error.
	stopped atomic.Pointer[InterruptedError]

	// doomed: a call inside was suspended because this scope's deadline passed
	// or was about to. The attempt counts as timed out.
	doomed atomic.Bool

	used  atomic.Pointer[Usage] // nil until something is
	spent atomic.Pointer[Usage] // by the calls inside; nil for nothing

	completed atomic.Pointer[completed] // outside a run, around its outermost call; nil for nothing

	mu     sync.Mutex
	closed bool
	stops  []func() bool // of contexts that were derived for the attempt
}

// scopeKey is the context key of the innermost scope.
type scopeKey struct{}

// ScopeOf returns the innermost scope of ctx, also that of a call outside any
// run; nil where there is none.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// inRun returns the innermost scope of ctx; nil outside a run.
func inRun(ctx context.Context) *Scope {
	s := ScopeOf(ctx)
	if s == nil || s.root.isOutside() {
		return nil
	}
	return s
}

// Run is the run that the scope belongs to.
func (s *Scope) Run() Run { return s.root.run }

// Address is that of the call whose attempt the scope is; zero for a root, and
// outside a run.
func (s *Scope) Address() record.Address {
	if s == nil || s.call == nil {
		return record.Address{}
	}
	return s.call.address
}

// Spec is that of the actor whose attempt the scope is; nil for a root.
func (s *Scope) Spec() *Spec {
	if s.call == nil {
		return nil
	}
	return s.call.spec
}

// Parent is the scope around this one, nil for a root.
func (s *Scope) Parent() *Scope {
	if s.call == nil {
		return nil
	}
	return s.call.parent
}

// beforeFirst is the attempt number of the scope that preconditions run in.
const beforeFirst = record.Preconditions

// IsPreconditions reports whether the scope is that of what the preconditions of
// the call do, before its first attempt.
func (s *Scope) IsPreconditions() bool { return s.attempt == beforeFirst }

// Attempt is the number of the attempt, from 0; 0 for a nil Scope.
func (s *Scope) Attempt() int {
	if s == nil {
		return 0
	}
	return max(int(s.attempt), 0)
}

// isWithin reports whether s is a part of the attempt around: it, or a branch
// of a group in it.
func (s *Scope) isWithin(around *Scope) bool {
	for s != around && s.call != nil && (s.call.spec.Kind == record.KindBranch || s.call.spec.Kind == record.KindGroup) {
		s = s.call.parent
	}
	return s == around
}

// Closed reports whether the attempt, or one around it, is over: its handler
// returned, or was abandoned.
func (s *Scope) Closed() bool {
	for ; s != nil; s = s.Parent() {
		if s.closed.Load() {
			return true
		}
	}
	return false
}

// Path is what stands before the names of calls made in this scope; empty for
// a root.
func (s *Scope) Path() string {
	if s.call == nil {
		return ""
	}
	return s.call.address.Path(int(s.attempt))
}

// expired reports whether the attempt's own time is over.
func (s *Scope) expired() bool { return s.limit != nil && s.limit.expired() }

// endedItself reports whether the attempt's end is its own failure: its time
// is over, or it is a group of which a branch failed.
func (s *Scope) endedItself() bool {
	return s.expired() || s.group != nil && s.group.end.Load() != nil
}

// suspended is the suspension of a call inside, nil for none.
func (s *Scope) suspended() *InterruptedError {
	if in := s.inside.Load(); in != nil {
		return in.stopped.Load()
	}
	return nil
}

// Suspend has the attempt end without an outcome because of e, whatever its
// handler returns, and lets nothing new begin in it: a call inside has no outcome,
// or what the handler was given is not what was recorded. Only the first counts.
func (s *Scope) Suspend(e *InterruptedError) { s.inner().stopped.CompareAndSwap(nil, e) }

// isDoomed reports whether a call inside was suspended because of the deadline
// of this scope.
func (s *Scope) isDoomed() bool {
	in := s.inside.Load()
	return in != nil && in.doomed.Load()
}

// inner is what was done in the scope, made when it is needed first.
func (s *Scope) inner() *inside {
	if s.inside.Load() == nil {
		s.inside.CompareAndSwap(nil, new(inside))
	}
	return s.inside.Load()
}

// close ends the scope: its handler returned, or was abandoned.
func (s *Scope) close() {
	s.closed.Store(true)
	if in := s.inside.Load(); in != nil {
		in.close()
	}
}

// close ends the contexts that were derived for the attempt.
func (in *inside) close() {
	in.mu.Lock()
	stops := in.stops
	in.stops, in.closed = nil, true
	in.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// Context returns ctx as a context of this scope: what is called with it
// belongs to the attempt, and is interrupted when the attempt's own context
// ends, or ctx. What it takes is freed when the attempt ends.
func (s *Scope) Context(ctx context.Context) context.Context {
	if ScopeOf(ctx) == s {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	own := (*attemptContext)(s)
	stop := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	in := s.inner()
	in.mu.Lock()
	if !in.closed {
		in.stops = append(in.stops, func() bool { cancel(nil); return stop() })
	}
	in.mu.Unlock()
	return context.WithValue(ctx, scopeKey{}, s)
}

// context is what the handler of the attempt gets.
func (s *Scope) context() context.Context { return (*attemptContext)(s) }

// attemptContext is a scope as a context. It is the same pointer, so that an
// attempt needs no context of its own.
type attemptContext Scope

// Value answers for the scope itself, and else as the context around it.
func (a *attemptContext) Value(key any) any {
	if key == (scopeKey{}) {
		return (*Scope)(a)
	}
	return a.outer.Value(key)
}

// Deadline is the attempt's own, where it has one: it is never later than
// that of the context around it.
func (a *attemptContext) Deadline() (time.Time, bool) {
	outer, ok := a.outer.Deadline()
	if a.limit != nil {
		if own := a.limit.Deadline(); !ok || own.Before(outer) {
			return own, true
		}
	}
	return outer, ok
}

// Done is closed when the attempt's time is over or the context around it
// ended.
func (a *attemptContext) Done() <-chan struct{} {
	if a.limit != nil {
		return a.limit.done
	}
	return a.outer.Done()
}

// Err is nil until Done is closed.
func (a *attemptContext) Err() error {
	err := a.outer.Err()
	if a.limit == nil {
		return err
	}
	if err != nil {
		a.limit.endWith(err) // Done must be closed by the time that Err says so
	}
	return a.limit.Err()
}

// AfterFunc registers f as context.AfterFunc would; package context asks for
// it when it derives a context from this one.
func (a *attemptContext) AfterFunc(f func()) (stop func() bool) {
	if a.limit != nil {
		return a.limit.afterFunc(f)
	}
	return context.AfterFunc(a.outer, f)
}

// String names the scope where a context is printed.
func (a *attemptContext) String() string { return "reprise(" + (*Scope)(a).Address().String() + ")" }
