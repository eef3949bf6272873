package core

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// body is the generic side of a call, as the engine sees it.
type body interface {
	waiting() *waitQueues // of the actor
	conditional() bool    // there are preconditions
	require(ctx context.Context, r *result)
	pass(ctx context.Context)            // keeps the output
	launch(s *Scope, d deadline) *flight // a pass on a goroutine of its own
	output() any
	encodeInput() ([]byte, error)
	decodeOutput(encoded []byte) error
	decodeAnswer(encoded []byte) error         // for the output
	keepOutput(ctx context.Context, r *result) // as the run keeps it
}

// result is how a stage of an attempt ended.
type result struct {
	err      error
	stage    Stage
	class    Class // of err, once it was assessed
	panicked bool
	marked   bool          // Retryable
	after    time.Duration // what the service asked for; 0 for nothing
	kept     *keptOutput
}

// keptOutput is an output as the run keeps it.
type keptOutput struct {
	encoded  []byte // if the run keeps payloads
	artifact string // the reference, if it was stored apart
}

// recoverPanic makes a panic the error of the stage. It must be deferred.
func (r *result) recoverPanic() {
	if p := recover(); p != nil {
		r.err, r.panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
	}
}

func (t *typedCall[In, Out]) waiting() *waitQueues { return t.definition.waiting }

func (t *typedCall[In, Out]) conditional() bool { return len(t.definition.requires) > 0 }

func (t *typedCall[In, Out]) require(ctx context.Context, r *result) {
	t.definition.require(ctx, t.in, r)
}

func (t *typedCall[In, Out]) pass(ctx context.Context) {
	t.passInto(ctx, &t.out, &t.r)
}

// passInto is one pass through handler, postconditions and artifact storage.
func (t *typedCall[In, Out]) passInto(ctx context.Context, out *Out, r *result) {
	t.definition.pass(ctx, t.in, out, r)
	if r.err == nil && t.root != nil {
		t.keep(ctx, out, r)
	}
	if r.err != nil {
		var zero Out // a failed attempt has no output
		*out = zero
	}
}

func (t *typedCall[In, Out]) keepOutput(ctx context.Context, r *result) { t.keep(ctx, &t.out, r) }

// keep stores the output where the run wants it.
func (t *typedCall[In, Out]) keep(ctx context.Context, out *Out, r *result) {
	settings := t.root.settings
	if (settings.Payloads || settings.Outputs || settings.Artifacts || settings.RoundTrip) && !t.spec.NoStore {
		t.store(ctx, settings, out, r)
	}
}

// store encodes the output and keeps it apart if it is large.
func (t *typedCall[In, Out]) store(ctx context.Context, settings *Settings, out *Out, r *result) {
	defer r.recoverPanic()
	r.stage = StageEncode
	encoded, err := Encode(*out)
	if err != nil {
		r.err = &encodeError{"output", t.spec.Name, err}
		return
	}
	if settings.Artifacts && len(encoded) > MaxInline {
		r.stage = StageArtifact
		if s := scopeOf(ctx); s.Closed() {
			r.err = ErrAttemptOver // abandoned: what it made is not wanted any more
			return
		}
		reference, err := t.root.run.Keep(ctx, encoded)
		if err != nil {
			r.err = err
			return
		}
		r.kept = &keptOutput{artifact: reference}
	} else if settings.Payloads || settings.Outputs {
		r.kept = &keptOutput{encoded: encoded}
	}
	if settings.RoundTrip {
		var again Out
		if err := Decode(encoded, &again); err != nil {
			r.err = &encodeError{"output", t.spec.Name, fmt.Errorf("it cannot be read again: %w", err)}
			return
		}
		*out = again
	}
	r.stage = StageHandler
}

func (t *typedCall[In, Out]) output() any { return t.out }

func (t *typedCall[In, Out]) encodeInput() ([]byte, error) {
	encoded, err := Encode(t.in)
	if err != nil {
		return nil, &encodeError{"input", t.spec.Name, err}
	}
	return encoded, nil
}

func (t *typedCall[In, Out]) decodeOutput(encoded []byte) error {
	if len(encoded) == 0 {
		return errors.New("no output was recorded")
	}
	return Decode(encoded, &t.out)
}

func (t *typedCall[In, Out]) decodeAnswer(encoded []byte) (err error) {
	t.out, err = decodeAnswer[Out](encoded)
	return err
}

// flight is a pass on a goroutine of its own, with an end in time.
type flight struct {
	lander interface{ land() } // the flight with its types
	limit  limit
	r      result // when it has landed

	state atomic.Int32
	done  chan struct{} // made by whoever waits for the landing
}

const (
	flying    = iota
	awaited   // in flight, and done is to be closed
	landed    // r and the output are there
	abandoned // nobody waits any more
)

// typedFlight has an output of its own: once it is abandoned, the next
// attempt writes to the call's.
type typedFlight[In, Out any] struct {
	flight
	call  *typedCall[In, Out]
	scope *Scope
	out   Out
}

func (t *typedCall[In, Out]) launch(s *Scope, d deadline) *flight {
	f := &typedFlight[In, Out]{call: t, scope: s}
	f.lander, f.limit.deadline = f, d
	s.limit = &f.limit
	go f.fly()
	return &f.flight
}

// land keeps the output as that of the call.
func (f *typedFlight[In, Out]) land() { f.call.out = f.out }

func (f *typedFlight[In, Out]) fly() {
	f.r = result{stage: StageHandler, err: errGoexit, panicked: true}
	defer f.touchDown(f.call.root)
	var r result
	f.call.passInto(f.scope, &f.out, &r)
	f.r = r
}

// touchDown hands over the result, or drops it where nobody waits any more.
func (f *flight) touchDown(root *Root) {
	switch {
	case f.state.CompareAndSwap(flying, landed):
	case f.state.CompareAndSwap(awaited, landed):
		close(f.done)
	case root != nil:
		root.settings.Late.Returned.Add(1)
	}
}

// quick gives the goroutine one chance to finish before anybody arms a timer
// for it: most handlers that are fast at all are done by then.
func (f *flight) quick() bool {
	runtime.Gosched()
	return f.state.Load() == landed
}

// landing is closed when the flight has landed. It is asked for once.
func (f *flight) landing() <-chan struct{} {
	f.done = make(chan struct{})
	if !f.state.CompareAndSwap(flying, awaited) {
		close(f.done)
	}
	return f.done
}

// abandon reports false if the flight has landed after all.
func (f *flight) abandon() bool { return f.state.CompareAndSwap(awaited, abandoned) }
