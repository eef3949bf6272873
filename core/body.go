package core

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// body is the generic side of a call, as the engine sees it.
type body interface {
	require(ctx context.Context, r *result)
	pass(ctx context.Context) // keeps the output
	launch(s *Scope) *flight  // a pass on a goroutine of its own,
	land()                    // whose output is kept by this
	output() any
	encodeInput() ([]byte, error)
}

// result is how a stage of an attempt ended.
type result struct {
	err      error
	stage    Stage
	panicked bool
	output   []byte // encoded, if the run keeps payloads
	artifact string // the reference, if output was kept apart
}

// recoverPanic makes a panic the error of the stage. It must be deferred.
func (r *result) recoverPanic() {
	if p := recover(); p != nil {
		r.err, r.panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
	}
}

func (t *typedCall[In, Out]) require(ctx context.Context, r *result) {
	if len(t.definition.requires) > 0 {
		t.preceded = true
		t.definition.require(ctx, t.in, r)
	}
}

func (t *typedCall[In, Out]) pass(ctx context.Context) {
	t.passInto(ctx, &t.out, &t.r)
}

// passInto is one pass through handler, postconditions and artifact storage.
func (t *typedCall[In, Out]) passInto(ctx context.Context, out *Out, r *result) {
	t.definition.pass(ctx, t.in, out, r)
	if r.err == nil && t.run != nil {
		if settings := t.run.Settings(); settings.Payloads || settings.Artifacts {
			t.store(ctx, settings, *out, r)
		}
	}
	if r.err != nil {
		var zero Out // a failed attempt has no output
		*out = zero
	}
}

// store encodes the output and keeps it apart if it is large.
func (t *typedCall[In, Out]) store(ctx context.Context, settings *Settings, out Out, r *result) {
	defer r.recoverPanic()
	r.stage = StageEncode
	encoded, err := Encode(out)
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
		if r.artifact, r.err = t.run.Keep(ctx, encoded); r.err != nil {
			return
		}
	} else if settings.Payloads {
		r.output = encoded
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

// flight is a pass on a goroutine of its own.
type flight struct {
	state atomic.Uint32
	wait  atomic.Pointer[chan struct{}]
	r     result // when it has landed
}

const (
	flying = iota
	landed
	abandoned
)

// typedFlight has an output of its own: once it is abandoned, the next
// attempt writes to the call's.
type typedFlight[In, Out any] struct {
	flight
	call  *typedCall[In, Out]
	scope *Scope
	out   Out
}

func (t *typedCall[In, Out]) launch(s *Scope) *flight {
	t.flight = &typedFlight[In, Out]{call: t, scope: s}
	go t.flight.fly()
	return &t.flight.flight
}

func (t *typedCall[In, Out]) land() { t.out = t.flight.out }

func (f *typedFlight[In, Out]) fly() {
	f.r = result{stage: StageHandler, err: errGoexit, panicked: true}
	defer f.touchDown(f.call.run)
	var r result
	f.call.passInto(f.scope, &f.out, &r)
	f.r = r
}

// touchDown hands over the result, or drops it where nobody waits any more.
func (f *flight) touchDown(run Run) {
	if !f.state.CompareAndSwap(flying, landed) {
		if run != nil {
			run.Settings().Late.Returned.Add(1)
		}
		return
	}
	if ch := f.wait.Load(); ch != nil {
		close(*ch)
	}
}

// quick gives the goroutine one chance to finish before anybody arms a timer
// for it: most handlers that are fast at all are done by then.
func (f *flight) quick() bool {
	runtime.Gosched()
	return f.state.Load() == landed
}

// done is closed when the flight has landed.
func (f *flight) done() <-chan struct{} {
	ch := make(chan struct{})
	f.wait.Store(&ch)
	if f.state.Load() != landed {
		return ch
	}
	// It landed around the Store, and may or may not have seen the channel.
	ready := make(chan struct{})
	close(ready)
	return ready
}

// abandon reports false if the flight has landed after all.
func (f *flight) abandon() bool { return f.state.CompareAndSwap(flying, abandoned) }
