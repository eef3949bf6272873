package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// An ExecutionEvent is one call of an actor that is yet to be made. It is a
// value: its methods return changed copies, and executing it twice is two
// calls.
type ExecutionEvent[In, Out any] struct {
	definition *Definition[In, Out]
	policy     *Policy // the event's own level; nil leaves the decision to the actor
	tag        string
	branch     int // from 1
	inBranch   bool
	guard      *guard
}

// WithRetry sets the most specific level of retry configuration. The levels,
// most specific first, are: event, actor by name (on the run), actor, actor kind
// and global (both on the run), built-in by kind. They do not merge: the first that is set decides
// alone. An invalid configuration is the error of Execute.
func (e ExecutionEvent[In, Out]) WithRetry(c RetryConfig) ExecutionEvent[In, Out] {
	policy, err := NewPolicy(c)
	if err != nil {
		policy = &Policy{err: err}
	}
	e.policy = policy
	return e
}

// WithBreaker has the call guarded by b, beside the breaker of its actor. Nil
// changes nothing.
func (e ExecutionEvent[In, Out]) WithBreaker(b Breaker) ExecutionEvent[In, Out] {
	e.guard = e.guards().with(b, nil)
	return e
}

// WithRetryBudget has the retries of the call limited by b, beside the budget of
// its actor. Nil changes nothing.
func (e ExecutionEvent[In, Out]) WithRetryBudget(b *RetryBudget) ExecutionEvent[In, Out] {
	e.guard = e.guards().with(nil, b)
	return e
}

// guards are those of the event, which has those of the actor among them.
func (e *ExecutionEvent[In, Out]) guards() *guard {
	if e.guard == nil && e.definition != nil {
		return e.definition.guard
	}
	return e.guard
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
// that made the call. A context of the caller's own that ends is not an interrupt:
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
	if e.inBranch {
		if err := e.takeBranch(ctx); err != nil {
			var zero Out
			return zero, err
		}
	}
	return e.prepare(ctx, in, true).execute()
}

// errUndefined is the failure of an event whose actor is a zero value.
var errUndefined = errors.New("core: the actor was never defined: it is a zero value; make it with a constructor, such as decorators.Tool")

// InBranch makes the call branch i, from 1, of the group whose handler makes
// it: its address ends in the number. A handler makes each branch once. Executing
// such a call anywhere else, another time, or with a number above the group's
// Branches, is an error, and nothing runs.
func (e ExecutionEvent[In, Out]) InBranch(i int) ExecutionEvent[In, Out] {
	e.branch, e.inBranch = i, true
	return e
}

// takeBranch takes the branch that the call is, which can be done once.
func (e *ExecutionEvent[In, Out]) takeBranch(ctx context.Context) error {
	if err := ScopeOf(ctx).takeBranch(e.branch); err != nil {
		return fmt.Errorf("core: InBranch(%d) of %q: %w", e.branch, e.definition.spec.Name, err)
	}
	return nil
}

// Prepare claims the address of the call now, for a call that is made later:
// several that are prepared in order have the same addresses in every run,
// however their execution interleaves. A prepared call must be executed once,
// by any goroutine.
func (e ExecutionEvent[In, Out]) Prepare(ctx context.Context, in In) *PreparedCall[In, Out] {
	p := new(PreparedCall[In, Out])
	switch {
	case e.definition == nil:
		p.wrong = errUndefined
		return p
	case e.inBranch:
		if p.wrong = e.takeBranch(ctx); p.wrong != nil {
			return p
		}
	}
	p.call = e.prepare(ctx, in, false)
	return p
}

// A PreparedCall is a call that has its address and was not yet made.
type PreparedCall[In, Out any] struct {
	call  *typedCall[In, Out] // nil if it cannot be made
	wrong error               // why not
	begun atomic.Bool
}

// Address is that of the call; zero outside a run.
func (p *PreparedCall[In, Out]) Address() record.Address {
	if p.call == nil {
		return record.Address{}
	}
	return p.call.address
}

