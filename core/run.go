package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Run is what a call needs from the run that it belongs to. Package state
// implements it, and nothing else has to.
type Run interface {
	// Settings returns what holds for every call of the run: the same pointer
	// each time, behind which only the counters change.
	Settings() *Settings

	// Claim returns what was recorded of a call or question that is claimed in s, nil for
	// nothing, and whether the claim itself is on record. It is called where Settings.Restored says so, in the order of
	// claiming. An *InterruptedError has interrupted the run, and the call
	// does not begin. Input encodes the input, for an error to show it.
	Claim(s *Scope, c record.Claim, input func() ([]byte, error)) (found *record.Progress, onRecord bool, err error)

	// Ended is asked when a handler or the preconditions of s returned by
	// themselves, in a run where Claim is asked: it refuses, as Claim does, an
	// end before all that was recorded in s was claimed again. Claimed is how
	// many claims there were.
	Ended(s *Scope, claimed int) error

	// Refuse stops the run because the recorded output of the call whose scope
	// is s, or a value that is read in s, has fields that the type of today
	// lacks, and returns the suspension. It
	// returns nil where the run trusts such outputs.
	Refuse(s *Scope, d *DivergenceError) error

	// Replay returns the outcome that was recorded of the call whose scope is
	// s, with its output, and takes over the values that came with it. Traced
	// is how the handler ended if it ran again, nil if it did not.
	Replay(s *Scope, traced *record.Record) (record.Record, error)

	// Append gives the record its run ID, its generation and the next Seq, keeps
	// it, and publishes it. A failed record with WillRetry is appended together
	// with its promise (Record.Retrying), both or none. The record comes from s:
	// the attempt that it is about, or where it was logged. It is ErrAttemptOver
	// where that attempt is over (Scope.Closed), or for the record of a call the
	// attempt around it. Nothing is appended once the run is closed.
	Append(s *Scope, rec record.Record) error

	// Ask asks a question of the call whose scope is s. Without an answer yet,
	// it records that the question is open; one whose time is over it answers
	// with the default. A question that was refused sets aside the answer it
	// had. Claims are listed in the record, if there is one.
	Ask(s *Scope, q Question, def DefaultAnswer, claims []record.Claim) (Asked, error)

	// Version returns the version that was recorded for s, or records one. An
	// *[InterruptedError] has interrupted the run.
	Version(s *Scope, q VersionQuestion) (int, error)

	// PutArtifact stores an encoded output that is too large for a record and
	// returns a reference to it. If nothing can be stored now, it interrupts the
	// run.
	PutArtifact(ctx context.Context, encoded []byte) (reference string, err error)

	// Completed returns the calls that were recorded before this opening of the
	// run as completed and compensable, in the order in which they completed. It
	// is asked at most once, and returns nothing where nothing is compensated.
	Completed() []Completed

	// Values returns the recorded input and output of a call that Completed
	// returned: those that it had at the completion that compensation nth is of.
	Values(ctx context.Context, a record.Address, nth int) (in, out []byte, err error)

	// Poll asks an external checker whether to interrupt the run, and does so:
	// afterwards the contexts say it. It is called where Settings.Polls says
	// so, at the points where interrupts are noticed and every 100 ms during
	// waits.
	Poll(ctx context.Context)
}

// Asked is what became of a question.
type Asked struct {
	Answer   []byte    // encoded; nil if there is none yet
	Due      time.Time // when there is one by itself; zero for never
	Recorded bool      // the question was recorded now
}

// Settings is what holds for every call of a run.
type Settings struct {
	RunID string

	// RetryByActor is the level above an actor's own configuration, by name.
	RetryByActor map[string]*Policy

	// RetryByKind and Retry are the two levels below an actor's own
	// configuration; nil where a level says nothing.
	RetryByKind [record.KindAgent + 1]*Policy
	Retry       *Policy

	// Compensations are what a run that is resumed compensates with, one for an
	// actor. Where Outputs says so, a call with a compensation that is not among
	// them does not begin.
	Compensations []*Compensation

	// Park is how long a [Sleep], or the delay before another attempt, may be
	// that waits in the process: a longer one suspends the run. 0 for any.
	Park time.Duration

	// MaxEntries is how often an attempt of an agent is entered without an
	// outcome inside it: 5 if it is 0, or Unlimited.
	MaxEntries int

	Seed      uint64 // of jitter
	Payloads  bool   // records keep inputs and outputs
	Outputs   bool   // records keep what a later run needs to recall calls
	RoundTrip bool   // outputs and errors are handed out as restored ones
	Artifacts bool   // outputs above 64 KB go to PutArtifact
	Restored  bool   // there is restored history: Claim is to be asked
	Undoable  bool   // Completed is to be asked
	Strict    bool   // nothing is executed, and nothing is waited for
	Replays   bool   // it is only replayed: nothing is compensated, and no cache is asked
	Polls     bool   // Poll is to be called

	// Late counts attempts that were abandoned, and those of them that came
	// back after all.
	Late struct{ Abandoned, Returned atomic.Int64 }
}

