package core

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"
)

// A Scope is one attempt of a call, seen from inside: the context that its
// handler gets, and what numbers the calls that the handler makes. The root
// of a run and the branches of a group are scopes too.
//
// It is for many goroutines. Nothing that is done in it lands once it is
// closed.
type Scope struct {
	outer   context.Context // what the attempt was called with
	call    *call           // whose attempt it is; that of a root or a branch has no body
	limit   *limit          // its own end; nil without a timeout
	attempt int32
	closed  atomic.Bool
	entry   bool // the first attempt of its call that this process began
	// doomed says that a call inside has no outcome because of the end of
	// this scope, come or near: the attempt has failed by it.
	doomed atomic.Bool

	// stopped is the suspension of a call inside: the attempt is suspended
	// too, whatever its handler makes of the error.
	stopped atomic.Pointer[InterruptedError]

	questions atomic.Int32 // asked by the attempt

	used   atomic.Pointer[Usage]     // nil until something is
	counts atomic.Pointer[numbering] // of the calls in the scope; nil until there is one
}

// scopeKey is the context key of the innermost scope.
type scopeKey struct{}

func scopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// ScopeOf returns the innermost scope of ctx: nil outside a run.
func ScopeOf(ctx context.Context) *Scope { return scopeOf(ctx) }

// Run is the run that the scope belongs to.
func (s *Scope) Run() Run { return s.call.root.run }

// Address is that of the call whose attempt the scope is, of a branch for a
// branch, and zero for the root and outside a run.
func (s *Scope) Address() Address {
	if s == nil {
		return Address{}
	}
	return s.call.address
}

// Parent is the scope around this one, nil for a root.
func (s *Scope) Parent() *Scope { return s.call.parent }

// IsAttempt reports whether s is an attempt of a call, rather than the root of
// a run or a branch of a group.
func (s *Scope) IsAttempt() bool { return s.call.body != nil }

// MustNotRepeat reports whether the call asks not to be simply run again when
// it is in doubt: then it has to be known that it began.
func (s *Scope) MustNotRepeat() bool {
	return s.call.spec != nil && s.call.spec.InDoubt != InDoubtRetry
}

// IsEntry reports whether the attempt is the first of its call that this
// process began, and Entered whether there was any.
func (s *Scope) IsEntry() bool { return s.entry }

// Entered reports whether this process began an attempt of the call.
func (s *Scope) Entered() bool { return s.call.entered }

// An AttemptID identifies one attempt of one call within the process, or what
// its preconditions did before the first. It is comparable.
type AttemptID struct {
	call    *call
	attempt int32
}

// beforeFirst is the attempt number of the scope that preconditions run in.
const beforeFirst = -1

// Preconditions identifies what the preconditions of the call did. It belongs
// to all attempts.
func (id AttemptID) Preconditions() AttemptID { return AttemptID{id.call, beforeFirst} }

// ID identifies the attempt, or what the preconditions do.
func (s *Scope) ID() AttemptID { return AttemptID{s.call, s.attempt} }

// Attempt is the number of the attempt, from 0; 0 outside a run.
func (s *Scope) Attempt() int {
	if s == nil {
		return 0
	}
	return max(int(s.attempt), 0)
}

// isWithin reports whether s is a part of the attempt around: it, or a branch
// of a group in it.
func (s *Scope) isWithin(around *Scope) bool {
	for s != around && !s.IsAttempt() && s.call.parent != nil {
		s = s.call.parent
	}
	return s == around
}

// Closed reports whether the attempt, or one around it, is over: its handler
// returned, or was abandoned.
func (s *Scope) Closed() bool {
	for ; s != nil; s = s.call.parent {
		if s.closed.Load() {
			return true
		}
	}
	return false
}

// Accepts reports whether r, which comes from this scope, may still land: a
// record about the attempt itself while the attempt around it goes on, any
// other while this one does.
func (s *Scope) Accepts(r *Record) bool {
	if s != nil && r.Kind.IsCall() {
		s = s.call.parent
	}
	return !s.Closed()
}

// isRoot reports whether the call is what contexts of a run begin with.
func (c *call) isRoot() bool { return c.parent == nil && c.root != nil }

// path is what stands before the names of calls made in this scope.
func (s *Scope) path() string {
	if s.attempt == 0 {
		return s.call.address.String()
	}
	b := append(s.call.address.AppendTo(nil), '@')
	if s.attempt == beforeFirst {
		return string(append(b, preconditions...))
	}
	return string(strconv.AppendInt(b, int64(s.attempt)+1, 10))
}

// Value answers for the scope itself, and else as the context around it.
func (s *Scope) Value(key any) any {
	if key == (scopeKey{}) && s.call.root != nil {
		return s
	}
	return s.outer.Value(key)
}

// Deadline is the attempt's own, where it has one: it is never later than
// that of the context around it.
func (s *Scope) Deadline() (time.Time, bool) {
	outer, ok := s.outer.Deadline()
	if s.limit != nil {
		if own := s.limit.Deadline(); !ok || own.Before(outer) {
			return own, true
		}
	}
	return outer, ok
}

// Done is closed when the attempt's time is over or the context around it
// ended.
func (s *Scope) Done() <-chan struct{} {
	if s.limit != nil {
		return s.limit.Done()
	}
	return s.outer.Done()
}

// Err is nil until Done is closed.
func (s *Scope) Err() error {
	err := s.outer.Err()
	if s.limit == nil {
		return err
	}
	if err != nil {
		s.limit.endWith(err) // Done must be closed by the time that Err tells
	}
	return s.limit.Err()
}

// AfterFunc registers f as context.AfterFunc would; package context asks for
// it when it derives a context from this one.
func (s *Scope) AfterFunc(f func()) (stop func() bool) {
	if s.limit != nil {
		return s.limit.afterFunc(f)
	}
	return context.AfterFunc(s.outer, f)
}

// Context returns ctx as a context of this scope: what is called with it
// belongs to the attempt, and is interrupted when the attempt's own context
// ends, or ctx.
func (s *Scope) Context(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(s, func() { cancel(context.Cause(s)) })
	return context.WithValue(ctx, scopeKey{}, s)
}

// String names the scope where a context is printed.
func (s *Scope) String() string { return "reprise(" + s.call.address.String() + ")" }
