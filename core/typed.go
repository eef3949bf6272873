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

// typedCall is a call with its types. One allocation holds the call, its
// first attempt, its input and its output.
type typedCall[In, Out any] struct {
	engine.Call
	definition *Definition[In, Out]
	in         In
	out        Out
}

// result returns what a call that ended with err returns.
func (t *typedCall[In, Out]) result(err error) (Out, error) {
	if err != nil {
		var zero Out
		return zero, err
	}
	return t.out, nil
}

func (t *typedCall[In, Out]) Require(ctx context.Context) (r engine.Result) {
	r.Stage = record.StagePrecondition
	defer r.RecoverPanic()
	for _, condition := range t.definition.requires {
		if r.Err = condition(ctx, t.in); r.Err != nil {
			return r
		}
	}
	return r
}

func (t *typedCall[In, Out]) Pass(ctx context.Context) engine.Result { return t.passInto(ctx, &t.out) }

// passInto runs the handler, the postconditions and artifact storage once.
func (t *typedCall[In, Out]) passInto(ctx context.Context, out *Out) engine.Result {
	r := t.make(ctx, out)
	if r.Err == nil && t.keepsOutput() && !engine.IsUnstored(ctx) {
		r = t.keep(ctx, out)
	}
	if r.Err != nil {
		var zero Out // a failed attempt has no output
		*out = zero
	}
	return r
}

// make runs the handler and the postconditions.
func (t *typedCall[In, Out]) make(ctx context.Context, out *Out) (r engine.Result) {
	r.Stage = record.StageHandler
	defer r.RecoverPanic()
	if *out, r.Err = t.definition.handler(ctx, t.in); r.Err != nil {
		return r
	}
	if len(t.definition.ensures) == 0 {
		return r
	}
	return t.ensure(ctx, out)
}

// ensure checks the postconditions.
func (t *typedCall[In, Out]) ensure(ctx context.Context, out *Out) (r engine.Result) {
	r.Stage = record.StagePostcondition
	defer r.RecoverPanic()
	for _, condition := range t.definition.ensures {
		if r.Err = condition(ctx, t.in, *out); r.Err != nil {
			return r
		}
	}
	r.Stage = record.StageHandler
	return r
}

// keepsOutput reports whether the run needs the encoded output. That of a group is not needed: the
// group gets its results from its branches.
func (t *typedCall[In, Out]) keepsOutput() bool {
	settings := t.Settings()
	return (settings.Payloads || settings.Outputs || settings.PutArtifact != nil || settings.RoundTrip || t.keepsEffect()) && !t.definition.spec.NoStore &&
		t.definition.spec.Kind != record.KindGroup
}

// keepsEffect reports whether another call may take over the effect of this one.
func (t *typedCall[In, Out]) keepsEffect() bool {
	return t.definition.spec.Irreversible && !t.IsOutside()
}

func (t *typedCall[In, Out]) KeepOutput(ctx context.Context) engine.Result {
	if !t.keepsOutput() {
		return engine.Result{Stage: record.StageHandler}
	}
	return t.keep(ctx, &t.out)
}

func (t *typedCall[In, Out]) Clear() {
	var zero Out
	t.out = zero
}

func (t *typedCall[In, Out]) EncodeOutput() ([]byte, error) {
	encoded, err := record.Encode(t.out)
	if err != nil {
		return nil, &encodeError{"output", t.definition.spec.Name, err}
	}
	return encoded, nil
}

func (t *typedCall[In, Out]) Answer(ctx context.Context, encoded []byte) engine.Result {
	t.Clear()
	if err := record.Decode(encoded, &t.out); err != nil {
		return engine.Result{Err: fmt.Errorf("core: the answer does not fit the output of %q: %w", t.definition.spec.Name, err)}
	}
	if !isWhole(encoded, &t.out) {
		return engine.Result{Err: fmt.Errorf("core: the answer does not contain all of an output of %q", t.definition.spec.Name)}
	}
	return t.ensure(ctx, &t.out)
}

