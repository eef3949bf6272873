package engine

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Typed is the part of a call that knows its types. Package core implements it.
type Typed interface {
	Require(ctx context.Context) Result
	Pass(ctx context.Context) Result // runs the handler and postconditions, and stores artifacts
	Apart() Apart                    // the same on a separate goroutine
	Output() any
	EncodeInput() ([]byte, error)
	WholeInput() (hash record.Hash, size int, err error) // size is the minimum size of the encoding
	EncodeInputBefore() ([]byte, error)                  // in the form used before some values were encoded as JSON
	Identity() (record.Hash, error)                      // of the input
	IdentityBefore() (record.Hash, error)
	DeclaresIdentity() bool // the user defines the identity
	DecodeOutput(encoded []byte) (lost []string, err error)
	DecodeAnswer(encoded []byte) error // decodes into the output
	Fingerprint(before []byte) []byte  // of an output that is not stored
	OutputSchema() json.RawMessage
	Compensate(at *Scope, nth int, found *record.Progress) error
	CompensateInDoubt(at *Scope, nth int, found *record.Progress) error
	LookUp(ctx context.Context) (found bool, r Result) // searches an external system for the output of an earlier attempt
	KeepOutput(ctx context.Context) Result             // encodes the output, and stores it as an artifact if it is large

	WholeIdentity() (record.Hash, error)               // for CallInfo.InputHash
	Answer(ctx context.Context, encoded []byte) Result // decodes the output and checks it
	EncodeOutput() ([]byte, error)
	Clear() // drops the output
}

// An Apart is a pass that runs on a separate goroutine and can be abandoned.
type Apart interface {
	State() *Async
	Pass(ctx context.Context) Result // like that of the call, but with a separate output
	Take()                           // makes the output of Pass the output of the call, after Pass has returned
}

// Async is the state of a pass on a separate goroutine. Each Apart embeds its Async, so that a
// single allocation is enough for both.
type Async struct {
	limit limit
	scope *Scope
	r     Result
}

// State returns a.
func (a *Async) State() *Async { return a }

// begin starts the pass for the attempt that s belongs to.
func (a *Async) begin(p Apart, s *Scope, within timespan) {
	a.scope, a.r = s, Result{Stage: record.StageHandler, Err: errGoexit, Panicked: true}
	a.limit.timespan, a.limit.done = within, make(chan struct{})
	s.limit = &a.limit
	go a.run(p)
}

func (a *Async) run(p Apart) {
	defer func() {
		a.scope.close()
		if !a.limit.noteReturn() {
			a.scope.root.settings.Late.Returned.Add(1)
		}
	}()
	a.r = p.Pass(a.scope.context())
}

// A Result is the result of a stage of an attempt.
type Result struct {
	Err      error
	Stage    record.Stage
	Panicked bool
	Kept     *KeptOutput // nil for none

	cached  bool // the output comes from an interceptor
	refused bool // an interceptor refused the attempt, so the handler did not run

	acted  bool           // the handler may have had an effect, whatever the interceptors return
	parked time.Duration  // how long an interceptor parks the run; 0 if it does not
	effect *record.Effect // effect that the call took over; nil for none
}

// suspendedAt returns the stage at which an attempt with this result counts as suspended.
func (r *Result) suspendedAt() record.Stage {
	if r.refused {
		return record.StageIntercept
	}
	return record.StageHandler
}

// RecoverPanic recovers a panic and makes it the error of the stage. It must be deferred.
func (r *Result) RecoverPanic() {
	if p := recover(); p != nil {
		r.Err, r.Panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
	}
}

// A KeptOutput is an output as stored by the run.
type KeptOutput struct {
	Encoded  []byte
	Artifact string // reference to the output, if it was stored as an artifact
}

// An attemptEnd describes how an attempt ended. If the call ended without an attempt, it describes
// what ended the call.
type attemptEnd struct {
	Result
	findings
	ended           time.Time // zero if there was no attempt
	took            time.Duration
	reportedInDoubt bool // its handler reported that the attempt is in doubt
}

// end sets the end of an attempt to the current time. The time is computed with the monotonic
// clock, so that the time since the beginning is the duration of the attempt, even if the wall
// clock was set in the meantime.
func (a *attemptEnd) end(began time.Time) {
	a.took = time.Since(began)
	a.ended = began.Add(a.took)
}
