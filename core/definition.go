package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
)

// Spec is the untyped part of an actor: what the actor is and how its calls are treated.
type Spec struct {
	Kind        record.Kind
	Name        string
	Description string

	// Retry is the actor's own level of retry configuration. If it is nil, the run's levels apply.
	Retry *RetryConfig

	// AttemptTimeout limits the time of each attempt. Defaults to none. For LLMs, it defaults to 10
	// minutes if the retry configuration that applies has no AttemptTimeout; NoTimeout removes that
	// limit. AttemptTimeout takes precedence over every retry configuration except one set by
	// [ExecutionEvent.WithRetry].
	AttemptTimeout time.Duration

	// InDoubt sets what happens to a call that may or may not have taken effect. Agents are always
	// resumed.
	InDoubt InDoubtPolicy

	// Irreversible prevents the effect of a call from happening twice: see actors.WithIrreversible.
	Irreversible bool

	// Branches is the number of branches of a group.
	Branches int

	// Interceptors are called around each attempt. The first one is the outermost.
	Interceptors []Interceptor

	// NoStore keeps the output out of the records. When the run is resumed, the call is made again,
	// even if it had completed. In the case of an agent or a branch, the handler is then called
	// again, and its own calls are recalled. If a fingerprint ([record.Detail]) shows that the
	// output differs from the earlier one, the program may then make calls that differ from the
	// recorded ones, but must still make every call that has a recorded outcome.
	NoStore bool
}

// An Identifier is an input that defines its own identity. By default, the identity is the whole
// input without its zero fields.
//
// When a run is resumed, the identity is compared with the recorded one. The identity must contain
// everything on which the call's result depends, leave out what may change from one deployment to
// the next, and be a value that [record.Encode] accepts.
type Identifier interface{ Identity() any }

// A Digester is an Identifier that computes its own hashes. It is for long inputs that differ
// little from one call to the next, such as conversations: any other input is encoded and hashed as
// a whole for each call.
type Digester interface {
	Identifier

	// IdentityHash returns a hash of the identity.
	IdentityHash() (record.Hash, error)

	// WholeHash returns a hash of the whole input, and a lower bound for the size of its encoding
	// in bytes.
	WholeHash() (hash record.Hash, size int, err error)
}

// erased returns the part of the spec that calls need.
func (s *Spec) erased() engine.Spec {
	return engine.Spec{
		Kind: s.Kind, Name: s.Name, AttemptTimeout: s.AttemptTimeout, InDoubt: s.InDoubt,
		Irreversible: s.Irreversible, Branches: s.Branches, NoStore: s.NoStore,
	}
}

// A Handler is the function that an actor executes. Its context carries the run and the scope of
// the attempt.
type Handler[In, Out any] func(context.Context, In) (Out, error)

// A Definition is an actor: a name, a kind, a typed handler and conditions. Tools, LLMs and agents
// are built on it. A Definition never changes; Require and Ensure return changed copies.
type Definition[In, Out any] struct {
	spec      Spec
	segment   string      // the escaped name
	erased    engine.Spec // the part of spec that calls need
	policy    *engine.Policy
	handler   Handler[In, Out]
	identity  func(in any) any // returns the identity of an In; nil for the default
	inputErr  error            // why hashes cannot distinguish inputs; nil if they can
	unchanged bool             // encoding and decoding an output does not change it
	requires  []func(context.Context, In) error
	ensures   []func(context.Context, In, Out) error

	lookUp func(context.Context, In) (Out, bool, error) // nil for none

	guard *engine.Guard // nil for none

	compensation      *Compensation                                             // nil for none
	compensate        func(*engine.Scope, int, *record.Progress, In, Out) error // makes the compensating call
	compensateInDoubt func(*engine.Scope, int, *record.Progress, In) error      // compensates a call in doubt; nil if such calls are not compensated
	compensates       record.Kind                                               // if this is a compensation, the kind of the actor whose calls it undoes
}

// NewDefinition returns a definition with the given spec and handler. The error lists every problem
// with either of them.
func NewDefinition[In, Out any](spec Spec, handler Handler[In, Out]) (*Definition[In, Out], error) {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	policy, err := spec.settle(handler == nil, out)
	if err != nil {
		return nil, err
	}
	d := &Definition[In, Out]{
		spec: spec, segment: spec.segment(), erased: spec.erased(), policy: policy, handler: handler,
		inputErr: checkInput(&spec, in), unchanged: codec.Unchanged(out),
	}
	d.guard = d.guard.With(spec.Interceptors)
	return d, nil
}

// segment returns the escaped name.
func (s *Spec) segment() string {
	if s.Kind == record.KindGroup {
		return segment.OfGroup(s.Name)
	}
	return segment.Of(s.Name)
}

