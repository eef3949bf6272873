package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reprise-go/reprise/record"
)

// Spec is what a call needs to know of its actor.
type Spec struct {
	Kind           record.Kind
	Name           string
	AttemptTimeout time.Duration // 0 for the default; or NoTimeout
	InDoubt        InDoubt       // never InDoubtDefault
	Irreversible   bool          // its effect must not be made twice
	Branches       int           // of a group
	NoStore        bool          // its output is kept out of the records
}

// Plan is what a call is made of, beside its types. It does not keep the call from
// being made in any place.
type Plan struct {
	Spec    *Spec
	Policy  *Policy
	OfEvent bool   // the policy is the event's own
	Guard   *Guard // nil for nothing
	Segment string // of the address, escaped
	Branch  int    // of the group around it, from 1; 0 for none

	Guarded     bool // the actor has preconditions
	Direct      bool // the call is executed at once
	Compensable bool // the actor has a compensation
	Doubtful    bool // and one for calls in doubt
}

// Prepare makes c the call that t has the types of, in the scope around it, which may
// be that of InitOutside. In a run it claims the address.
func (c *Call) Prepare(ctx context.Context, around *Scope, t Typed, plan *Plan) {
	c.init(ctx, around, t, plan)
	c.direct, c.compensable, c.doubtful = plan.Direct, plan.Compensable, plan.Doubtful
	if !plan.Direct {
		c.toolCall, _ = ctx.Value(toolCallKey{}).(string)
	}
	c.claim(plan.Segment, plan.Branch)
}

// Refused is the beginning of the names of calls that a model asked for and that were
// refused.
const Refused = "refused_"

// toolCallKey is the context key of the ID of WithToolCall.
type toolCallKey struct{}

// WithToolCall returns a context for the call that is prepared with it, which a model has
// asked for under that ID: its records have it. A call is not executed with the context.
func WithToolCall(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, toolCallKey{}, id)
}

// PrepareCompensation makes c compensation nth, from 1, of the call whose scope is at,
// of which found is recorded. The program does not claim it, so it has no ordinal.
func (c *Call) PrepareCompensation(at *Scope, t Typed, plan *Plan, nth int, found *record.Progress, ofDoubt bool) {
	c.init(at.context(), at, t, plan)
	c.scope, c.ofDoubt = at, ofDoubt
	if found != nil {
		c.recall = &recall{found: found}
	}
	if !at.root.isOutside() {
		c.address = record.Site(at.Path(), plan.Segment).Address(nth)
	}
}

func (c *Call) init(ctx context.Context, around *Scope, t Typed, plan *Plan) {
	c.typed, c.spec, c.policy, c.custom, c.guard, c.guarded = t, plan.Spec, plan.Policy, plan.OfEvent, plan.Guard, plan.Guarded
	c.root, c.parent = around.root, around
	c.first.outer, c.first.root, c.first.call = ctx, c.root, c
}

// InitOutside makes a zero s the scope of calls outside any run.
func (s *Scope) InitOutside(ctx context.Context) { s.outer, s.root = ctx, outside }

// Execute makes the call.
func (c *Call) Execute() error { return c.execute(&c.first) }

// ExecuteWith makes a call that was prepared before. ctx is the context that it was
// prepared with, or one derived from it.
func (c *Call) ExecuteWith(ctx context.Context) error {
	c.first.outer = ctx
	if s := ScopeOf(ctx); s != nil && s.isWithin(c.parent) {
		c.parent = s // it is executed in a branch of the attempt that prepared it
	}
	return c.Execute()
}

// IsOf reports whether the call can be executed with ctx: it belongs to the run that
// the call was prepared with.
func (c *Call) IsOf(ctx context.Context) bool {
	var root *Root
	if s := ScopeOf(ctx); s != nil {
		root = s.root
	}
	return root == c.root || root == nil && c.root.isOutside()
}

// Address returns the address of the call; it is zero outside a run.
func (c *Call) Address() record.Address { return c.address }

// Recorded returns how the call ended according to the restored records:
// StatusCompleted, StatusFailed, or 0 if it has no recorded outcome.
func (c *Call) Recorded() record.Status {
	if c.recall == nil || c.recall.found == nil {
		return 0
	}
	switch c.recall.found.Phase {
	case record.PhaseSucceeded:
		return record.StatusCompleted
	case record.PhaseFailed:
		return record.StatusFailed
	}
	return 0
}

// InSlot sets the slot that the call holds when it is executed.
func (c *Call) InSlot(slot Slot) {
	var own Guard
	if c.guard != nil {
		own = *c.guard
	}
	own.slot = slot
	c.guard = &own
}

// A Slot is a place among calls of which only some run at a time. A call
// releases its slot while it waits for its next attempt.
type Slot interface {
	Release()
	// Acquire returns when a place is free again, or when ctx has ended.
	Acquire(ctx context.Context)
}

// Settings returns the settings of the run of the call.
func (c *Call) Settings() *Settings { return c.root.settings }

// IsOutside reports whether the call is made outside any run.
func (c *Call) IsOutside() bool { return c.root.isOutside() }

// PutArtifact stores an output that is too large for a record. The call has failed
// with what it returns.
func (c *Call) PutArtifact(ctx context.Context, encoded []byte) (reference string, err error) {
	if ScopeOf(ctx).Closed() {
		return "", ErrAttemptOver // abandoned: the output is dropped
	}
	return c.root.settings.PutArtifact(ctx, encoded)
}

// IsUnstored reports whether ctx belongs to a branch that must not keep its
// output.
func IsUnstored(ctx context.Context) bool {
	s := ScopeOf(ctx)
	in := s.inside.Load()
	return in != nil && in.unstored.Load() && s.call.spec.Kind == record.KindBranch
}

// maxName is the length of the longest name in bytes.
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
		return fmt.Errorf("core: the name %q begins or ends with a space", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("core: the name %q has characters that cannot be printed", name)
	}
	return nil
}
