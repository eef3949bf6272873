package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Run records what calls do. Its optional features are configured by its [Settings].
type Run interface {
	// Append sets the record's run ID, generation and Seq (the next number), stores the record, and
	// publishes it. A failed record with WillRetry is appended together with its retrying record
	// (Record.Retrying): either both are appended or neither. The record comes from s, which is the
	// attempt that it is about or the attempt that logged it. Append returns ErrAttemptOver if that
	// attempt is over (Scope.Closed) or, for a record of a call, if the attempt around it is over.
	// Nothing is appended once the run is closed.
	Append(s *Scope, rec record.Record) error

	// Ask asks a question on behalf of the call whose scope is s. If there is no answer yet, Ask
	// records that the question is open. If the time for an answer has passed, the default becomes
	// the answer. If q.Refused is set, Ask discards the previous answer to the question. The record
	// of the question lists the given claims.
	Ask(s *Scope, q Question, def DefaultAnswer, claims []record.Claim) (Asked, error)

	// Effect returns an effect that the call whose scope is s might repeat, or nil if there is
	// none. If q.Take is set, the call takes that effect; in this case, Effect returns nil if the
	// effect is no longer available. Effect is called when a call of an irreversible actor begins
	// for the first time.
	Effect(s *Scope, q EffectQuery) (*FoundEffect, error)

	// Version returns the version recorded for s, or records one if there is none. If the error is
	// an *[InterruptedError], the run was interrupted.
	Version(s *Scope, q VersionQuestion) (int, error)
}

// A History contains what was recorded before this opening of the run.
type History interface {
	// Claim returns what was recorded about a call or question that is claimed in s, or nil if
	// nothing was. onRecord tells whether the claim itself is recorded. Claim is called in the
	// order of claims. If err is an *InterruptedError, the run was interrupted, and the call does
	// not begin. input is the call's input, or nil for a question.
	Claim(s *Scope, c record.Claim, input ClaimedInput) (found *record.Progress, onRecord bool, err error)

	// Ended is called when the handler or the preconditions of s have returned normally. Like
	// Claim, it returns an error if calls recorded in s were not claimed again. claimed is the
	// number of claims.
	Ended(s *Scope, claimed int) error

	// Outcome returns the recorded outcome of the call whose scope is s.
	Outcome(s *Scope) (Outcome, error)

	// Differs is called if the recorded output of a call claimed in s does not fit the output's
	// current type, as d describes. Differs interrupts the run and returns the suspension, unless
	// the output is to be used anyway or the call is to be made again.
	Differs(s *Scope, d *DivergenceError) (again bool, err error)

	// Replay restores the values that were stored with the outcome of the call whose scope is s.
	// traced is the result of the handler if it ran again, and nil if it did not.
	Replay(s *Scope, traced *record.Record) error
}

// An Outcome is a recorded outcome of a call.
type Outcome struct {
	Output []byte         // encoded
	Failed *record.Record // nil if the call completed
	Note   string         // what the text of the failure adds for a person; usually empty
}

// A ClaimedInput gives access to the input of a call that is being claimed. Its methods may call
// methods of the user's types.
type ClaimedInput interface {
	// Encode encodes the input, so that an error can show it.
	Encode() ([]byte, error)

	// EncodeBefore encodes the input in the old form, from before some values were encoded as JSON.
	EncodeBefore() ([]byte, error)

	// Whole returns the hash of the whole input.
	Whole() (record.Hash, error)

	// HashBefore returns the identity that a call with this input had in the old form. If a record
	// has that identity, its input is the same.
	HashBefore() (record.Hash, error)
}

// Asked is the result of asking a question.
type Asked struct {
	Answer   []byte    // encoded; nil if there is none yet
	Ended    error     // the recorded error of a sleep that was ended by its context; otherwise nil
	Due      time.Time // when the default becomes the answer; zero for never
	Recorded bool      // the question was recorded by this call
	InMemory bool      // the run is in memory, so no answer can arrive
}