// settle checks the spec of an actor whose outputs have the type output, sets its defaults, and
// returns the policy of its Retry, or nil if it has none. The error lists every problem. settle is
// not generic, because a program would then contain one copy of it for each type of tool.
func (s *Spec) settle(noHandler bool, output reflect.Type) (policy *engine.Policy, err error) {
	var problems []error
	if !s.Kind.IsCall() {
		problems = append(problems, fmt.Errorf("core: %v is not a kind of call, want KindTool, KindLLM or KindAgent", s.Kind))
	}
	if err := CheckName(s.Name); err != nil {
		problems = append(problems, err)
	}
	if noHandler {
		problems = append(problems, fmt.Errorf("core: %q has no handler: the function is nil", s.Name))
	}
	if s.AttemptTimeout < 0 && s.AttemptTimeout != NoTimeout {
		problems = append(problems, fmt.Errorf("core: the attempt timeout of %q is %v; want more than 0, 0 for the default, or core.NoTimeout", s.Name, s.AttemptTimeout))
	}
	if err := checkOutput(s, output); err != nil {
		problems = append(problems, err)
	}
	if s.InDoubt > InDoubtAsk {
		problems = append(problems, fmt.Errorf("core: Spec.InDoubt of %q is %d, want InDoubtDefault, InDoubtRetry, InDoubtFail or InDoubtAsk", s.Name, s.InDoubt))
	}
	if s.Irreversible && s.Kind.IsParallel() {
		problems = append(problems, fmt.Errorf("core: %q is irreversible, but a group or a branch has no effect of its own; only a tool, an LLM or an agent can be irreversible", s.Name))
	}
	if s.Irreversible && s.NoStore {
		problems = append(problems, fmt.Errorf("core: %q is irreversible and NoStore: without its output, nothing could take over its effect; use one or the other", s.Name))
	}
	if s.InDoubt == InDoubtDefault {
		if s.InDoubt = InDoubtRetry; s.Irreversible {
			s.InDoubt = InDoubtAsk
		}
	}
	if s.NoStore && !s.Irreversible && s.InDoubt != InDoubtRetry {
		problems = append(problems, fmt.Errorf("core: %q is NoStore, so it runs again whenever its run is resumed, but its InDoubt forbids that; use one or the other", s.Name))
	}
	if s.Retry != nil {
		own := *s.Retry // a copy, because the caller may change the original later
		s.Retry = &own
		if policy, err = own.Policy(); err != nil {
			problems = append(problems, fmt.Errorf("core: %q: %w", s.Name, err))
		}
	}
	return policy, errors.Join(problems...)
}

// isActor reports whether k is a kind of actor that users define. The levels of retry configuration
// apply to these kinds.
func isActor(k record.Kind) bool { return k >= record.KindTool && k <= record.KindAgent }

// CheckName returns an error if name cannot be the name of an actor: it must
// have 1 to 128 bytes of printable UTF-8 and no space at either end.
func CheckName(name string) error { return engine.CheckName(name) }

// Spec returns the spec that was given to NewDefinition, with InDoubtDefault replaced by the choice
// that it stands for. For a nil definition it returns the zero Spec.
func (d *Definition[In, Out]) Spec() Spec {
	if d == nil {
		return Spec{}
	}
	return d.spec
}

// Require returns a copy with one more precondition. The preconditions of a call run once, in
// order, before its first attempt. The first error fails the call with [ErrPrecondition] and is not
// retried.
func (d *Definition[In, Out]) Require(condition func(context.Context, In) error) *Definition[In, Out] {
	d.mustHaveFunction("Require", condition == nil)
	c := *d
	c.requires = append(slices.Clip(d.requires), condition)
	return &c
}

// Ensure returns a copy with one more postcondition. Postconditions run in order after each
// successful return of the handler. An error fails the attempt, which is then retried.
func (d *Definition[In, Out]) Ensure(condition func(context.Context, In, Out) error) *Definition[In, Out] {
	d.mustHaveFunction("Ensure", condition == nil)
	c := *d
	c.ensures = append(slices.Clip(d.ensures), condition)
	return &c
}

// Identify returns a copy that uses f to get the identity of an input (see [Identifier]).
func (d *Definition[In, Out]) Identify(f func(In) any) *Definition[In, Out] {
	d.mustHaveFunction("Identify", f == nil)
	c := *d
	c.inputErr = nil
	c.identity = func(v any) any {
		in, _ := v.(In) // nil if In is an interface type and v is nil
		return f(in)
	}
	return &c
}

// Check returns an error if hashes cannot distinguish the actor's inputs. This happens if a part of
// the input type cannot be encoded, and is thus missing from the hash, and neither Identify nor an
// [Identifier] defines the identity. Calls return this error, too. The constructors of package
// actors call Check.
func (d *Definition[In, Out]) Check() error {
	if d == nil {
		return errUndefined
	}
	return d.inputErr
}

func (d *Definition[In, Out]) mustHaveFunction(method string, missing bool) {
	if d == nil {
		panic("core: " + method + " of an actor that was never defined")
	}
	d.spec.mustHaveFunction(method, missing)
}

func (s *Spec) mustHaveFunction(method string, missing bool) {
	if missing {
		panic(fmt.Sprintf("core: %q: %s needs a function; it is nil", s.Name, method))
	}
}

// Event returns a call of the actor, to be executed later. Executing the event of a nil definition
// returns an error.
func (d *Definition[In, Out]) Event() ExecutionEvent[In, Out] {
	return ExecutionEvent[In, Out]{definition: d}
}
