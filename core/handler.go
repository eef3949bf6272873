package core

import (
	"context"
	"time"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// The functions in this file are for use by handlers.

// IdempotencyKey returns a key for the effects of the call that ctx belongs to. The handler passes
// it to the services that it uses. The key has 32 hexadecimal digits and is computed from the run,
// the address without attempt numbers, and the identity that the input had when the call was made,
// even if the handler has changed the input since. The key is the same for every attempt of the
// call, in every attempt of the calls around it, before and after a crash. It differs from the key
// of every other call in any run. A fork uses the keys of its oldest ancestor, unless new keys were
// requested (state.ForkOptions).
//
// A call that was compensated and is made again, after a retry of the run or in a fork, has a new
// key: with the old key, a service would return the result that was undone.
//
// Outside a run the error is [ErrNoRun]. If the input cannot be encoded, the error names the field.
func IdempotencyKey(ctx context.Context) (string, error) { return engine.IdempotencyKey(ctx) }

// Usage is what a call consumed of a metered service.
type Usage = record.Usage

// AddUsage adds u to the usage of the attempt to which ctx belongs. The record that ends the
// attempt contains the usage, even if the attempt fails. Outside a run, AddUsage does nothing.
func AddUsage(ctx context.Context, u Usage) { engine.AddUsage(ctx, u) }

// UsageOfCalls returns the usage so far of all calls inside the attempt to which ctx belongs, at
// any depth. Each amount counts once, for the attempt that called [AddUsage]. The amounts that the
// attempt itself has added are not included. In a resumed run, the usage from before the resume is
// included.
func UsageOfCalls(ctx context.Context) Usage { return engine.UsageOfCalls(ctx) }

// Annotate sets an attribute of the attempt to which ctx belongs, such as a service's response ID.
// The record that ends the attempt contains the attribute in Detail.Metadata, even if the attempt
// fails; consoles, dashboards and traces show it. A later value for the same key replaces the
// earlier one.
//
// A value is a string, a bool or a number; a time.Duration is recorded in seconds, and any other
// value as its text. Keys are cut to 64 characters and texts to 1024, and an attempt has at most 32
// attributes: further attributes are dropped, and so are attributes with an empty key. Attributes
// are for people and are not read back: calls do not depend on them. Outside a run, Annotate does
// nothing.
func Annotate(ctx context.Context, key string, value any) { engine.Annotate(ctx, key, value) }

// Sleep returns when d has passed since it was first called, even if the run was interrupted or its
// process ended meanwhile: a resumed run sleeps only for the rest of d, if any. A runner parks a
// run that sleeps for a long time, and opens it again when d has passed. The attempt is then
// suspended, as by [Await]: Sleep returns an *[InterruptedError], which the handler has to return.
//
// Any other error is the cause of ctx's end (see context.Cause). It is recorded, and the attempt
// gets it again after a resume; another attempt sleeps for the rest of d. If d is zero or less,
// Sleep returns at once. The time at which a sleep ends is recorded when it begins: d may be
// different when the run is resumed, for example if it is the result of time.Until. Outside a run,
// Sleep waits without a record.
func Sleep(ctx context.Context, d time.Duration) error { return engine.Sleep(ctx, d) }

// Version returns which version of a piece of code to execute. Use it for code that changes while
// runs exist:
//
//	if core.Version(ctx, "use-new-tax-rules", 2) >= 2 {
//		…
//	}
//
// The argument n is the highest version that the program contains, 1 or more. When an attempt first
// calls Version with a name, the result is recorded: n, or 0 if the records show that the attempt
// passed this point before the program called Version here. From then on, the attempt gets that
// result, in a loop as well as after a resume, even if n has changed since. So a run continues as
// it began, and later runs use the new code. The code for a version can be deleted once no run
// needs it any more, and after that the whole call to Version.
//
// Version is not a call of an actor: it may be added and deleted at any time. Each attempt, and
// each branch of a group, has its own result.
//
// A recorded version above n stops the run, as a diverging call does (see [DivergenceError]). So
// does an n below 1, or a name that [CheckName] rejects. All further calls that the handler makes
// are then interrupted, and its result is ignored. Outside any call, Version returns n.
func Version(ctx context.Context, name string, n int) int { return engine.Version(ctx, name, n) }

// A Scope is one attempt of a call, as its handler sees it. The context of a run also has a Scope,
// without an address. The methods of a nil Scope return zero values.
type Scope engine.Scope

// ScopeOf returns the innermost scope of ctx, even if it is the scope of a call outside any run. It
// returns nil if there is none.
func ScopeOf(ctx context.Context) *Scope { return (*Scope)(engine.ScopeOf(ctx)) }

func (s *Scope) erased() *engine.Scope { return (*engine.Scope)(s) }

// RunID returns the ID of the attempt's run. It is empty outside a run.
func (s *Scope) RunID() string { return s.erased().Settings().RunID }

// Tags returns the tags of the attempt's run. They must not be changed.
func (s *Scope) Tags() []string { return s.erased().Settings().Tags }

// RunCounts returns the counts of the run across all its openings. They are zero outside a run.
func (s *Scope) RunCounts() record.Counts { return s.erased().Settings().RunCounts() }

// Address returns the address of the call. It is zero outside a call, and outside a run.
func (s *Scope) Address() record.Address { return s.erased().Address() }

// Kind returns the kind of the call, such as record.KindAgent. It is 0 outside a call.
func (s *Scope) Kind() record.Kind {
	if spec := s.erased().Spec(); spec != nil {
		return spec.Kind
	}
	return 0
}

// Name returns the name of the called actor, step or group. It is empty outside a call.
func (s *Scope) Name() string {
	if spec := s.erased().Spec(); spec != nil {
		return spec.Name
	}
	return ""
}

// Parent returns the scope in which the call was made: that of the surrounding attempt or of the
// run. It is nil outside a call.
func (s *Scope) Parent() *Scope { return (*Scope)(s.erased().Parent()) }

// Attempt returns the number of the attempt, from 0.
func (s *Scope) Attempt() int { return s.erased().Attempt() }

// Path returns the address prefix of the calls made in the attempt. It is empty outside a call.
func (s *Scope) Path() string { return s.erased().Path() }

// Closed reports whether the attempt, or an attempt around it, is over because its handler has
// returned or was abandoned.
func (s *Scope) Closed() bool { return s.erased().Closed() }
