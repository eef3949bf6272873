package actors

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// A Tool is a typed function that agents and models call. It is immutable and safe
// for concurrent use. Make one with decorators.Tool or [NewTool]; calling the zero
// Tool is an error.
type Tool[In, Out any] struct {
	definition *core.Definition[In, Out]
	schema     Schema

	// approval is the definition of the call that asks for approval, or nil if
	// calls need none. requires holds the preconditions that are checked before
	// the question.
	approval      *core.Definition[In, Out]
	typedApproval *typedApproval[In]
	requires      []func(context.Context, In) error
	identity      any
}

// NewTool returns a tool. The schema describes its arguments and checks them. [ParseSchema] makes a
// schema from a document; decorators.Tool infers it from In. NewTool panics if LLM services would
// not accept the name, if the schema or the handler is nil, or if an option is invalid.
func NewTool[In, Out any](name, description string, schema Schema, handler core.Handler[In, Out], opts ...Option) Tool[In, Out] {
	o, schema := applyTool(name, description, schema, opts)
	t := Tool[In, Out]{definition: define(o, handler), schema: schema}
	if o.approval != nil {
		t.identity, t.typedApproval = o.identity, newApproval[In](name, o.approval, schema)
		t.approval = t.approvalDefinition()
	}
	return t
}

// applyTool returns the options of a tool and its schema. It panics if an argument is invalid.
func applyTool(name, description string, schema Schema, opts []Option) (*options, Schema) {
	if err := CheckFunctionName(name); err != nil {
		panic(err)
	}
	if schema == nil {
		panic(fmt.Sprintf("actors: tool %q has no schema; decorators.Tool infers one, ParseSchema makes one from a document", name))
	}
	o := applyTyped(core.Spec{Kind: record.KindTool, Name: name, Description: description}, opts)
	if o.strict {
		schema = mustStrict(name, schema)
	}
	return o, schema
}

// outermost returns the definition that a call to the tool executes.
func (t Tool[In, Out]) outermost() *core.Definition[In, Out] {
	if t.approval != nil {
		return t.approval
	}
	return t.definition
}

// with returns a copy with another definition, which approved calls also use.
func (t Tool[In, Out]) with(d *core.Definition[In, Out]) Tool[In, Out] {
	t.definition = d
	if t.approval != nil {
		t.approval = t.approvalDefinition()
	}
	return t
}

// Call executes the tool; see [core.ExecutionEvent.Execute].
func (t Tool[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	return t.Event().Execute(ctx, in)
}

// Event returns a call that can be given its own tag and retry configuration.
func (t Tool[In, Out]) Event() core.ExecutionEvent[In, Out] { return t.outermost().Event() }

// Require returns a copy of the tool with one more precondition.
func (t Tool[In, Out]) Require(condition func(context.Context, In) error) Tool[In, Out] {
	t.requires = append(slices.Clip(t.requires), condition)
	return t.with(t.definition.Require(condition))
}

// Ensure returns a copy of the tool with one more postcondition.
func (t Tool[In, Out]) Ensure(condition func(context.Context, In, Out) error) Tool[In, Out] {
	return t.with(t.definition.Ensure(condition))
}

// Compensate returns a copy of the tool whose completed calls are undone by f if the call around
// them fails permanently, or if their run is cancelled; see [core.Definition.Compensate]. A call
// that did not complete is not undone; see [Tool.CompensateInDoubt]. A stored run must know the
// tool; see state.WithCompensations.
func (t Tool[In, Out]) Compensate(f func(context.Context, In, Out) error) Tool[In, Out] {
	return t.with(t.definition.Compensate(f))
}

// CompensateInDoubt returns a copy of the tool whose calls in doubt are undone by f. These are
// calls that were cut off by a crash, an interrupt or a timeout, so that nobody knows whether they
// took effect; see [core.Definition.CompensateInDoubt]. f receives the call's input and must allow
// for the possibility that there is nothing to undo. CompensateInDoubt panics if Compensate was not
// called before.
func (t Tool[In, Out]) CompensateInDoubt(f func(context.Context, In) error) Tool[In, Out] {
	return t.with(t.definition.CompensateInDoubt(f))
}

// LookUp returns a copy of the tool that calls f to find out whether a call in doubt took effect,
// before the call fails or a person is asked; see [core.Definition.LookUp].
func (t Tool[In, Out]) LookUp(f func(ctx context.Context, in In) (out Out, found bool, err error)) Tool[In, Out] {
	return t.with(t.definition.LookUp(f))
}

// Compensations returns the tool's compensation, if any.
func (t Tool[In, Out]) Compensations() []*core.Compensation { return t.definition.Compensations() }

// Name returns the tool's name, or "" for the zero Tool.
func (t Tool[In, Out]) Name() string { return t.definition.Spec().Name }

// Describe implements [Function].
func (t Tool[In, Out]) Describe() FunctionSpec { return describe(t.definition, t.schema) }

// Prepare implements [Function].
func (t Tool[In, Out]) Prepare(ctx context.Context, arguments string) (PreparedFunction, error) {
	return prepare(ctx, t.Name(), t.outermost(), t.schema, arguments)
}

func describe[In, Out any](d *core.Definition[In, Out], schema Schema) FunctionSpec {
	spec := FunctionSpec{Name: d.Spec().Name, Description: d.Spec().Description}
	if schema != nil {
		spec.Parameters = schema.JSON()
		_, spec.Strict = schema.(strictSchema)
	}
	return spec
}
