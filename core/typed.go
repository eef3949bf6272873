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
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// typed is the part of a call that knows its types. Only typedCall implements
// it.
type typed interface {
	require(ctx context.Context) result
	pass(ctx context.Context) result          // handler, postconditions, artifact storage
	passAsync(s *Scope, t timespan) asyncPass // the same on a goroutine of its own; sets the limit of s
	output() any
	encodeInput() ([]byte, error)
	wholeInput() (hash record.Hash, size int, err error) // size is what the encoding has at least
	encodeInputBefore() ([]byte, error)                  // as it was before some values were kept as JSON
	identity() (record.Hash, error)                      // of the input
	identityBefore() (record.Hash, error)
	declaresIdentity() bool // the user says what it is
	decodeOutput(encoded []byte) (lost []string, err error)
	decodeAnswer(encoded []byte) error // into the output
	fingerprint(before []byte) []byte  // of an output that is not kept
	outputSchema() json.RawMessage
	compensate(at *Scope, nth int, found *record.Progress) error
	compensateInDoubt(at *Scope, nth int, found *record.Progress) error
	keepOutput(ctx context.Context) result // encodes the output, and stores it if it is large

	wholeIdentity() (record.Hash, error)               // as CallInfo.InputHash
	answer(ctx context.Context, encoded []byte) result // makes the encoded output that of the call, if it holds
	encodeOutput() ([]byte, error)
	clear() // drops the output
}

// asyncPass is a pass on a goroutine of its own.
type asyncPass interface {
	take() result // after it returned: its output becomes the output of the call
}

// result is how a stage of an attempt ended.
type result struct {
	err      error
	stage    record.Stage
	panicked bool
	cached   bool // the output comes from an interceptor
	refused  bool // by an interceptor: the handler did not run
	kept     *keptOutput
	effect   *record.Effect // that the call took over; nil for none
}

// suspendedAt is the stage at which an attempt with this result is suspended.
func (r *result) suspendedAt() record.Stage {
	if r.refused {
		return record.StageIntercept
	}
	return record.StageHandler
}

// attempted is how an attempt ended, or what ended the call instead of an
// attempt.
type attempted struct {
	result
	ended time.Time // zero if there was no attempt
	took  time.Duration
}

// end sets the end of an attempt to now. The end is computed from the monotonic
// clock, so that it is as far from the beginning as the attempt took, even if
// the wall clock was set meanwhile.
func (a *attempted) end(began time.Time) {
	a.took = time.Since(began)
	a.ended = began.Add(a.took)
}

// keptOutput is an output as the run keeps it.
type keptOutput struct {
	encoded  []byte
	artifact string // the reference, if it was stored apart
}

// recoverPanic turns a panic into the error of the stage. It must be deferred.
func (r *result) recoverPanic() {
	if p := recover(); p != nil {
		r.err, r.panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
	}
}

// typedCall is a call with its types. One allocation holds the call, its
// first attempt, its input and its output.
type typedCall[In, Out any] struct {
	call
	definition *Definition[In, Out]
	first      Scope
	in         In
	out        Out
}

// execute makes the call.
func (t *typedCall[In, Out]) execute() (Out, error) {
	if err := t.call.execute(&t.first); err != nil {
		var zero Out
		return zero, err
	}
	return t.out, nil
}

func (t *typedCall[In, Out]) require(ctx context.Context) (r result) {
	r.stage = record.StagePrecondition
	defer r.recoverPanic()
	for _, condition := range t.definition.requires {
		if r.err = condition(ctx, t.in); r.err != nil {
			return r
		}
	}
	return r
}

func (t *typedCall[In, Out]) pass(ctx context.Context) result { return t.passInto(ctx, &t.out) }

// passInto runs the handler, the postconditions and artifact storage once.
func (t *typedCall[In, Out]) passInto(ctx context.Context, out *Out) result {
	r := t.make(ctx, out)
	if r.err == nil && t.keepsOutput() && !isUnstored(ctx) {
		r = t.keep(ctx, out)
	}
	if r.err != nil {
		r.err = finite(r.err)
		var zero Out // a failed attempt has no output
		*out = zero
	}
	return r
}

// make runs the handler and the postconditions.
func (t *typedCall[In, Out]) make(ctx context.Context, out *Out) (r result) {
	r.stage = record.StageHandler
	defer r.recoverPanic()
	if *out, r.err = t.definition.handler(ctx, t.in); r.err != nil {
		return r
	}
	if len(t.definition.ensures) == 0 {
		return r
	}
	return t.ensure(ctx, out)
}

