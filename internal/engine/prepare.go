package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

// A Spec is what a call needs to know about its actor.
type Spec struct {
	Kind           record.Kind
	Name           string
	AttemptTimeout time.Duration // 0 for the default; or NoTimeout
	InDoubt        InDoubt       // never InDoubtDefault
	Irreversible   bool          // the call's effect must not be repeated
	Branches       int           // number of branches of a group
	NoStore        bool          // the call's output is not stored
}

// A Plan describes a call, apart from its types. It does not determine where the call is made.
type Plan struct {
	Spec    *Spec
	Policy  *Policy
	OfEvent bool   // the policy belongs to the event itself
	Guard   *Guard // what surrounds the attempts; nil if nothing does
	Segment string // segment of the address, escaped
	Branch  int    // number of the branch in the surrounding group, from 1; 0 if it is not a branch

	Guarded     bool // the actor has preconditions
	Direct      bool // the call is executed at once
	Compensable bool // the actor has a compensation
	Doubtful    bool // the actor has a compensation for calls in doubt
}

// Prepare makes c the call of t in the surrounding scope, which may be a scope from InitOutside. In
// a run, Prepare claims the call's address.
func (c *Call) Prepare(ctx context.Context, around *Scope, t Typed, plan *Plan) {
	c.init(ctx, around, t, plan)
	c.direct, c.compensable, c.compensableInDoubt = plan.Direct, plan.Compensable, plan.Doubtful
	if !plan.Direct {
		c.toolCall, _ = ctx.Value(toolCallKey{}).(string)
	}
	c.claim(plan.Segment, plan.Branch)
}

// Refused is the prefix of the names of calls that a model requested but its agent refused.
const Refused = "refused_"

// toolCallKey is the context key of the ID passed to WithToolCall.
type toolCallKey struct{}

// WithToolCall returns a context for preparing a call that a model requested with the
// given ID. The records of the call contain the ID. The context must not be used to
// execute a call.
func WithToolCall(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, toolCallKey{}, id)
}

// PrepareCompensation makes c the nth compensation (counted from 1) of a call. at is the scope of
// that call. found is the recorded progress of the compensation. A compensation has no ordinal,
// since the program does not claim it.
func (c *Call) PrepareCompensation(at *Scope, t Typed, plan *Plan, nth int, found *record.Progress, ofDoubt bool) {
	c.init(at.context(), at, t, plan)
	c.scope, c.compensatesDoubt = at, ofDoubt
	if found != nil {
		c.recall = &recall{found: found}
	}
	if !at.root.isOutside() {
		c.address = record.Address(callsite.Of(at.Path(), plan.Segment).Call(nth))
	}
}

func (c *Call) init(ctx context.Context, around *Scope, t Typed, plan *Plan) {
	c.typed, c.spec, c.policy, c.hasOwnPolicy, c.guard, c.guarded = t, plan.Spec, plan.Policy, plan.OfEvent, plan.Guard, plan.Guarded
	c.root, c.parent = around.root, around
	c.first.outer, c.first.root, c.first.call = ctx, c.root, c
}

// InitOutside makes s, which must be zero, the scope of calls outside any run.
func (s *Scope) InitOutside(ctx context.Context) { s.outer, s.root = ctx, outside }

// Execute makes the call.
func (c *Call) Execute() error { return c.execute(&c.first) }

// ExecuteWith makes a prepared call. ctx is the context that the call was prepared with, or a
// context derived from it.
func (c *Call) ExecuteWith(ctx context.Context) error {
	c.first.outer = ctx
	if s := ScopeOf(ctx); s != nil && s.isWithin(c.parent) {
		c.parent = s // the call is executed in a branch of the attempt that prepared it
	}
	return c.Execute()
}

// IsOf reports whether the call can be executed with ctx, which must belong to the run for which
// the call was prepared.
func (c *Call) IsOf(ctx context.Context) bool {
	var root *Root
	if s := ScopeOf(ctx); s != nil {
		root = s.root
	}
	return root == c.root || root == nil && c.root.isOutside()
}

// Address returns the address of the call, which is zero outside a run.
func (c *Call) Address() record.Address { return c.address }

// Recorded returns how the call ended according to the restored records: StatusCompleted or
// StatusFailed, or 0 if the call has no recorded outcome.
func (c *Call) Recorded() record.Status {
	if c.recall == nil || c.recall.found == nil {
		return 0
	}
	switch c.recall.found.Phase {
	case record.StateCompleted:
		return record.StatusCompleted
	case record.StateFailed:
		return record.StatusFailed
	}
	return 0
}

// InSlot sets the slot that the call holds while it is executed.
func (c *Call) InSlot(slot Slot) {
	var own Guard
	if c.guard != nil {
		own = *c.guard
	}
	own.slot = slot
	c.guard = &own
}

// A Slot is a call's right to run. A group has a limited number of slots. A call releases its slot
// while it waits for its next attempt.
type Slot interface {
	Release()
	// Acquire blocks until a slot is free or ctx has ended.
	Acquire(ctx context.Context)
}

// Settings returns the settings of the call's run.
func (c *Call) Settings() *Settings { return c.root.settings }

// IsOutside reports whether the call is made outside any run.
func (c *Call) IsOutside() bool { return c.root.isOutside() }

// PutArtifact stores an output that is too large for a record. If it returns an error,
// the call has failed with that error.
func (c *Call) PutArtifact(ctx context.Context, encoded []byte) (reference string, err error) {
	if ScopeOf(ctx).Closed() {
		return "", ErrAttemptOver // abandoned: drop the output
	}
	return c.root.settings.PutArtifact(ctx, encoded)
}

// IsUnstored reports whether ctx belongs to a branch that must not store its output.
func IsUnstored(ctx context.Context) bool {
	s := ScopeOf(ctx)
	in := s.state.Load()
	return in != nil && in.unstored.Load() && s.call.spec.Kind == record.KindBranch
}

// maxName is the maximum length of a name in bytes.
const maxName = 128

// CheckName is core.CheckName.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("core: the name is empty, want 1 to 128 bytes of printable text")
	case len(name) > maxName:
		return fmt.Errorf("core: the name %q… has %d bytes, want at most %d", record.Truncate(name, 20), len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("core: the name %q is not UTF-8", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("core: the name %q begins or ends with white space", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("core: the name %q has characters that are not printable", name)
	}
	return nil
}