// Settings apply to every call of a run.
type Settings struct {
	RunID string
	Tags  []string // tags of the run

	// RetryByActor is the level above the actor's own configuration, by actor name.
	RetryByActor map[string]*Policy

	// RetryByKind and Retry are the two levels below the actor's own
	// configuration; nil if a level is not set.
	RetryByKind [record.KindAgent + 1]*Policy
	Retry       *Policy

	// Interceptors are called around the attempts of all calls, outside the actor's interceptors.
	Interceptors []Interceptor

	// Compensations are used in a resumed run, at most one for each actor. If Outputs is set, a
	// call does not begin if its actor's compensation is missing here.
	Compensations []*Compensation

	// Park is the length of the longest [Sleep] or retry delay for which the process waits. A
	// longer wait suspends the run. 0 means no limit.
	Park time.Duration

	// MaxLosses is the default for RetryConfig.MaxLosses. It is 5 if not set; Unlimited means no
	// limit.
	MaxLosses int

	// KeysOf is the run to which idempotency keys belong; if it is empty, they belong to RunID.
	// Undone holds how often calls were compensated, by address without attempts; UndoneByParents
	// counts only compensations in the parents of a fork. Made holds the input identities of calls
	// that the parents of a fork made with these keys, by address without attempts. The effects of
	// these calls do not belong to the fork.
	KeysOf          string
	Undone          map[string]int
	UndoneByParents map[string]int
	Made            map[string][]record.Hash

	Seed      uint64 // seed of the jitter
	Payloads  bool   // records contain inputs and outputs
	Outputs   bool   // records contain what is needed to recall calls
	RoundTrip bool   // outputs and errors are returned as if they had been restored
	Effects   bool   // call Effect for all calls of irreversible actors, not only inside retried calls
	Strict    bool   // only agents, groups and branches are executed, and nothing waits
	Replays   bool   // the run is only being replayed: no compensations, no interceptors

	// History is what was recorded before this opening. It is nil in a new run.
	History History

	// Completed returns the compensable calls that had completed or were in doubt when the run was
	// opened, in the order of their records. It is called at most once. Completed itself is nil if
	// there are no such calls.
	Completed func() []*Completed

	// PutArtifact stores an encoded output of more than MaxInline bytes and returns its reference.
	// If nothing can be stored at present, PutArtifact interrupts the run. If the function is nil,
	// large outputs stay in the records.
	PutArtifact func(ctx context.Context, encoded []byte) (reference string, err error)

	// Poll asks an external checker whether to interrupt the run and, if so, interrupts it; the
	// run's contexts then end. Poll is called where interrupts are noticed, and every 100 ms during
	// waits. It is nil if there is no checker.
	Poll func(ctx context.Context)

	// Counts returns the counts of the run since it began. It is nil outside any run.
	Counts func() record.Counts

	// Late counts abandoned attempts, and how many of them returned later.
	Late struct{ Abandoned, Returned atomic.Int64 }
}

// RunCounts returns the result of Counts, or zero outside any run.
func (s *Settings) RunCounts() record.Counts {
	if s.Counts == nil {
		return record.Counts{}
	}
	return s.Counts()
}

// MaxInline is the maximum size in bytes of an encoded output that is stored in its record instead
// of as an artifact.
const MaxInline = 64 << 10

// A Root is the root scope of a run, shared by all contexts of the run.
type Root struct {
	run         Run
	settings    *Settings // settings of the run
	claims      claims    // claims of root calls
	interrupted atomic.Pointer[InterruptedError]

	refused atomic.Pointer[InterruptedError] // suspension of the first root call that did not begin; nil if there is none

	draining atomic.Pointer[InterruptedError] // why nothing new may begin; nil if calls may begin
	drained  atomic.Pointer[chan struct{}]    // closed by Drain; nil until a call waits

	active atomic.Int64                    // number of root calls in progress
	idle   atomic.Pointer[chan<- struct{}] // nil until Idle is called

	compensables compensableCalls // calls that can be compensated
}

// NewRoot returns the root of run. After that, only counters in the settings may change.
func NewRoot(run Run, settings *Settings) *Root { return &Root{run: run, settings: settings} }

// Interrupt sets the reason why the run's contexts end. It must be called before these contexts are
// canceled; otherwise, all calls would ask a context for its cause and wait for the context's lock.
// Only the first call counts.
func (r *Root) Interrupt(e *InterruptedError) { r.interrupted.CompareAndSwap(nil, e) }

// Drain prevents further calls and attempts from beginning. Calls that are waiting for their next
// attempt stop waiting, and are suspended because of e. Running attempts continue, and recorded
// calls are still recalled. Only the first call counts.
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

// Context returns ctx with the run's root scope added. Calls made with it are interrupted when ctx
// ends.
func (r *Root) Context(ctx context.Context) context.Context {
	return (*attemptContext)(&Scope{outer: ctx, root: r})
}

// Refused returns the suspension of the first root call that did not begin because its context had
// ended, and that therefore has no record. It returns nil if there is none.
func (r *Root) Refused() *InterruptedError { return r.refused.Load() }

// Active returns the number of root calls in progress.
func (r *Root) Active() int { return int(r.active.Load()) }

// Idle returns a channel that receives one value once no root call is in progress. Use it when no
// further calls can begin. If Idle is called again, only the new channel receives a value.
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

// nowhere is the Run for calls outside any run. It stores nothing.
type nowhere struct{}

func (nowhere) Append(*Scope, record.Record) error { return nil }
func (nowhere) Ask(*Scope, Question, DefaultAnswer, []record.Claim) (Asked, error) {
	return Asked{}, ErrNoRun
}
func (nowhere) Effect(*Scope, EffectQuery) (*FoundEffect, error) { return nil, nil }
func (nowhere) Version(_ *Scope, q VersionQuestion) (int, error) { return q.Highest, q.Check() }

// outside is the root of all calls made outside any run. It never changes, except for a count of
// late attempts that is never read.
var outside = NewRoot(nowhere{}, new(Settings))

// isOutside reports whether r is the root named outside.
func (r *Root) isOutside() bool { return r == outside }