// ensure checks the postconditions.
func (t *typedCall[In, Out]) ensure(ctx context.Context, out *Out) (r result) {
	r.stage = record.StagePostcondition
	defer r.recoverPanic()
	for _, condition := range t.definition.ensures {
		if r.err = condition(ctx, t.in, *out); r.err != nil {
			return r
		}
	}
	r.stage = record.StageHandler
	return r
}

// keepsOutput reports whether the run needs the encoded output. A group takes
// its results from its branches.
func (t *typedCall[In, Out]) keepsOutput() bool {
	settings := t.root.settings
	return (settings.Payloads || settings.Outputs || settings.Artifacts || settings.RoundTrip || t.keepsEffect()) && !t.spec.NoStore &&
		t.spec.Kind != record.KindGroup
}

// keepsEffect reports whether another call may take over what this one has done.
func (t *typedCall[In, Out]) keepsEffect() bool { return t.spec.Irreversible && !t.root.isOutside() }

// isUnstored reports whether ctx belongs to a branch that must not keep its
// output.
func isUnstored(ctx context.Context) bool {
	s := ScopeOf(ctx)
	in := s.inside.Load()
	return in != nil && in.unstored.Load() && s.call.spec.Kind == record.KindBranch
}

func (t *typedCall[In, Out]) keepOutput(ctx context.Context) result {
	if !t.keepsOutput() {
		return result{stage: record.StageHandler}
	}
	return t.keep(ctx, &t.out)
}

func (t *typedCall[In, Out]) clear() {
	var zero Out
	t.out = zero
}

func (t *typedCall[In, Out]) encodeOutput() ([]byte, error) {
	encoded, err := record.Encode(t.out)
	if err != nil {
		return nil, &encodeError{"output", t.spec.Name, err}
	}
	return encoded, nil
}

func (t *typedCall[In, Out]) answer(ctx context.Context, encoded []byte) result {
	t.clear()
	if err := record.Decode(encoded, &t.out); err != nil {
		return result{err: fmt.Errorf("core: the answer does not fit the output of %q: %w", t.spec.Name, err)}
	}
	if !isWhole(encoded, &t.out) {
		return result{err: fmt.Errorf("core: the answer is not all of an output of %q", t.spec.Name)}
	}
	return t.ensure(ctx, &t.out)
}

// isWhole reports whether encoded has all of out. An output from before some
// values were kept as JSON came back empty.
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

// keep encodes the output and stores it apart if it is large. In a run that can be
// resumed, the output of the call is then what comes back from its record: a program
// sees the same before and after it was resumed.
func (t *typedCall[In, Out]) keep(ctx context.Context, out *Out) (r result) {
	settings := t.root.settings
	r.stage = record.StageEncode
	defer r.recoverPanic()
	encoded, err := record.Encode(*out)
	if err != nil {
		r.err = &encodeError{"output", t.spec.Name, err}
		return r
	}
	if settings.Artifacts && len(encoded) > maxInline {
		r.stage = record.StageArtifact
		if ScopeOf(ctx).Closed() {
			r.err = ErrAttemptOver // abandoned: the output is dropped
			return r
		}
		reference, err := t.root.run.PutArtifact(ctx, encoded)
		if err != nil {
			r.err = err
			return r
		}
		r.kept = &keptOutput{artifact: reference}
	} else if settings.Payloads || settings.Outputs || t.keepsEffect() {
		r.kept = &keptOutput{encoded: encoded}
	}
	if (settings.Outputs || settings.RoundTrip) && !t.definition.unchanged {
		var again Out
		if err := record.Decode(encoded, &again); err != nil {
			r.err, r.kept = &encodeError{"output", t.spec.Name, fmt.Errorf("it cannot be read again: %w", err)}, nil
			return r
		}
		*out = again
	}
	r.stage = record.StageHandler
	return r
}

func (t *typedCall[In, Out]) output() any { return t.out }

func (t *typedCall[In, Out]) encodeInput() ([]byte, error) { return t.encodeInputBy(record.Encode) }

func (t *typedCall[In, Out]) encodeInputBefore() ([]byte, error) {
	return t.encodeInputBy(codec.EncodeBefore)
}

func (t *typedCall[In, Out]) encodeInputBy(encode func(v any) ([]byte, error)) ([]byte, error) {
	encoded, err := encode(t.in)
	if err != nil {
		return nil, &encodeError{"input", t.spec.Name, err}
	}
	return encoded, nil
}

