package core

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// call is the part of a call that does not depend on its types: an [engine.Typed]. It is not
// generic: a program has as many copies of a generic function as it has types of tools.
type call struct {
	_ [0]func() // not comparable: nothing compares calls, and no code for it is made
	engine.Call
	actor  *actor
	values values
}

// values are the input and the output of a call, with the functions that take them.
type values interface {
	input() any
	output() any
	into() any // a pointer to the output

	identity() any // what the function given to Definition.Identify returns
	require(ctx context.Context) error
	handle(ctx context.Context) error
	ensure(ctx context.Context) error
	lookUp(ctx context.Context) (found bool, err error)
	compensate(at *engine.Scope, nth int, found *record.Progress, inDoubt bool) error
	apart(c *call) engine.Apart
}

func (c *call) Require(ctx context.Context) (r engine.Result) {
	r.Stage = record.StagePrecondition
	defer r.RecoverPanic()
	r.Err = c.values.require(ctx)
	return r
}

func (c *call) Pass(ctx context.Context) engine.Result { return c.pass(ctx, c.values) }

func (c *call) Apart() engine.Apart { return c.values.apart(c) }

// pass runs the handler, the postconditions and artifact storage once.
func (c *call) pass(ctx context.Context, v values) engine.Result {
	r := c.make(ctx, v)
	if r.Err == nil && c.keepsOutput() && !engine.IsUnstored(ctx) {
		r = c.keep(ctx, v)
	}
	if r.Err != nil {
		clearOutput(v) // a failed attempt has no output
	}
	return r
}

// make runs the handler and the postconditions.
func (c *call) make(ctx context.Context, v values) (r engine.Result) {
	r.Stage = record.StageHandler
	defer r.RecoverPanic()
	if r.Err = v.handle(ctx); r.Err != nil || !c.actor.ensured {
		return r
	}
	return ensure(ctx, v)
}

// ensure checks the postconditions.
func ensure(ctx context.Context, v values) (r engine.Result) {
	r.Stage = record.StagePostcondition
	defer r.RecoverPanic()
	if r.Err = v.ensure(ctx); r.Err == nil {
		r.Stage = record.StageHandler
	}
	return r
}

// keepsOutput reports whether the run needs the encoded output. That of a group is not needed: the
// group gets its results from its branches.
func (c *call) keepsOutput() bool {
	settings := c.Settings()
	return (settings.Payloads || settings.Outputs || settings.PutArtifact != nil || settings.RoundTrip || c.keepsEffect()) && !c.actor.spec.NoStore &&
		c.actor.spec.Kind != record.KindGroup
}

// keepsEffect reports whether another call may take over the effect of this one.
func (c *call) keepsEffect() bool { return c.actor.spec.Irreversible && !c.IsOutside() }

func (c *call) KeepOutput(ctx context.Context) engine.Result {
	if !c.keepsOutput() {
		return engine.Result{Stage: record.StageHandler}
	}
	return c.keep(ctx, c.values)
}

func (c *call) Clear() { clearOutput(c.values) }

func clearOutput(v values) { reflect.ValueOf(v.into()).Elem().SetZero() }

func (c *call) EncodeOutput() ([]byte, error) {
	encoded, err := record.Encode(c.values.output())
	if err != nil {
		return nil, c.encodeError("output", err)
	}
	return encoded, nil
}

func (c *call) encodeError(what string, err error) error {
	return &encodeError{what, c.actor.spec.Name, err}
}

func (c *call) Answer(ctx context.Context, encoded []byte) engine.Result {
	c.Clear()
	if err := record.Decode(encoded, c.values.into()); err != nil {
		return engine.Result{Err: fmt.Errorf("core: the answer does not fit the output of %q: %w", c.actor.spec.Name, err)}
	}
	if !c.isWhole(encoded) {
		return engine.Result{Err: fmt.Errorf("core: the answer does not contain all of an output of %q", c.actor.spec.Name)}
	}
	return ensure(ctx, c.values)
}

// isWhole reports whether encoded contains all of the output. A value of a type that is now kept as
// JSON is empty if it was encoded before the type was.
func (c *call) isWhole(encoded []byte) bool {
	if !codec.WantsJSON(c.actor.out) {
		return true
	}
	again, err := codec.Encode(c.values.output())
	if err != nil {
		return false
	}
	was, err := record.HashOfEncoded(bytes.Clone(encoded))
	if err != nil {
		return false
	}
	is, err := record.HashOfEncoded(again)
	return err == nil && was == is
}

// keep encodes the output, and stores it separately if it is large. In a run that can be resumed,
// it then sets the output of the call to what its record decodes to: so a program sees the same
// output before and after a resume.
func (c *call) keep(ctx context.Context, v values) (r engine.Result) {
	settings := c.Settings()
	r.Stage = record.StageEncode
	defer r.RecoverPanic()
	encoded, err := record.Encode(v.output())
	if err != nil {
		r.Err = c.encodeError("output", err)
		return r
	}
	if settings.PutArtifact != nil && len(encoded) > engine.MaxInline {
		r.Stage = record.StageArtifact
		reference, err := c.PutArtifact(ctx, encoded)
		if err != nil {
			r.Err = err
			return r
		}
		r.Kept = &engine.KeptOutput{Artifact: reference}
	} else if settings.Payloads || settings.Outputs || c.keepsEffect() {
		r.Kept = &engine.KeptOutput{Encoded: encoded}
	}
	if (settings.Outputs || settings.RoundTrip) && !c.actor.unchanged {
		again := reflect.New(c.actor.out)
		if err := record.Decode(encoded, again.Interface()); err != nil {
			r.Err, r.Kept = c.encodeError("output", fmt.Errorf("it cannot be read again: %w", err)), nil
			return r
		}
		reflect.ValueOf(v.into()).Elem().Set(again.Elem())
	}
	r.Stage = record.StageHandler
	return r
}

