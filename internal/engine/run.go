package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// Run keeps what calls do. What else a run can do is in its [Settings].
type Run interface {
	// Append gives the record its run ID, its generation and the next Seq,
	// keeps it, and publishes it. A failed record with WillRetry is appended
	// together with its retrying record (Record.Retrying), both or none. The
	// record comes from s: the attempt that it is about, or the attempt that
	// logged it. Append returns ErrAttemptOver if that attempt is over
	// (Scope.Closed), or, for a record of a call, the attempt around it.
	// Nothing is appended once the run is closed.
	Append(s *Scope, rec record.Record) error

	// Ask asks a question of the call whose scope is s. If there is no answer
	// yet, it records that the question is open. If the time of the question is
	// over, it answers with the default. If q.Refused is set, it discards the
	// answer that the question had. The record of the question lists the
	// claims.
	Ask(s *Scope, q Question, def DefaultAnswer, claims []record.Claim) (Asked, error)

	// Effect returns an effect that the call whose scope is s might repeat, nil if
	// there is none. If q.Take is set, the call takes that effect, and Effect returns
	// nil if it is not there any more. It is called for calls of irreversible actors
	// that begin for the first time.
	Effect(s *Scope, q EffectQuery) (*FoundEffect, error)

	// Version returns the version that was recorded for s, or records one. An
	// *[InterruptedError] has interrupted the run.
	Version(s *Scope, q VersionQuestion) (int, error)
}

// History is what was recorded before this opening of the run.
type History interface {
	// Claim returns what was recorded of a call or question that is claimed in
	// s, nil for nothing, and whether the claim itself is recorded. It is
	// called in the order of claiming. If err is an *InterruptedError, it has
	// interrupted the run, and the call does not begin. Input is that of the call;
	// nil for a question.
	Claim(s *Scope, c record.Claim, input ClaimedInput) (found *record.Progress, onRecord bool, err error)

	// Ended is called when the handler or the preconditions of s returned by
	// themselves. It returns an error, as Claim does, if calls were recorded in s
	// that were not claimed again. Claimed is the number of claims.
	Ended(s *Scope, claimed int) error

	// Outcome returns the recorded outcome of the call whose scope is s.
	Outcome(s *Scope) (Outcome, error)

	// Differs is called if the recorded output of a call that s has claimed does not
	// fit its present type, as d says. It stops the run and returns the suspension,
	// unless the output is used all the same, or the call is to be made again.
	Differs(s *Scope, d *DivergenceError) (again bool, err error)

	// Replay restores the values that were stored with the outcome of the call
	// whose scope is s. Traced is how the handler ended if it ran again, nil if
	// it did not.
	Replay(s *Scope, traced *record.Record) error
}

// An Outcome is how a call ended that is on record.
type Outcome struct {
	Output []byte         // encoded
	Failed *record.Record // nil if the call completed
}

// A ClaimedInput is the input of a call that is claimed. Its methods call methods
// of the user's types.
type ClaimedInput interface {
	// Encode encodes the input, so that an error can show it.
	Encode() ([]byte, error)

	// EncodeBefore encodes it as it was before some values were kept as JSON.
	EncodeBefore() ([]byte, error)

	// Whole returns the hash of the whole input.
	Whole() (record.Hash, error)

	// HashBefore is the identity that a call with this input had then. A record
	// that has it is of the same input.
	HashBefore() (record.Hash, error)
}

// Asked is the result of asking a question.
type Asked struct {
	Answer   []byte    // encoded; nil for none yet
	Due      time.Time // when the default answers it; zero for never
	Recorded bool      // the question was recorded by this call
}