// maxInline is the size in bytes of the largest encoded output that is kept in
// its record rather than as an artifact.
const maxInline = 64 << 10

// A Root is where the root calls of a run begin, in all of its contexts.
type Root struct {
	run         Run
	settings    *Settings // of the run
	claims      claims    // of root calls
	interrupted atomic.Pointer[InterruptedError]

	refused atomic.Pointer[InterruptedError] // of the first root call that did not begin; nil if there is none

	draining atomic.Pointer[InterruptedError] // why nothing new begins; nil while it does
	drained  atomic.Pointer[chan struct{}]    // closed by Drain; nil until somebody waits for it

	active atomic.Int64                    // root calls under way
	idle   atomic.Pointer[chan<- struct{}] // nil until somebody waits

	completed completed // calls that can be compensated
}

// NewRoot returns the root of run.
func NewRoot(run Run) *Root { return &Root{run: run, settings: run.Settings()} }

// Interrupt sets why the contexts of the run end. It comes before these are
// cancelled: calls that had to ask a context for the cause would all queue for
// its lock. Only the first counts.
func (r *Root) Interrupt(e *InterruptedError) { r.interrupted.CompareAndSwap(nil, e) }

// Drain lets no further call or attempt begin, and wakes those that wait for
// their next: they are suspended because of e. What runs goes on, and what is
// recorded is still recalled. Only the first counts.
func (r *Root) Drain(e *InterruptedError) {
	if r.draining.CompareAndSwap(nil, e) {
		close(*r.drain())
	}
}

// drain returns the channel that Drain closes.
func (r *Root) drain() *chan struct{} {
	if r.drained.Load() == nil {
		fresh := make(chan struct{})
		r.drained.CompareAndSwap(nil, &fresh)
	}
	return r.drained.Load()
}

// Context returns ctx with the run's root scope in it. Its calls are
// interrupted when ctx ends.
func (r *Root) Context(ctx context.Context) context.Context {
	return (*attemptContext)(&Scope{outer: ctx, root: r})
}

// Refused is the suspension of the first root call that did not begin, and has
// no record, because its context had ended. It is nil if there is none.
func (r *Root) Refused() *InterruptedError { return r.refused.Load() }

// Active is the number of root calls under way.
func (r *Root) Active() int { return int(r.active.Load()) }

// Idle returns a channel on which one value is sent once no root call is under
// way. It is asked for once, when no further calls begin.
func (r *Root) Idle() <-chan struct{} {
	idle := make(chan struct{}, 1)
	send := (chan<- struct{})(idle)
	r.idle.Store(&send)
	if r.active.Load() == 0 {
		r.notifyIdle()
	}
	return idle
}

func (r *Root) leave() {
	if r.active.Add(-1) == 0 {
		r.notifyIdle()
	}
}

func (r *Root) notifyIdle() {
	if idle := r.idle.Swap(nil); idle != nil {
		*idle <- struct{}{}
	}
}

// nowhere is the run of calls outside any run: it keeps nothing.
type nowhere struct{}

func (nowhere) Settings() *Settings                   { return new(Settings) }
func (nowhere) Ended(*Scope, int) error               { return nil }
func (nowhere) Refuse(*Scope, *DivergenceError) error { return nil }
func (nowhere) Append(*Scope, record.Record) error    { return nil }
func (nowhere) Replay(*Scope, *record.Record) (record.Record, error) {
	return record.Record{}, ErrNoRun
}

func (nowhere) Ask(*Scope, Question, DefaultAnswer, []record.Claim) (Asked, error) {
	return Asked{}, ErrNoRun
}

func (nowhere) Claim(*Scope, record.Claim, func() ([]byte, error)) (*record.Progress, bool, error) {
	return nil, false, nil
}

func (nowhere) Version(_ *Scope, q VersionQuestion) (int, error) { return q.Highest, q.Check() }
func (nowhere) Poll(context.Context)                             {}
func (nowhere) Completed() []Completed                           { return nil }
func (nowhere) Values(context.Context, record.Address, int) ([]byte, []byte, error) {
	return nil, nil, ErrNoRun
}
func (nowhere) PutArtifact(context.Context, []byte) (string, error) { return "", ErrNoRun }

// outside is the root of all calls outside any run. Nothing in it changes but a
// count of late attempts, which nobody reads.
var outside = NewRoot(nowhere{})

// isOutside reports whether the root is that of calls outside any run.
func (r *Root) isOutside() bool { return r == outside }