func (c *call) Output() any { return c.values.output() }

func (c *call) EncodeInput() ([]byte, error) { return c.encodeInputBy(record.Encode) }

func (c *call) EncodeInputBefore() ([]byte, error) { return c.encodeInputBy(codec.EncodeBefore) }

func (c *call) encodeInputBy(encode func(v any) ([]byte, error)) ([]byte, error) {
	encoded, err := encode(c.values.input())
	if err != nil {
		return nil, c.encodeError("input", err)
	}
	return encoded, nil
}

// WholeInput returns the hash of the whole input.
func (c *call) WholeInput() (h record.Hash, size int, err error) {
	if d, ok := c.values.input().(Digester); ok {
		defer c.recoverDigest("input", &err)
		return d.WholeHash()
	}
	encoded, err := c.EncodeInput()
	if err != nil {
		return h, 0, err
	}
	h, err = record.HashOfEncoded(encoded)
	return h, len(encoded), err
}

// recoverDigest sets *err if a method of the input, or the function given to Identify, panicked. It
// must be deferred.
func (c *call) recoverDigest(what string, err *error) {
	if p := recover(); p != nil {
		*err = c.encodeError(what, &PanicError{Value: p, Stack: debug.Stack()})
	}
}

// Identity returns the hash of the identity of the input; see [Identifier].
func (c *call) Identity() (h record.Hash, err error) {
	in := c.values.input()
	d, ok := in.(Digester)
	if !ok || c.actor.identified {
		return c.identityBy(in, c.identityEncoder())
	}
	defer c.recoverDigest("input", &err)
	if h, err = d.IdentityHash(); err != nil {
		err = c.encodeError("identity of the input", err)
	}
	return h, err
}

func (c *call) IdentityBefore() (record.Hash, error) {
	return c.identityBy(c.values.input(), codec.EncodeIdentityBefore)
}

// identityBy returns the hash of the identity of in, which is the input of the call.
func (c *call) identityBy(in any, encode func(v any) ([]byte, error)) (h record.Hash, err error) {
	defer c.recoverDigest("identity of the input", &err)
	what, v := c.identity(in)
	encoded, err := encode(v)
	if err != nil {
		return record.Hash{}, c.encodeError(what, err)
	}
	return record.HashOfEncoded(encoded)
}

// identity returns the identity of in, which is the input of the call, and what errors call it.
func (c *call) identity(in any) (what string, v any) {
	if c.actor.identified {
		return "identity of the input", c.values.identity()
	}
	if i, ok := in.(Identifier); ok {
		return "identity of the input", i.Identity()
	}
	return "input", in
}

func (c *call) DeclaresIdentity() bool {
	if c.actor.identified {
		return true
	}
	_, declared := c.values.input().(Identifier)
	return declared
}

func (c *call) WholeIdentity() (h record.Hash, err error) {
	r := engine.Result{}
	defer func() { err = cmp.Or(r.Err, err) }()
	defer r.RecoverPanic()
	what := c.values.input()
	if c.actor.identified {
		what = c.values.identity()
	} else if _, partial := what.(Identifier); partial {
		if err := checkWholeInput(&c.actor.spec, c.actor.in); err != nil {
			return h, err
		}
	}
	encoded, err := c.identityEncoder()(what)
	if err == nil {
		h, err = record.HashOfEncoded(encoded)
	}
	if err != nil {
		err = c.encodeError("input", err)
	}
	return h, err
}

// identityEncoder encodes an identity. If the input can be of any type, the identity must be the
// same after the input was encoded and decoded.
func (c *call) identityEncoder() func(v any) ([]byte, error) {
	if !c.actor.identified && c.actor.in.Kind() == reflect.Interface {
		return codec.EncodeIdentityOfAny
	}
	return codec.EncodeIdentity
}

// DecodeOutput makes a recorded output the output of the call. lost lists the parts of the recorded
// output for which the type has no fields.
func (c *call) DecodeOutput(encoded []byte) (lost []string, err error) {
	if len(encoded) == 0 {
		return nil, errors.New("no output was recorded")
	}
	return record.DecodeAll(encoded, c.values.into())
}

func (c *call) DecodeAnswer(encoded []byte) error {
	answers, _ := schema.ForValue(c.actor.out) // nil if it has none
	return decodeAnswer(answers, encoded, c.values.into())
}

// OutputSchema returns the JSON schema of the output, nil if it has none.
func (c *call) OutputSchema() json.RawMessage {
	answers, err := schema.ForValue(c.actor.out)
	if err != nil {
		return nil
	}
	return answers.JSON()
}

func (c *call) Compensate(at *engine.Scope, nth int, found *record.Progress) error {
	return c.values.compensate(at, nth, found, false)
}

func (c *call) CompensateInDoubt(at *engine.Scope, nth int, found *record.Progress) error {
	return c.values.compensate(at, nth, found, true)
}
