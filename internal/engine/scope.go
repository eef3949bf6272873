package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

// A Scope is one attempt of a call as seen by the calls that its handler makes: the scope assigns
// their numbers. The preconditions of a call have a separate scope, and so does the root of a run.
//
// A Scope is safe for concurrent use. Nothing is recorded in it after it is closed.
type Scope struct {
	outer   context.Context // the context passed to the call
	root    *Root
	call    *Call  // the call that the attempt belongs to; nil for a root
	limit   *limit // the attempt's own time limit; nil for none
	group   *group // set if the attempt is that of a group, which can fail early; nil otherwise
	attempt int32
	closed  atomic.Bool
	state   atomic.Pointer[scopeState] // nil until something happens in the scope
}

// scopeState holds what has happened in a scope. Most tool attempts have no
// scopeState.
type scopeState struct {
	claims    claims
	questions int // number of questions asked by the attempt; guarded by claims.mu
	sleeps    int // number of sleeps of the attempt; guarded by claims.mu

	// stopped is the suspension of a nested call. The attempt is then suspended too, regardless of
	// what its handler does with the error.
	stopped atomic.Pointer[InterruptedError]

	// missedDeadline is set if a nested call was suspended because this scope's deadline had passed
	// or was near. The attempt then counts as timed out.
	missedDeadline atomic.Bool

	// unstored is set if a nested call has completed without its output being stored. A branch then
	// does not store its own output either, since the two outputs may be the same.
	unstored atomic.Bool

	// handlerContext is the context that an interceptor derived for the handler, or nil. overrun is
	// set if that context ended on its own before the handler returned.
	handlerContext atomic.Pointer[context.Context]
	overrun        bool

	used  atomic.Pointer[record.Usage] // usage of the attempt itself; nil for none
	spent atomic.Pointer[record.Usage] // usage of the calls inside; nil for none

	compensables atomic.Pointer[compensableCalls] // only around the outermost call outside a run; nil otherwise

	mu         sync.Mutex
	closed     bool
	stops      []func() bool  // each cancels a context derived for the attempt
	attributes map[string]any // attributes of the attempt; nil for none
}

// scopeKey is the context key of the innermost scope.
type scopeKey struct{}

// ScopeOf returns the innermost scope of ctx, or nil if there is none. It may be
// the scope of a call outside any run.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// scopeInRun returns the innermost scope of ctx, or nil outside a run.
func scopeInRun(ctx context.Context) *Scope {
	s := ScopeOf(ctx)
	if s == nil || s.root.isOutside() {
		return nil
	}
	return s
}

// Run returns the run that the scope belongs to.
func (s *Scope) Run() Run { return s.root.run }

// Settings returns the settings of the run that the scope belongs to. For a nil Scope, it returns
// the settings that apply outside any run.
func (s *Scope) Settings() *Settings {
	if s == nil {
		return outside.settings
	}
	return s.root.settings
}

// Address returns the address of the call that the attempt belongs to. The address is zero for a
// root and outside a run.
func (s *Scope) Address() record.Address {
	if s == nil || s.call == nil {
		return record.Address{}
	}
	return s.call.address
}

// Spec returns the spec of the actor that the attempt belongs to, or nil for a
// root and for a nil Scope.
func (s *Scope) Spec() *Spec {
	if s == nil || s.call == nil {
		return nil
	}
	return s.call.spec
}

// Parent returns the surrounding scope, or nil for a root and for a nil Scope.
func (s *Scope) Parent() *Scope {
	if s == nil || s.call == nil {
		return nil
	}
	return s.call.parent
}

// preconditionsAttempt is the attempt number of the scope in which preconditions run.
const preconditionsAttempt = callsite.PreconditionAttempt

// IsPreconditions reports whether s is the scope in which the call's preconditions run.
func (s *Scope) IsPreconditions() bool { return s.attempt == preconditionsAttempt }

// Attempt returns the number of the attempt, counted from 0. It returns 0 for a nil Scope.
func (s *Scope) Attempt() int {
	if s == nil {
		return 0
	}
	return max(int(s.attempt), 0)
}

// isWithin reports whether s is part of the attempt around, that is, whether s is that attempt
// itself or a branch of a group in it.
func (s *Scope) isWithin(around *Scope) bool {
	for s != around && s.call != nil && s.call.spec.Kind.IsParallel() {
		s = s.call.parent
	}
	return s == around
}

// Closed reports whether the attempt or a surrounding attempt is over, because its handler returned
// or was abandoned.
func (s *Scope) Closed() bool {
	for ; s != nil; s = s.Parent() {
		if s.closed.Load() {
			return true
		}
	}
	return false
}

// Path returns the address prefix of calls made in this scope. It is empty for a root and for a nil
// Scope.
func (s *Scope) Path() string {
	if s == nil || s.call == nil {
		return ""
	}
	return s.call.address.Path(int(s.attempt))
}

