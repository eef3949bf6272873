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

// This file contains the code for calls that does not depend on their types. It is not generic,
// because a program would then contain one copy of it for each type of actor.

// An input is the input of a call, without its type.
type input struct {
	value    any
	spec     *Spec
	identity func(in any) any // nil for the default
}

// hash returns the hash of the whole input, and a lower bound for the size of the encoded input.
func (i input) hash() (h record.Hash, size int, err error) {
	if d, ok := i.value.(Digester); ok {
		defer i.recoverDigest(&err)
		return d.WholeHash()
	}
	encoded, err := encodeBy(record.Encode, i.value, "input", i.spec)
	if err != nil {
		return h, 0, err
	}
	h, err = codec.Hash(encoded)
	return h, len(encoded), err
}

// recoverDigest sets *err if a Digester panicked. It must be deferred.
func (i input) recoverDigest(err *error) {
	if p := recover(); p != nil {
		*err = &encodeError{"input", i.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
	}
}

// identityHash returns the hash of the input's identity (see [Identifier]). in is the input's type.
func (i input) identityHash(in reflect.Type) (h record.Hash, err error) {
	if d, ok := i.value.(Digester); ok && i.identity == nil {
		defer i.recoverDigest(&err)
		if h, err = d.IdentityHash(); err != nil {
			err = &encodeError{"identity of the input", i.spec.Name, err}
		}
		return h, err
	}
	return i.identityBy(i.identityEncoder(in))
}

func (i input) identityBy(encode func(v any) ([]byte, error)) (h record.Hash, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &encodeError{"identity of the input", i.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	what, v := "input", i.value
	if i.identity != nil {
		what, v = "identity of the input", i.identity(v)
	} else if own, ok := v.(Identifier); ok {
		what, v = "identity of the input", own.Identity()
	}
	encoded, err := encode(v)
	if err != nil {
		return record.Hash{}, &encodeError{what, i.spec.Name, err}
	}
	return codec.Hash(encoded)
}

func (i input) declaresIdentity() bool {
	_, declared := i.value.(Identifier)
	return declared || i.identity != nil
}

// wholeIdentity returns the hash of the input for CallInfo.InputHash. in is the input's type.
func (i input) wholeIdentity(in reflect.Type) (h record.Hash, err error) {
	r := engine.Result{}
	defer func() { err = cmp.Or(r.Err, err) }()
	defer r.RecoverPanic()
	what := i.value
	if i.identity != nil {
		what = i.identity(what)
	} else if _, partial := what.(Identifier); partial {
		if err := checkWholeInput(i.spec, in); err != nil {
			return h, err
		}
	}
	encoded, err := i.identityEncoder(in)(what)
	if err == nil {
		h, err = codec.Hash(encoded)
	}
	if err != nil {
		err = &encodeError{"input", i.spec.Name, err}
	}
	return h, err
}

// identityEncoder returns the function that encodes an identity. If the input can be of any type,
// the identity must be the same after the input was encoded and decoded.
func (i input) identityEncoder(in reflect.Type) func(v any) ([]byte, error) {
	if i.identity == nil && in.Kind() == reflect.Interface {
		return codec.EncodeIdentityOfAny
	}
	return codec.EncodeIdentity
}

func encodeBy(encode func(v any) ([]byte, error), v any, what string, spec *Spec) ([]byte, error) {
	encoded, err := encode(v)
	if err != nil {
		return nil, &encodeError{what, spec.Name, err}
	}
	return encoded, nil
}

// keepsOutput reports whether the run needs the encoded output. It does not need the output of a
// group, because a group takes its results from its branches.
func keepsOutput(c *engine.Call, spec *Spec) bool {
	settings := c.Settings()
	return (settings.Payloads || settings.Outputs || settings.PutArtifact != nil || settings.RoundTrip || keepsEffect(c, spec)) &&
		!spec.NoStore && spec.Kind != record.KindGroup
}

// keepsEffect reports whether another call may take over the effect of this one.
func keepsEffect(c *engine.Call, spec *Spec) bool { return spec.Irreversible && !c.IsOutside() }

// needsRecordedForm reports whether the program must see outputs as they are after decoding from
// records.
func needsRecordedForm(settings *engine.Settings) bool { return settings.Outputs || settings.RoundTrip }

// encodeOutput encodes the output, and stores it separately if it is large.
func encodeOutput(ctx context.Context, c *engine.Call, spec *Spec, out any) (encoded []byte, r engine.Result) {
	settings := c.Settings()
	r.Stage = record.StageEncode
	defer r.RecoverPanic()
	encoded, err := record.Encode(out)
	if err != nil {
		r.Err = &encodeError{"output", spec.Name, err}
		return nil, r
	}
	if settings.PutArtifact != nil && len(encoded) > engine.MaxInline {
		r.Stage = record.StageArtifact
		reference, err := c.PutArtifact(ctx, encoded)
		if err != nil {
			r.Err = err
			return nil, r
		}
		r.Kept = &engine.KeptOutput{Artifact: reference}
	} else if settings.Payloads || settings.Outputs || keepsEffect(c, spec) {
		r.Kept = &engine.KeptOutput{Encoded: encoded}
	}
	return encoded, r
}

// decodeAgain decodes an output that was encoded for its record.
func decodeAgain(r *engine.Result, encoded []byte, again any, spec *Spec) {
	defer r.RecoverPanic()
	if err := record.Decode(encoded, again); err != nil {
		r.Err, r.Kept = &encodeError{"output", spec.Name, fmt.Errorf("it cannot be decoded again: %w", err)}, nil
	}
}

func decodeRecorded(encoded []byte, out any) (lost []string, err error) {
	if len(encoded) == 0 {
		return nil, errors.New("no output was recorded")
	}
	return record.DecodeAll(encoded, out)
}

// decodeWhole decodes an answer into out, which points to an output of type outputs.
func decodeWhole(encoded []byte, out any, outputs reflect.Type, spec *Spec) error {
	if err := record.Decode(encoded, out); err != nil {
		return fmt.Errorf("core: the answer does not fit the output of %q: %w", spec.Name, err)
	}
	if codec.WantsJSON(outputs) && !isWhole(encoded, reflect.ValueOf(out).Elem().Interface()) {
		return fmt.Errorf("core: the answer lacks a part of the output of %q", spec.Name)
	}
	return nil
}

// isWhole reports whether encoded contains all of out. It does not if it was encoded before values
// of the type were encoded as JSON: it then decodes to an empty value.
func isWhole(encoded []byte, out any) bool {
	again, err := codec.Encode(out)
	if err != nil {
		return false
	}
	was, err := codec.Hash(bytes.Clone(encoded))
	if err != nil {
		return false
	}
	is, err := codec.Hash(again)
	return err == nil && was == is
}

func decodeAnswerOf(outputs reflect.Type, encoded []byte, out any) error {
	answers, _ := schema.ForValue(outputs) // nil if the type has no schema
	return decodeAnswer(answers, encoded, out)
}

// schemaOf returns the JSON schema of the outputs, or nil if there is none.
func schemaOf(outputs reflect.Type) json.RawMessage {
	answers, err := schema.ForValue(outputs)
	if err != nil {
		return nil
	}
	return answers.JSON()
}
