package core

import (
	"context"
	"time"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// This file is for handlers.

// IdempotencyKey returns a key for the effects of the call that ctx belongs to,
// to be passed to the services that the call uses: 32 hexadecimal digits,
// computed from the run, the address without attempt numbers, and the identity of
// the input as the call was made, whatever the handler has done to it since. It is
// the same for every attempt of the call, in every attempt of the calls around it,
// before and after a crash; and it differs for every other call of any run. A fork has the keys of the oldest of its parents, unless it was given
// new ones (state.ForkOptions).
//
// A call that was compensated and is made again, after a retry of the run or in a
// fork, has a new key: for the old one a service would return the result that was
// undone.
//
// Outside a run the error is [ErrNoRun]. For an input that cannot be encoded,
// the error names the field.
func IdempotencyKey(ctx context.Context) (string, error) { return engine.IdempotencyKey(ctx) }

// Usage is what a call consumed at a metered service.
type Usage = record.Usage

// AddUsage counts u for the attempt that ctx belongs to. The record that ends
// the attempt contains it, even if the attempt fails. Outside a run, AddUsage
// does nothing.
func AddUsage(ctx context.Context, u Usage) { engine.AddUsage(ctx, u) }

// UsageInside returns what the calls inside the attempt that ctx belongs to
// have consumed so far, at any depth: each counts once, for the attempt that
// called [AddUsage]. What the attempt itself has added is not included. In a
// run that was resumed, what was consumed before is included.
func UsageInside(ctx context.Context) Usage { return engine.UsageInside(ctx) }

// Annotate sets an attribute of the attempt that ctx belongs to, such as the
// response ID of a service. The record that ends the attempt has it in
// Detail.Metadata, even if the attempt fails; consoles, dashboards and traces
// show it. A later value for the same key replaces the first.
//
// A value is a string, a bool or a number; a time.Duration becomes seconds, and
// any other value its text. Keys are cut to 64 characters and texts to 1024, and
// an attempt has at most 32 attributes: further ones are dropped, and so is one
// without a key. Attributes are for people and are not read again: nothing of
// a call depends on them. Outside a run, Annotate does nothing.
func Annotate(ctx context.Context, key string, value any) { engine.Annotate(ctx, key, value) }

// Sleep returns when d has passed since it was first called, even if the run
// was interrupted meanwhile or its process ended: a run that is resumed sleeps
// for the rest of d, and not again if d has passed. A runner parks a run that
// sleeps for long, and opens it again when the time has passed. The attempt is
// then suspended, as by [Await]: Sleep returns an *[InterruptedError], and the
// handler returns that.
//
// Otherwise the error is the cause of the end of ctx. If d is zero or less,
// Sleep returns at once. Outside a run it waits without a record.
func Sleep(ctx context.Context, d time.Duration) error { return engine.Sleep(ctx, d) }

// Version returns which version of a piece of code to run, for code that
// changes while runs are under way:
//
//	if core.Version(ctx, "use-new-tax-rules", 2) >= 2 {
//		…
//	}
//
// N is the highest version that the program has, from 1 up. The first time that
// an attempt asks for a name, the answer is recorded: n, or 0 in a run whose
// records show that this attempt passed the place before the program asked
// there. From then on the attempt keeps that answer, in a loop as well as after
// a resume, whatever n is by then. So a run continues as it began, and runs
// that begin later use the new code. A branch for a version can be deleted when
// no run needs it any more, and the whole call of Version after that.
//
// Version is not a call of an actor: it may be added and deleted at any time.
// Each attempt, and each branch of a group, asks for itself.
//
// A recorded version above n stops the run, as a diverging call does (see
// [DivergenceError]), and so does an n below 1 or a name that [CheckName]
// refuses: whatever the handler calls then is interrupted, and the result does
// not matter. Outside every call, Version returns n.
func Version(ctx context.Context, name string, n int) int { return engine.Version(ctx, name, n) }

// A Scope is one attempt of a call, as its handler sees it.
type Scope engine.Scope

// ScopeOf returns the innermost scope of ctx, which may be the scope of a call
// outside any run. It returns nil if there is none.
func ScopeOf(ctx context.Context) *Scope { return (*Scope)(engine.ScopeOf(ctx)) }

func (s *Scope) erased() *engine.Scope { return (*engine.Scope)(s) }

// RunID returns the run that the attempt belongs to; it is empty outside a run.
func (s *Scope) RunID() string { return s.erased().Settings().RunID }

// Tags returns the tags of the run that the attempt belongs to. They must not be
// changed.
func (s *Scope) Tags() []string { return s.erased().Settings().Tags }

// Address returns the address of the call. It is zero outside a call, and outside a run.
func (s *Scope) Address() record.Address { return s.erased().Address() }

// Attempt returns the number of the attempt, from 0. It is 0 for a nil Scope.
func (s *Scope) Attempt() int { return s.erased().Attempt() }

// Path returns the part of an address that stands before the names of the calls
// made in the attempt. It is empty outside a call.
func (s *Scope) Path() string { return s.erased().Path() }

// Closed reports whether the attempt, or one around it, is over: its handler
// returned, or was abandoned.
func (s *Scope) Closed() bool { return s.erased().Closed() }