// isWhole reports whether encoded contains all of out. A value of a type that is now kept as JSON
// is empty if it was encoded before the type was.
func isWhole[Out any](encoded []byte, out *Out) bool {
	if !codec.WantsJSON(reflect.TypeFor[Out]()) {
		return true
	}
	again, err := codec.Encode(*out)
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
func (t *typedCall[In, Out]) keep(ctx context.Context, out *Out) (r engine.Result) {
	settings := t.Settings()
	r.Stage = record.StageEncode
	defer r.RecoverPanic()
	encoded, err := record.Encode(*out)
	if err != nil {
		r.Err = &encodeError{"output", t.definition.spec.Name, err}
		return r
	}
	if settings.PutArtifact != nil && len(encoded) > engine.MaxInline {
		r.Stage = record.StageArtifact
		reference, err := t.PutArtifact(ctx, encoded)
		if err != nil {
			r.Err = err
			return r
		}
		r.Kept = &engine.KeptOutput{Artifact: reference}
	} else if settings.Payloads || settings.Outputs || t.keepsEffect() {
		r.Kept = &engine.KeptOutput{Encoded: encoded}
	}
	if (settings.Outputs || settings.RoundTrip) && !t.definition.unchanged {
		var again Out
		if err := record.Decode(encoded, &again); err != nil {
			r.Err, r.Kept = &encodeError{"output", t.definition.spec.Name, fmt.Errorf("it cannot be read again: %w", err)}, nil
			return r
		}
		*out = again
	}
	r.Stage = record.StageHandler
	return r
}

func (t *typedCall[In, Out]) Output() any { return t.out }

func (t *typedCall[In, Out]) EncodeInput() ([]byte, error) { return t.encodeInputBy(record.Encode) }

func (t *typedCall[In, Out]) EncodeInputBefore() ([]byte, error) {
	return t.encodeInputBy(codec.EncodeBefore)
}

func (t *typedCall[In, Out]) encodeInputBy(encode func(v any) ([]byte, error)) ([]byte, error) {
	encoded, err := encode(t.in)
	if err != nil {
		return nil, &encodeError{"input", t.definition.spec.Name, err}
	}
	return encoded, nil
}

// WholeInput returns the hash of the whole input.
func (t *typedCall[In, Out]) WholeInput() (h record.Hash, size int, err error) {
	if d, ok := any(t.in).(Digester); ok {
		defer t.recoverDigest(&err)
		return d.WholeHash()
	}
	encoded, err := t.EncodeInput()
	if err != nil {
		return h, 0, err
	}
	h, err = record.HashOfEncoded(encoded)
	return h, len(encoded), err
}

// recoverDigest sets *err if a Digester panicked. It must be deferred.
func (t *typedCall[In, Out]) recoverDigest(err *error) {
	if p := recover(); p != nil {
		*err = &encodeError{"input", t.definition.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
	}
}

// Identity returns the hash of the identity of the input; see [Identifier].
func (t *typedCall[In, Out]) Identity() (h record.Hash, err error) {
	if d, ok := any(t.in).(Digester); ok && t.definition.identity == nil {
		defer t.recoverDigest(&err)
		if h, err = d.IdentityHash(); err != nil {
			err = &encodeError{"identity of the input", t.definition.spec.Name, err}
		}
		return h, err
	}
	return t.identityBy(t.identityEncoder())
}

func (t *typedCall[In, Out]) IdentityBefore() (record.Hash, error) {
	return t.identityBy(codec.EncodeIdentityBefore)
}

func (t *typedCall[In, Out]) identityBy(encode func(v any) ([]byte, error)) (h record.Hash, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &encodeError{"identity of the input", t.definition.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	what, v := "input", any(t.in)
	if t.definition.identity != nil {
		what, v = "identity of the input", t.definition.identity(t.in)
	} else if i, ok := v.(Identifier); ok {
		what, v = "identity of the input", i.Identity()
	}
	encoded, err := encode(v)
	if err != nil {
		return record.Hash{}, &encodeError{what, t.definition.spec.Name, err}
	}
	return record.HashOfEncoded(encoded)
}

func (t *typedCall[In, Out]) DeclaresIdentity() bool {
	_, declared := any(t.in).(Identifier)
	return declared || t.definition.identity != nil
}

func (t *typedCall[In, Out]) WholeIdentity() (h record.Hash, err error) {
	r := engine.Result{}
	defer func() { err = cmp.Or(r.Err, err) }()
	defer r.RecoverPanic()
	what := any(t.in)
	if t.definition.identity != nil {
		what = t.definition.identity(t.in)
	} else if _, partial := what.(Identifier); partial {
		if err := checkWholeInput(&t.definition.spec, reflect.TypeFor[In]()); err != nil {
			return h, err
		}
	}
	encoded, err := t.identityEncoder()(what)
	if err == nil {
		h, err = record.HashOfEncoded(encoded)
	}
	if err != nil {
		err = &encodeError{"input", t.definition.spec.Name, err}
	}
	return h, err
}

// identityEncoder encodes an identity. If the input can be of any type, the identity must be the
// same after the input was encoded and decoded.
func (t *typedCall[In, Out]) identityEncoder() func(v any) ([]byte, error) {
	if t.definition.identity == nil && reflect.TypeFor[In]().Kind() == reflect.Interface {
		return codec.EncodeIdentityOfAny
	}
	return codec.EncodeIdentity
}

// DecodeOutput makes a recorded output the output of the call. lost lists the parts of the recorded
// output for which the type has no fields.
func (t *typedCall[In, Out]) DecodeOutput(encoded []byte) (lost []string, err error) {
	if len(encoded) == 0 {
		return nil, errors.New("no output was recorded")
	}
	return record.DecodeAll(encoded, &t.out)
}

func (t *typedCall[In, Out]) DecodeAnswer(encoded []byte) error {
	answers, _ := schema.ForValue(reflect.TypeFor[Out]()) // nil if it has none
	return decodeAnswer(answers, encoded, &t.out)
}

// OutputSchema returns the JSON schema of the output, nil if it has none.
func (t *typedCall[In, Out]) OutputSchema() json.RawMessage {
	answers, err := schema.ForValue(reflect.TypeFor[Out]())
	if err != nil {
		return nil
	}
	return answers.JSON()
}

// typedApart is an [engine.Apart]. It has its own output: if the attempt is abandoned, the next
// attempt writes to the output of the call.
type typedApart[In, Out any] struct {
	engine.Async
	call *typedCall[In, Out]
	out  Out
}

func (t *typedCall[In, Out]) Apart() engine.Apart { return &typedApart[In, Out]{call: t} }

// Pass implements [engine.Apart].
func (p *typedApart[In, Out]) Pass(ctx context.Context) engine.Result {
	return p.call.passInto(ctx, &p.out)
}

// Take implements [engine.Apart].
func (p *typedApart[In, Out]) Take() { p.call.out = p.out }