// Settings holds for every call of a run.
type Settings struct {
	RunID string
	Tags  []string // of the run

	// RetryByActor is the level above the actor's own configuration, by name.
	RetryByActor map[string]*Policy

	// RetryByKind and Retry are the two levels below the actor's own
	// configuration; nil if a level is not set.
	RetryByKind [record.KindAgent + 1]*Policy
	Retry       *Policy

	// Interceptors are called around the attempts of all calls, outside those of
	// the actor.
	Interceptors []Interceptor

	// Compensations are used by a run that is resumed, one for each actor. If
	// Outputs is set, a call that has a compensation which is not among them
	// does not begin.
	Compensations []*Compensation

	// Park is the longest [Sleep], or delay before another attempt, that waits
	// in the process: a longer one suspends the run. 0 stands for no limit.
	Park time.Duration

	// MaxLosses is the default of RetryConfig.MaxLosses. Defaults to 5; Unlimited
	// sets no limit.
	MaxLosses int

	// KeysOf is the run to which idempotency keys belong: that of RunID if it is
	// empty. Undone has how often calls were compensated, by their addresses without
	// attempts, and UndoneByParents how often by the parents of a fork alone. Made has the hashes of the whole inputs of calls that parents of a fork
	// made under these keys, by the same addresses: their effects are not the fork's.
	KeysOf          string
	Undone          map[string]int
	UndoneByParents map[string]int
	Made            map[string][]record.Hash

	Seed      uint64 // of jitter
	Payloads  bool   // records keep inputs and outputs
	Outputs   bool   // records keep what a later run needs to recall calls
	RoundTrip bool   // outputs and errors are handed out as restored ones
	Effects   bool   // Effect is called for all calls of irreversible actors, not only in calls that are tried again
	Strict    bool   // nothing is executed, and nothing is waited for
	Replays   bool   // the run is only replayed: nothing is compensated, and no interceptor is called

	// History is what was recorded before; nil in a new run.
	History History

	// Completed returns the calls that were recorded before this opening of the run
	// as compensable, and have completed or are in doubt, in the order in which that
	// was recorded. It is called at most once; nil if there are none.
	Completed func() []Completed

	// PutArtifact stores an encoded output of more than MaxInline bytes and returns a
	// reference to it. If nothing can be stored at present, it interrupts the run.
	// With nil, such outputs stay in the records.
	PutArtifact func(ctx context.Context, encoded []byte) (reference string, err error)

	// Poll asks an external checker whether to interrupt the run, and interrupts it if
	// so; the contexts of the run then end. It is called where interrupts are noticed
	// and every 100 ms during waits. It is nil if there is no checker.
	Poll func(ctx context.Context)

	// Counts returns the numbers of the run, over all its openings. It is nil outside
	// any run.
	Counts func() record.Counts

	// Late counts the attempts that were abandoned, and those of them that
	// returned later.
	Late struct{ Abandoned, Returned atomic.Int64 }
}

// MaxInline is the size in bytes of the largest encoded output that is kept in
// its record rather than as an artifact.
const MaxInline = 64 << 10

// A Root is the root of the scopes of a run, in all contexts of the run.
type Root struct {
	run         Run
	settings    *Settings // of the run
	claims      claims    // of root calls
	interrupted atomic.Pointer[InterruptedError]

	refused atomic.Pointer[InterruptedError] // the suspension of the first root call that did not begin; nil for none

	draining atomic.Pointer[InterruptedError] // why nothing new begins; nil if calls may begin
	drained  atomic.Pointer[chan struct{}]    // closed by Drain; nil until a call waits

	active atomic.Int64                    // root calls under way
	idle   atomic.Pointer[chan<- struct{}] // nil until Idle is called

	completed completed // calls that can be compensated
}

// NewRoot returns the root of run.
// Only counters in the settings change from then on.
func NewRoot(run Run, settings *Settings) *Root { return &Root{run: run, settings: settings} }

// Interrupt sets why the contexts of the run end. It must be called before they
// are cancelled: otherwise all calls would ask a context for its cause and
// queue for its lock. Only the first call counts.
func (r *Root) Interrupt(e *InterruptedError) { r.interrupted.CompareAndSwap(nil, e) }

// Drain lets no further call or attempt begin, and wakes calls that wait for
// their next attempt: they are suspended because of e. Attempts that run
// continue, and recorded calls are still recalled. Only the first call counts.
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

// Refused returns the suspension of the first root call that did not begin
// because its context had ended, and so has no record. It returns nil if there
// is none.
func (r *Root) Refused() *InterruptedError { return r.refused.Load() }

// Active returns the number of root calls under way.
func (r *Root) Active() int { return int(r.active.Load()) }

// Idle returns a channel that receives one value when no root call is under
// way. It is for when no further calls begin. If Idle is called again, only the
// new channel receives.
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

func (nowhere) Append(*Scope, record.Record) error { return nil }
func (nowhere) Ask(*Scope, Question, DefaultAnswer, []record.Claim) (Asked, error) {
	return Asked{}, ErrNoRun
}
func (nowhere) Effect(*Scope, EffectQuery) (*FoundEffect, error) { return nil, nil }
func (nowhere) Version(_ *Scope, q VersionQuestion) (int, error) { return q.Highest, q.Check() }

// outside is the root of all calls outside any run. Nothing in it changes
// except a count of late attempts that is never read.
var outside = NewRoot(nowhere{}, new(Settings))

// isOutside reports whether the root is that of calls outside any run.
func (r *Root) isOutside() bool { return r == outside }