// expired reports whether the attempt's own time limit has passed.
func (s *Scope) expired() bool { return s.limit != nil && s.limit.expired() }

// endedItself reports whether the attempt ended because of a failure of its own: its time limit, or
// one set by an interceptor, has passed, or the attempt is that of a group that ended before its
// handler returned.
func (s *Scope) endedItself() bool {
	return s.expired() || s.overran() || s.group != nil && s.group.end.Load() != nil
}

func (s *Scope) overran() bool {
	in := s.state.Load()
	return in != nil && in.overrun
}

// suspended returns the suspension of a nested call, or nil.
func (s *Scope) suspended() *InterruptedError {
	if in := s.state.Load(); in != nil {
		return in.stopped.Load()
	}
	return nil
}

// Suspend ends the attempt without an outcome because of e, regardless of what its handler returns,
// and prevents anything new from beginning in the attempt. It is called if a nested call has no
// outcome, or if the handler received something other than what was recorded. Only the first call
// of Suspend has an effect.
func (s *Scope) Suspend(e *InterruptedError) { s.ensureState().stopped.CompareAndSwap(nil, e) }

// hasMissedDeadline reports whether a nested call was suspended because of this scope's deadline.
func (s *Scope) hasMissedDeadline() bool {
	in := s.state.Load()
	return in != nil && in.missedDeadline.Load()
}

// ensureState returns the state of the scope, creating it on first use.
func (s *Scope) ensureState() *scopeState {
	if s.state.Load() == nil {
		s.state.CompareAndSwap(nil, new(scopeState))
	}
	return s.state.Load()
}

// close ends the scope, because its handler returned or was abandoned.
func (s *Scope) close() {
	s.closed.Store(true)
	if in := s.state.Load(); in != nil {
		in.close()
	}
}

// close cancels the contexts that were derived from the attempt's context.
func (in *scopeState) close() {
	in.mu.Lock()
	stops := in.stops
	in.stops, in.closed = nil, true
	in.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// Context returns ctx as a context of this scope: calls made with the new context belong to the
// attempt, and are interrupted when ctx or the context of the attempt ends. The resources of the
// new context are freed when the attempt ends.
func (s *Scope) Context(ctx context.Context) context.Context {
	if ScopeOf(ctx) == s {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	own := (*attemptContext)(s)
	stop := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	in := s.ensureState()
	in.mu.Lock()
	if !in.closed {
		in.stops = append(in.stops, func() bool { cancel(nil); return stop() })
	}
	in.mu.Unlock()
	return context.WithValue(ctx, scopeKey{}, s)
}

// context returns the context for the handler of the attempt.
func (s *Scope) context() context.Context { return (*attemptContext)(s) }

// attemptContext is a Scope used as a context. A pointer to one is also a pointer to the other, so
// an attempt needs no separate context.
type attemptContext Scope

// outerContext returns the context that surrounds the handler.
func (a *attemptContext) outerContext() context.Context {
	if in := a.state.Load(); in != nil {
		if through := in.handlerContext.Load(); through != nil {
			return *through
		}
	}
	return a.outer
}

// Value returns the scope for scopeKey, and otherwise the value of the
// surrounding context.
func (a *attemptContext) Value(key any) any {
	if key == (scopeKey{}) {
		return (*Scope)(a)
	}
	return a.outerContext().Value(key)
}

// Deadline returns the attempt's own deadline or the surrounding context's deadline, whichever is
// earlier.
func (a *attemptContext) Deadline() (time.Time, bool) {
	outer, ok := a.outerContext().Deadline()
	if a.limit != nil {
		if own := a.limit.Deadline(); !ok || own.Before(outer) {
			return own, true
		}
	}
	return outer, ok
}

// Done returns a channel that is closed when the attempt's time limit has passed
// or the surrounding context ends.
func (a *attemptContext) Done() <-chan struct{} {
	if a.limit != nil {
		return a.limit.done
	}
	return a.outerContext().Done()
}

// Err returns nil until Done is closed.
func (a *attemptContext) Err() error {
	err := a.outerContext().Err()
	if a.limit == nil {
		return err
	}
	if err != nil {
		a.limit.endWith(err) // Done must be closed before Err returns an error
	}
	return a.limit.Err()
}

// AfterFunc registers f like context.AfterFunc. Package context calls it when it
// derives a context from this one.
func (a *attemptContext) AfterFunc(f func()) (stop func() bool) {
	if a.limit != nil {
		return a.limit.afterFunc(f)
	}
	return context.AfterFunc(a.outerContext(), f)
}

// String names the scope when a context is printed.
func (a *attemptContext) String() string { return "reprise(" + (*Scope)(a).Address().String() + ")" }
