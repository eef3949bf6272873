package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Scope is one attempt of a call as the calls of its handler see it: it
// numbers them. The preconditions of a call have a scope of their own, and so
// has the root of a run.
//
// A Scope is safe for many goroutines. Nothing is recorded in it once it is
// closed.
type Scope struct {
	outer   context.Context // the context that the call was given
	root    *Root
	call    *Call  // whose attempt it is; nil for a root
	limit   *limit // its own end in time; nil for none
	group   *group // its own end by a failure; nil if it is not a group
	attempt int32
	closed  atomic.Bool
	inside  atomic.Pointer[inside] // nil until something is done in the scope
}

// inside holds what was done in a scope. Most attempts of tools have none.
type inside struct {
	claims    claims
	questions int // asked by the attempt; guarded by claims.mu
	sleeps    int // of the attempt; guarded by claims.mu

	// stopped is the suspension of a call inside. The attempt is then suspended
	// too, whatever its handler makes of the error.
	stopped atomic.Pointer[InterruptedError]

	// doomed: a call inside was suspended because this scope's deadline passed
	// or was about to. The attempt counts as timed out.
	doomed atomic.Bool

	// unstored: a call inside completed whose output is not stored. A branch then
	// keeps no output either, which may be the same.
	unstored atomic.Bool

	// through is the context that an interceptor derived for the handler; nil if
	// it did not. overrun: it ended by itself before the handler returned.
	through atomic.Pointer[context.Context]
	overrun bool

	used  atomic.Pointer[record.Usage] // by the attempt itself; nil for nothing
	spent atomic.Pointer[record.Usage] // by the calls inside; nil for nothing

	completed atomic.Pointer[completed] // only around the outermost call outside a run; nil for nothing

	mu         sync.Mutex
	closed     bool
	stops      []func() bool  // cancel the contexts that were derived for the attempt
	attributes map[string]any // of the attempt; nil for none
}

// scopeKey is the context key of the innermost scope.
type scopeKey struct{}

// ScopeOf returns the innermost scope of ctx, which may be the scope of a call
// outside any run. It returns nil if there is none.
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

// Run returns the run that the scope belongs to.
func (s *Scope) Run() Run { return s.root.run }

// Settings returns the settings of the run that the scope belongs to.
func (s *Scope) Settings() *Settings { return s.root.settings }

// Address returns the address of the call whose attempt the scope is. It is
// zero for a root, and outside a run.
func (s *Scope) Address() record.Address {
	if s == nil || s.call == nil {
		return record.Address{}
	}
	return s.call.address
}

// Spec returns the spec of the actor whose attempt the scope is; nil for a
// root.
func (s *Scope) Spec() *Spec {
	if s.call == nil {
		return nil
	}
	return s.call.spec
}

// Parent returns the scope around this one, nil for a root.
func (s *Scope) Parent() *Scope {
	if s.call == nil {
		return nil
	}
	return s.call.parent
}

// beforeFirst is the attempt number of the scope that preconditions run in.
const beforeFirst = record.Preconditions

// IsPreconditions reports whether the scope is the one in which the
// preconditions of the call run.
func (s *Scope) IsPreconditions() bool { return s.attempt == beforeFirst }

// Attempt returns the number of the attempt, from 0. It is 0 for a nil Scope.
func (s *Scope) Attempt() int {
	if s == nil {
		return 0
	}
	return max(int(s.attempt), 0)
}

// isWithin reports whether s is part of the attempt around: the attempt itself,
// or a branch of a group in it.
func (s *Scope) isWithin(around *Scope) bool {
	for s != around && s.call != nil && s.call.spec.Kind.IsParallel() {
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

// Path returns the part of an address that stands before the names of the calls
// made in this scope. It is empty for a root.
func (s *Scope) Path() string {
	if s.call == nil {
		return ""
	}
	return s.call.address.Path(int(s.attempt))
}

// expired reports whether the attempt's own time is over.
func (s *Scope) expired() bool { return s.limit != nil && s.limit.expired() }

// endedItself reports whether the end of the attempt is its own failure: its
// time is over, or that which an interceptor gave it, or it is a group and one of
// its branches failed.
func (s *Scope) endedItself() bool {
	return s.expired() || s.overran() || s.group != nil && s.group.end.Load() != nil
}

func (s *Scope) overran() bool {
	in := s.inside.Load()
	return in != nil && in.overrun
}

// suspended returns the suspension of a call inside, nil for none.
func (s *Scope) suspended() *InterruptedError {
	if in := s.inside.Load(); in != nil {
		return in.stopped.Load()
	}
	return nil
}

// Suspend ends the attempt without an outcome because of e, whatever its
// handler returns, and lets nothing new begin in it. The reason is that a call
// inside has no outcome, or that the handler was given something else than what
// was recorded. Only the first call counts.
func (s *Scope) Suspend(e *InterruptedError) { s.inner().stopped.CompareAndSwap(nil, e) }

// isDoomed reports whether a call inside was suspended because of the deadline
// of this scope.
func (s *Scope) isDoomed() bool {
	in := s.inside.Load()
	return in != nil && in.doomed.Load()
}

// inner returns what was done in the scope, and makes it when it is needed
// first.
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

// Context returns ctx as a context of this scope: calls with it belong to the
// attempt, and are interrupted when the context of the attempt ends, or ctx.
// Its resources are freed when the attempt ends.
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

// context returns the context that the handler of the attempt gets.
func (s *Scope) context() context.Context { return (*attemptContext)(s) }

// attemptContext is a scope as a context. It is the same pointer, so that an
// attempt needs no context of its own.
type attemptContext Scope

// around returns the context around the handler.
func (a *attemptContext) around() context.Context {
	if in := a.inside.Load(); in != nil {
		if through := in.through.Load(); through != nil {
			return *through
		}
	}
	return a.outer
}

// Value returns the scope for scopeKey, and otherwise the value of the context
// around it.
func (a *attemptContext) Value(key any) any {
	if key == (scopeKey{}) {
		return (*Scope)(a)
	}
	return a.around().Value(key)
}

// Deadline returns the attempt's own deadline, if it has one that is earlier
// than that of the context around it.
func (a *attemptContext) Deadline() (time.Time, bool) {
	outer, ok := a.around().Deadline()
	if a.limit != nil {
		if own := a.limit.Deadline(); !ok || own.Before(outer) {
			return own, true
		}
	}
	return outer, ok
}

// Done returns a channel that is closed when the attempt's time is over or the
// context around it ends.
func (a *attemptContext) Done() <-chan struct{} {
	if a.limit != nil {
		return a.limit.done
	}
	return a.around().Done()
}

// Err returns nil until Done is closed.
func (a *attemptContext) Err() error {
	err := a.around().Err()
	if a.limit == nil {
		return err
	}
	if err != nil {
		a.limit.endWith(err) // Done must be closed by the time that Err says so
	}
	return a.limit.Err()
}

// AfterFunc registers f as context.AfterFunc does. Package context calls it
// when it derives a context from this one.
func (a *attemptContext) AfterFunc(f func()) (stop func() bool) {
	if a.limit != nil {
		return a.limit.afterFunc(f)
	}
	return context.AfterFunc(a.around(), f)
}

// String names the scope where a context is printed.
func (a *attemptContext) String() string { return "reprise(" + (*Scope)(a).Address().String() + ")" }