// wholeInput returns the hash of the whole input.
func (t *typedCall[In, Out]) wholeInput() (h record.Hash, size int, err error) {
	if d, ok := any(t.in).(Digester); ok {
		defer t.recoverDigest(&err)
		return d.WholeHash()
	}
	encoded, err := t.encodeInput()
	if err != nil {
		return h, 0, err
	}
	h, err = record.HashOfEncoded(encoded)
	return h, len(encoded), err
}

// recoverDigest makes a panic of a Digester the error. It must be deferred.
func (t *typedCall[In, Out]) recoverDigest(err *error) {
	if p := recover(); p != nil {
		*err = &encodeError{"input", t.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
	}
}

// identity returns the hash of the identity of the input, see Identifier.
func (t *typedCall[In, Out]) identity() (h record.Hash, err error) {
	if d, ok := any(t.in).(Digester); ok && t.definition.identity == nil {
		defer t.recoverDigest(&err)
		if h, err = d.IdentityHash(); err != nil {
			err = &encodeError{"identity of the input", t.spec.Name, err}
		}
		return h, err
	}
	return t.identityBy(t.identityEncoder())
}

func (t *typedCall[In, Out]) identityBefore() (record.Hash, error) {
	return t.identityBy(codec.EncodeIdentityBefore)
}

func (t *typedCall[In, Out]) identityBy(encode func(v any) ([]byte, error)) (h record.Hash, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &encodeError{"identity of the input", t.spec.Name, &PanicError{Value: p, Stack: debug.Stack()}}
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
		return record.Hash{}, &encodeError{what, t.spec.Name, err}
	}
	return record.HashOfEncoded(encoded)
}

func (t *typedCall[In, Out]) declaresIdentity() bool {
	_, declared := any(t.in).(Identifier)
	return declared || t.definition.identity != nil
}

func (t *typedCall[In, Out]) wholeIdentity() (h record.Hash, err error) {
	r := result{}
	defer func() { err = cmp.Or(r.err, err) }()
	defer r.recoverPanic()
	what := any(t.in)
	if t.definition.identity != nil {
		what = t.definition.identity(t.in)
	} else if _, partial := what.(Identifier); partial {
		if err := checkWholeInput[In](t.spec); err != nil {
			return h, err
		}
	}
	encoded, err := t.identityEncoder()(what)
	if err == nil {
		h, err = record.HashOfEncoded(encoded)
	}
	if err != nil {
		err = &encodeError{"input", t.spec.Name, err}
	}
	return h, err
}

// identityEncoder encodes an identity: that of an input which may be anything is
// the same once the input was decoded to what it was then.
func (t *typedCall[In, Out]) identityEncoder() func(v any) ([]byte, error) {
	if t.definition.identity == nil && reflect.TypeFor[In]().Kind() == reflect.Interface {
		return codec.EncodeIdentityOfAny
	}
	return codec.EncodeIdentity
}

// decodeOutput makes a recorded output the output of the call. Lost are the
// parts for which its type has no fields.
func (t *typedCall[In, Out]) decodeOutput(encoded []byte) (lost []string, err error) {
	if len(encoded) == 0 {
		return nil, errors.New("no output was recorded")
	}
	return record.DecodeAll(encoded, &t.out)
}

func (t *typedCall[In, Out]) decodeAnswer(encoded []byte) (err error) {
	answers, _ := schema.ForValue(reflect.TypeFor[Out]()) // nil if it has none
	t.out, err = decodeAnswer[Out](answers, encoded)
	return err
}

// outputSchema returns the JSON schema of the output, nil if it has none.
func (t *typedCall[In, Out]) outputSchema() json.RawMessage {
	answers, err := schema.ForValue(reflect.TypeFor[Out]())
	if err != nil {
		return nil
	}
	return answers.JSON()
}

// typedPass is an asyncPass. It has an output of its own: after it was
// abandoned, the next attempt writes to the output of the call.
type typedPass[In, Out any] struct {
	limit limit
	call  *typedCall[In, Out]
	scope *Scope
	r     result
	out   Out
}

func (t *typedCall[In, Out]) passAsync(s *Scope, within timespan) asyncPass {
	p := &typedPass[In, Out]{call: t, scope: s, r: result{stage: record.StageHandler, err: errGoexit, panicked: true}}
	p.limit.timespan, p.limit.done = within, make(chan struct{})
	s.limit = &p.limit
	go p.run()
	return p
}

func (p *typedPass[In, Out]) run() {
	defer func() {
		p.scope.close()
		if !p.limit.returned() {
			p.call.root.settings.Late.Returned.Add(1)
		}
	}()
	p.r = p.call.passInto(p.scope.context(), &p.out)
}

func (p *typedPass[In, Out]) take() result {
	p.call.out = p.out
	return p.r
}
