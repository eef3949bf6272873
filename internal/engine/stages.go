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
	Pass(ctx context.Context) Result // handler, postconditions, artifact storage
	Apart() Apart                    // for the same on a goroutine of its own
	Output() any
	EncodeInput() ([]byte, error)
	WholeInput() (hash record.Hash, size int, err error) // size is what the encoding has at least
	EncodeInputBefore() ([]byte, error)                  // as it was before some values were kept as JSON
	Identity() (record.Hash, error)                      // of the input
	IdentityBefore() (record.Hash, error)
	DeclaresIdentity() bool // the user says what it is
	DecodeOutput(encoded []byte) (lost []string, err error)
	DecodeAnswer(encoded []byte) error // into the output
	Fingerprint(before []byte) []byte  // of an output that is not kept
	OutputSchema() json.RawMessage
	Compensate(at *Scope, nth int, found *record.Progress) error
	CompensateInDoubt(at *Scope, nth int, found *record.Progress) error
	LookUp(ctx context.Context) (found bool, r Result) // makes an output that was left elsewhere that of the call
	KeepOutput(ctx context.Context) Result             // encodes the output, and stores it if it is large

	WholeIdentity() (record.Hash, error)               // as CallInfo.InputHash
	Answer(ctx context.Context, encoded []byte) Result // makes the encoded output that of the call, if it holds
	EncodeOutput() ([]byte, error)
	Clear() // drops the output
}

// Apart is a pass on a goroutine of its own, which can be abandoned.
type Apart interface {
	State() *Async
	Pass(ctx context.Context) Result // like that of the call, with another place for the output
	Take()                           // makes the output that of the call, after Pass returned
}

// Async is the state of a pass on a goroutine of its own. It is part of each Apart, so
// that both need one allocation.
type Async struct {
	limit limit
	scope *Scope
	r     Result
}

// State returns a.
func (a *Async) State() *Async { return a }

// begin begins the pass of the attempt of s.
func (a *Async) begin(p Apart, s *Scope, within timespan) {
	a.scope, a.r = s, Result{Stage: record.StageHandler, Err: errGoexit, Panicked: true}
	a.limit.timespan, a.limit.done = within, make(chan struct{})
	s.limit = &a.limit
	go a.run(p)
}

func (a *Async) run(p Apart) {
	defer func() {
		a.scope.close()
		if !a.limit.returned() {
			a.scope.root.settings.Late.Returned.Add(1)
		}
	}()
	a.r = p.Pass(a.scope.context())
}

// Result is how a stage of an attempt ended.
type Result struct {
	Err      error
	Stage    record.Stage
	Panicked bool
	Kept     *KeptOutput // nil for none

	cached  bool           // the output comes from an interceptor
	refused bool           // by an interceptor: the handler did not run
	parked  time.Duration  // by an interceptor, for so long; 0 for not
	effect  *record.Effect // that the call took over; nil for none
}

// suspendedAt is the stage at which an attempt with this result is suspended.
func (r *Result) suspendedAt() record.Stage {
	if r.refused {
		return record.StageIntercept
	}
	return record.StageHandler
}

// RecoverPanic turns a panic into the error of the stage. It must be deferred.
func (r *Result) RecoverPanic() {
	if p := recover(); p != nil {
		r.Err, r.Panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
	}
}

// KeptOutput is an output as the run keeps it.
type KeptOutput struct {
	Encoded  []byte
	Artifact string // the reference, if it was stored apart
}

// attempted is how an attempt ended, or what ended the call instead of an
// attempt.
type attempted struct {
	Result
	findings
	ended   time.Time // zero if there was no attempt
	took    time.Duration
	doubted bool // its handler says that it is in doubt
}

// end sets the end of an attempt to now. The end is computed from the monotonic
// clock, so that it is as far from the beginning as the attempt took, even if
// the wall clock was set meanwhile.
func (a *attempted) end(began time.Time) {
	a.took = time.Since(began)
	a.ended = began.Add(a.took)
}
