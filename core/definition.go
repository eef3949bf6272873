package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// Spec is the part of an actor that has no types: what it is and how its
// calls are to be treated.
type Spec struct {
	Kind        record.Kind
	Name        string
	Description string

	// Retry is the actor's own level of retry configuration; nil leaves the
	// decision to the run.
	Retry *RetryConfig

	// AttemptTimeout bounds each attempt; 0 means none, and for LLMs 10 minutes,
	// unless a retry configuration has one, or it is NoTimeout. It wins over that of
	// every retry configuration but the event's.
	AttemptTimeout time.Duration

	// InDoubt says what becomes of a call whose process ended, or which was
	// interrupted, while its handler ran. Agents are entered again whatever
	// it says.
	InDoubt InDoubt

	// Branches is the number of branches of a group.
	Branches int

	// Breaker refuses attempts while what the actor calls is failing; nil for
	// none.
	Breaker Breaker

	// RetryBudget limits the retries of all calls that have it; nil for none.
	RetryBudget *RetryBudget

	// Cache answers calls with the outputs of earlier ones; nil for none.
	Cache *Caching

	// NoStore keeps the output out of records: the call runs again when its
	// run is resumed, also if it had completed. An agent is entered again then,
	// and its own calls are recalled.
	NoStore bool
}

// A Handler is the function behind an actor. Its context carries the run and
// the scope of the attempt.
type Handler[In, Out any] func(context.Context, In) (Out, error)

// A Definition is an actor: a name, a kind, a typed handler, conditions. It
// is what tools, LLMs and agents are made of. It never changes; Require and
// Ensure return changed copies.
type Definition[In, Out any] struct {
	spec     Spec
	segment  string // the name, escaped
	policy   *Policy
	handler  Handler[In, Out]
	identity func(In) any // nil for the default
	requires []func(context.Context, In) error
	ensures  []func(context.Context, In, Out) error

	guard *guard // nil for none

	compensation *Compensation                                      // nil for none
	compensate   func(*Scope, int, *record.Progress, In, Out) error // makes the call that it is
	compensates  record.Kind                                        // of a compensation: the kind of its actor
}

// NewDefinition checks the spec and the handler and makes a definition of
// them. Every problem is in the error.
func NewDefinition[In, Out any](spec Spec, handler Handler[In, Out]) (*Definition[In, Out], error) {
	var problems []error
	if !spec.Kind.IsCall() {
		problems = append(problems, fmt.Errorf("core: %v is not a kind of call, want KindTool, KindLLM or KindAgent", spec.Kind))
	}
	if err := CheckName(spec.Name); err != nil {
		problems = append(problems, err)
	}
	if handler == nil {
		problems = append(problems, fmt.Errorf("core: %q has no handler: the function is nil", spec.Name))
	}
	if spec.AttemptTimeout < 0 && spec.AttemptTimeout != NoTimeout {
		problems = append(problems, fmt.Errorf("core: the attempt timeout of %q is %v; want more than 0, 0 for the default, or core.NoTimeout", spec.Name, spec.AttemptTimeout))
	}
	if err := codec.CheckType(reflect.TypeFor[Out]()); err != nil && !spec.NoStore && spec.Kind != record.KindGroup && spec.Kind != record.KindBranch {
		problems = append(problems, fmt.Errorf("core: the output of %q could never be stored: %w; return something else, or mark the actor NoStore", spec.Name, err))
	}
	if spec.InDoubt > InDoubtAsk {
		problems = append(problems, fmt.Errorf("core: Spec.InDoubt of %q is %d, want InDoubtRetry, InDoubtFail or InDoubtAsk", spec.Name, spec.InDoubt))
	}
	if spec.NoStore && spec.InDoubt != InDoubtRetry {
		problems = append(problems, fmt.Errorf("core: %q is NoStore, so that it runs again whenever its run is resumed, and its InDoubt asks not to be simply run again; use one or the other", spec.Name))
	}
	if err := spec.Cache.check(&spec); err != nil {
		problems = append(problems, err)
	}
	segment := record.Segment(spec.Name)
	if spec.Kind == record.KindGroup {
		segment = record.GroupSegment(spec.Name)
	}
	d := &Definition[In, Out]{spec: spec, segment: segment, handler: handler}
	d.guard = d.guard.with(spec.Breaker, spec.RetryBudget)
	if spec.Retry != nil {
		own := *spec.Retry // the caller may go on changing theirs
		d.spec.Retry = &own
		policy, err := NewPolicy(own)
		if err != nil {
			problems = append(problems, fmt.Errorf("core: %q: %w", spec.Name, err))
		}
		d.policy = policy
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return d, nil
}

// isActor reports whether calls of the kind are those of a user's actor, and
// retried as the levels of configuration say.
func isActor(k record.Kind) bool { return k >= record.KindTool && k <= record.KindAgent }

// isEntered reports whether the handler of such a call only makes other calls,
// so that it is run again on resume to get to where it stopped.
func isEntered(k record.Kind) bool {
	return k == record.KindAgent || k == record.KindGroup || k == record.KindBranch
}

// maxName is the length of the longest name in bytes.
const maxName = 128

// CheckName reports what keeps name from being the name of an actor: it must
// have 1 to 128 bytes of printable UTF-8 and no space at either end.
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

// Spec returns what was given to NewDefinition; the zero Spec for a nil
// definition.
func (d *Definition[In, Out]) Spec() Spec {
	if d == nil {
		return Spec{}
	}
	return d.spec
}

// Require returns a copy with one more precondition. Preconditions run in
// order, once for each call and before its first attempt; the first error
// fails the call with [ErrPrecondition], and is not retried.
func (d *Definition[In, Out]) Require(condition func(context.Context, In) error) *Definition[In, Out] {
	d.mustCondition("Require", condition == nil)
	c := *d
	c.requires = append(slices.Clip(d.requires), condition)
	return &c
}

// Ensure returns a copy with one more postcondition. Postconditions run in
// order after each successful return of the handler; an error fails the
// attempt, which is retried.
func (d *Definition[In, Out]) Ensure(condition func(context.Context, In, Out) error) *Definition[In, Out] {
	d.mustCondition("Ensure", condition == nil)
	c := *d
	c.ensures = append(slices.Clip(d.ensures), condition)
	return &c
}

// Identify returns a copy whose inputs have the identity that f returns, see
// [Identifier].
func (d *Definition[In, Out]) Identify(f func(In) any) *Definition[In, Out] {
	d.mustCondition("Identify", f == nil)
	c := *d
	c.identity = f
	return &c
}

func (d *Definition[In, Out]) mustCondition(method string, missing bool) {
	if d == nil {
		panic("core: " + method + " of an actor that was never defined")
	}
	if missing {
		panic(fmt.Sprintf("core: %q: %s needs a function; it is nil", d.spec.Name, method))
	}
}

// Event returns a call of the actor that is yet to be made. That of a nil
// definition fails.
func (d *Definition[In, Out]) Event() ExecutionEvent[In, Out] {
	return ExecutionEvent[In, Out]{definition: d}
}