// Recorded is how the call ended according to what was restored:
// StatusCompleted, StatusFailed, or 0 if it has no outcome on record.
func (p *PreparedCall[In, Out]) Recorded() record.Status {
	if p.call == nil || p.call.recall == nil || p.call.recall.found == nil {
		return 0
	}
	switch p.call.recall.found.Phase {
	case record.PhaseSucceeded:
		return record.StatusCompleted
	case record.PhaseFailed:
		return record.StatusFailed
	}
	return 0
}

// Execute makes the call, as [ExecutionEvent.Execute] does. ctx may be that of
// Prepare or one derived from it.
func (p *PreparedCall[In, Out]) Execute(ctx context.Context) (Out, error) {
	if err := p.check(ctx); err != nil {
		var zero Out
		return zero, err
	}
	p.call.first.outer = ctx
	if s := ScopeOf(ctx); s != nil && s.isWithin(p.call.parent) {
		p.call.parent = s // it is executed deeper inside than it was prepared
	}
	return p.call.execute()
}

// A Slot is a place among calls of which only some run at once. A call gives it
// up while it waits for its next attempt.
type Slot interface {
	Release()
	// Acquire returns when there is a place again, or when ctx has ended.
	Acquire(ctx context.Context)
}

// InSlot says that the call holds the slot when it is executed.
func (p *PreparedCall[In, Out]) InSlot(slot Slot) {
	if p.call != nil {
		var own guard
		if p.call.guard != nil {
			own = *p.call.guard
		}
		own.slot = slot
		p.call.guard = &own
	}
}

func (p *PreparedCall[In, Out]) check(ctx context.Context) error {
	if p.call == nil {
		return p.wrong
	}
	name := p.call.spec.Name
	if !p.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("core: the prepared call of %q was executed before; Prepare another", name)
	}
	var root *Root
	if s := ScopeOf(ctx); s != nil {
		root = s.root
	}
	if root != p.call.root && (root != nil || !p.call.root.isOutside()) {
		return fmt.Errorf("core: the prepared call of %q is executed with a context of another run than it was prepared with", name)
	}
	return nil
}

// prepare makes a call, with its address where it is in a run. Direct is one
// that is executed at once.
func (e *ExecutionEvent[In, Out]) prepare(ctx context.Context, in In, direct bool) *typedCall[In, Out] {
	d := e.definition
	parent := ScopeOf(ctx)
	var t *typedCall[In, Out]
	if parent != nil {
		t = new(typedCall[In, Out])
	} else {
		alone := new(struct {
			call   typedCall[In, Out]
			parent Scope
		})
		t, parent = &alone.call, &alone.parent
		parent.outer, parent.root = ctx, outside
	}
	t.definition, t.in = d, in
	t.typed, t.spec, t.root, t.parent = t, &d.spec, parent.root, parent
	t.policy, t.custom, t.guarded = e.level(t.root.settings), e.policy != nil, len(d.requires) > 0
	if t.guard = d.guard; e.guard != nil {
		t.guard = e.guard
	}
	t.direct, t.compensable = direct, d.compensation != nil
	t.first.outer, t.first.root, t.first.call = ctx, t.root, &t.call
	segment := d.segment
	if e.tag != "" {
		segment = record.TagSegment(e.tag)
	}
	t.claim(segment, e.branch)
	return t
}

// level finds the retry configuration that decides.
func (e *ExecutionEvent[In, Out]) level(settings *Settings) *Policy {
	d := e.definition
	if e.policy != nil {
		return e.policy
	}
	kind := d.spec.Kind
	if kind == record.KindCompensation {
		kind = d.compensates
	}
	if p := settings.RetryByActor[d.spec.Name]; p != nil && isActor(kind) {
		return p
	}
	switch {
	case d.policy != nil:
		return d.policy
	case !isActor(kind):
		return builtInOnce
	case settings.RetryByKind[kind] != nil:
		return settings.RetryByKind[kind]
	case settings.Retry != nil:
		return settings.Retry
	}
	return builtIn(kind)
}
