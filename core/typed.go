package core

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// typedCall is a call with its types. One allocation holds the call, its
// first attempt, its input and its output.
type typedCall[In, Out any] struct {
	untyped    engine.Call // not embedded, because then each pair of types would have its own copy of each method of Call
	definition *Definition[In, Out]
	in         In
	out        Out
}

// result returns the results of a call that ended with err.
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

// passInto runs the handler, the postconditions and artifact storage once, with its output in out.
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

// keepsOutput reports whether the run needs the encoded output.
func (t *typedCall[In, Out]) keepsOutput() bool {
	return keepsOutput(&t.untyped, &t.definition.spec)
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
	return encodeBy(record.Encode, t.out, "output", &t.definition.spec)
}

func (t *typedCall[In, Out]) Answer(ctx context.Context, encoded []byte) engine.Result {
	t.Clear()
	if err := decodeWhole(encoded, &t.out, reflect.TypeFor[Out](), &t.definition.spec); err != nil {
		return engine.Result{Err: err}
	}
	return t.ensure(ctx, &t.out)
}

// keep encodes the output, and stores it separately if it is large. In a run that can be resumed,
// it then replaces the call's output with the value decoded from its record, so that a program sees
// the same output before and after a resume.
func (t *typedCall[In, Out]) keep(ctx context.Context, out *Out) engine.Result {
	encoded, r := encodeOutput(ctx, &t.untyped, &t.definition.spec, *out)
	if r.Err != nil {
		return r
	}
	if needsRecordedForm(t.untyped.Settings()) && !t.definition.unchanged {
		var again Out
		if decodeAgain(&r, encoded, &again, &t.definition.spec); r.Err != nil {
			return r
		}
		*out = again
	}
	r.Stage = record.StageHandler
	return r
}

func (t *typedCall[In, Out]) Output() any { return t.out }

// input returns the call's input without its type.
func (t *typedCall[In, Out]) input() input {
	return input{t.in, &t.definition.spec, t.definition.identity}
}

func (t *typedCall[In, Out]) EncodeInput() ([]byte, error) {
	return encodeBy(record.Encode, t.in, "input", &t.definition.spec)
}

func (t *typedCall[In, Out]) EncodeInputBefore() ([]byte, error) {
	return encodeBy(codec.EncodeBefore, t.in, "input", &t.definition.spec)
}

func (t *typedCall[In, Out]) WholeInput() (record.Hash, int, error) { return t.input().hash() }

func (t *typedCall[In, Out]) Identity() (record.Hash, error) {
	return t.input().identityHash(reflect.TypeFor[In]())
}

func (t *typedCall[In, Out]) IdentityBefore() (record.Hash, error) {
	return t.input().identityBy(codec.EncodeIdentityBefore)
}

func (t *typedCall[In, Out]) DeclaresIdentity() bool { return t.input().declaresIdentity() }

func (t *typedCall[In, Out]) WholeIdentity() (record.Hash, error) {
	return t.input().wholeIdentity(reflect.TypeFor[In]())
}

// DecodeOutput decodes a recorded output into the call's output. lost lists the parts of the
// recorded output that have no field in the output's type.
func (t *typedCall[In, Out]) DecodeOutput(encoded []byte) (lost []string, err error) {
	return decodeRecorded(encoded, &t.out)
}

func (t *typedCall[In, Out]) DecodeAnswer(encoded []byte) error {
	return decodeAnswerOf(reflect.TypeFor[Out](), encoded, &t.out)
}

// OutputSchema returns the JSON schema of the output, or nil if it has none.
func (t *typedCall[In, Out]) OutputSchema() json.RawMessage {
	return schemaOf(reflect.TypeFor[Out]())
}

// typedApart is an [engine.Apart]. It has its own output: an abandoned attempt may still write to
// it while the next attempt writes to the call's output.
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
