package record

import (
	"encoding/json"
	"iter"
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/internal/enum"
)

// A Record is one immutable fact about a call or a run. History keeps records, publishers transmit
// them, and printers show them. Restored records are of the same type as live ones. Whoever reads a
// record must not change what its Detail points to.
type Record struct {
	RunID      string
	Seq        uint64    // position in the run, from 1 and without gaps
	Generation uint64    // number of the opening of the run that wrote the record, from 1
	Time       time.Time // in UTC, without a monotonic reading
	Address    Address   // zero for facts about the run itself
	Name       string    // the actor's name; for other kinds, the logger's name, a key, or a question's ID

	// Ordinal is the position of the call among all claims in its scope (calls, groups, steps and
	// questions), counted from 1 in the order in which they were claimed. It is 0 for records that
	// are not about a claim. For a version, it is the number of earlier claims.
	Ordinal int

	Kind        Kind
	Status      Status
	Reason      Reason // why the call failed for good
	Stage       Stage  // where the attempt failed or was interrupted
	Class       Class  // of Err
	DelaySource Source // who chose Delay

	Attempt     int  // number of the attempt, from 0; in a retrying record, the next attempt's
	MaxAttempts int  // -1 if there is no limit
	WillRetry   bool // in the record of a failed attempt: another attempt follows
	Replayed    bool // published again from restored history

	Duration time.Duration // how long the attempt took; set in records that end an attempt
	// Elapsed is how long the call has taken so far, including all attempts and waits. It does not
	// include the time between the last record before a crash and the next opening of the run.
	Elapsed time.Duration
	Delay   time.Duration // in failed records with WillRetry and in retrying records: the wait before the next attempt; in started records: the wait before this attempt

	Err    error   // of the attempt; in the started record of a retry, of the previous attempt
	Detail *Detail // fields that only a few records have, or nil
}

// Detail holds the fields that only a few records have. Values are encoded by [Encode].
type Detail struct {
	InputHash Hash // the identity of the input
	Input     []byte
	Output    []byte
	Artifact  string // reference to an output that is stored as an artifact
	Usage     Usage
	Message   string         // of a log line or a question; the description of a run
	Severity  slog.Level     // of a log line
	Metadata  map[string]any // metadata of a log line; attributes of the attempt that the record ends
	NoStore   bool           // the output of this completed call is not kept; on resume, the call is made again
	Branches  int            // of a group that starts: the number of its branches

	// Cached is set for a completed call whose output came from a cache. The handler did not run.
	Cached bool

	// Compensable is set for a completed call whose actor has a compensation: the call is undone if
	// the call around it fails. If the actor has a compensation for calls in doubt, Compensable is
	// also set in the started records of the call, and in the record of its failure if the call is
	// in doubt.
	Compensable bool

	// WholeInput is the hash of an LLM call's whole input. Only a part of that input identifies the
	// call. WholeInput is set in the started records of attempts whose input may be new: the first
	// attempt, and the first attempt after a resume.
	WholeInput Hash

	// By is who gave an answer or a signal. It is empty if that is not known, or if the answer is
	// the default.
	By string

	// Signal is the ID that a signal has among the run's signals. The answer that is recorded when
	// a call receives the signal has the same ID. Signal is empty in other records.
	Signal string

	Schema  json.RawMessage // JSON schema of the answer to a question
	InDoubt *CallInDoubt    // in a question about a call in doubt: the call

	// Fingerprint is set for a completed call with NoStore. It consists of 8 random bytes, followed
	// by the first byte of the HMAC-SHA-256 of the encoded output, with the random bytes as the
	// key. One byte is enough to see that the output is probably the same when the call is made
	// again, but not enough to confirm a guess of the output. Fingerprint is empty if the output
	// cannot be encoded and restored.
	Fingerprint []byte

	// Overlaps is set for a call that starts while another goroutine is making a call with the same
	// name and input in the same scope. Only the order in which the two calls began tells them
	// apart.
	Overlaps bool

	Awaits AwaitKind // what a question waits for

	// Replaces describes the outcome that is replaced when a call is made again. It is set in the
	// first record after that outcome, and nil in all other records.
	Replaces *Replaced

	// Irreversible is set in the started and completed records of calls whose effect must not
	// happen twice.
	Irreversible bool

	// If a completed call took over the effect of another call instead of running its handler,
	// Effect is that effect. If a call that starts replaces an effect in doubt, Effect is the
	// effect in doubt. Only the place of Effect is set.
	Effect *Effect

	// SetInFork is true for an outcome or an answer that somebody has set in a fork.
	SetInFork bool

	// ToolCall is the ID that a model's response gave to the call that it asked for. It is empty
	// for calls that a program makes by itself.
	ToolCall string

	// InputArtifacts are the references to artifacts that the input of a run contains. They are in the
	// run's first record, so that the artifacts are kept from the start of the run.
	InputArtifacts []string

	// AfterReworded is set for an LLM call that starts after another call in the same place and
	// with the same identity was answered from its record, even though the request of that call had
	// changed. Both happened in the same opening of the run. The two requests come from different
	// programs, so they do not show whether a later program makes the two calls in another order.
	AfterReworded bool

	// NamedCalls is set for a call that failed because calls directly inside it had failed. It lists
	// those that the error wraps or names in its text, but that the recorded text does not name.
	NamedCalls []Address

	// Fork is set in the first record after those that a fork keeps from its parent.
	Fork *Fork

	// Unrecorded lists the claims with lower ordinals, in the same scope and in the scopes around
	// it, that have no record yet when this record is appended.
	Unrecorded []Claim

	// Redacted is set in a copy made by [Record.Redacted] if redaction changed its Message.
	Redacted bool
}

// Replaced describes the outcome of a call that is made again.
type Replaced struct {
	Seq      uint64 // number of the record with the outcome
	Status   Status // completed or failed
	Attempts int    // number of attempts that had begun
}

// A CallInDoubt is a call that may or may not have taken effect. Its address is the address of the
// record or the question that contains it.
type CallInDoubt struct {
	Kind    Kind
	Name    string    // of the actor
	Attempt int       // the number of the attempt that had begun, from 0
	Starts  int       // attempts that began, over all openings of the run
	Began   time.Time // when the last attempt began; zero if it is not known
	Input   []byte    // encoded input of the call; nil if it was not kept

	// If the call has not begun and might repeat an effect of another call, Effect is that effect,
	// with only its place, InDoubt and NoOutput set. Otherwise Effect is nil.
	Effect *Effect

	// IdempotencyKey is the key that core.IdempotencyKey returns in the call. Other systems may
	// know the effect of the call by this key. IdempotencyKey is empty if Effect is set.
	IdempotencyKey string

	// Cause is the text of the error with which the attempt ended. It is empty if the run stopped
	// during the attempt.
	Cause string
}

// An Effect is something that a call has done, or may have done, and that must not be done twice:
// the call completed, or may have taken effect. The place of an effect consists of its run, its
// address and the number of its record.
type Effect struct {
	RunID   string  `json:"run_id,omitempty"` // run of the call; empty for the record's own run
	Address Address `json:"address"`
	Seq     uint64  `json:"seq,omitempty"` // number of the record with the call's outcome or latest start

	Kind    Kind   `json:"event_type,omitempty"`
	Name    string `json:"name,omitempty"` // of the actor
	Input   Hash   `json:"-"`              // the identity of the input
	InDoubt bool   `json:"in_doubt,omitempty"`

	// NoOutput is set if the call completed, but its output was not recorded or cannot be read.
	// Otherwise, the output of a completed call is in Output or in an artifact.
	NoOutput bool   `json:"no_output,omitempty"`
	Output   []byte `json:"-"`
	Artifact string `json:"artifact,omitempty"`
}

// Place returns a copy of e that contains only its place: the run, the address and the number.
func (e *Effect) Place() *Effect { return &Effect{RunID: e.RunID, Address: e.Address, Seq: e.Seq} }

// CanBeTakenOver reports whether a call can complete with the output of the effect.
func (e *Effect) CanBeTakenOver() bool { return e != nil && !e.InDoubt && !e.NoOutput }

// String returns the effect's address for messages, followed by its run if that is another run.
func (e *Effect) String() string {
	if e.RunID == "" {
		return e.Address.String()
	}
	return e.Address.String() + " of run " + e.RunID
}

// A Fork holds what a forked run needs to know about its parents, which may be deleted.
type Fork struct {
	// Keys is the run whose idempotency keys the fork's calls use: the fork's oldest ancestor. It
	// is empty if the fork has its own keys.
	Keys string `json:"keys,omitempty"`

	// Undone lists the parents' calls that were compensated.
	Undone []UndoneCalls `json:"undone,omitempty"`

	// Made lists the parents' calls that completed or are in doubt, have a compensation for that
	// case, and were not compensated. If the fork makes such a call again with the same key, the
	// call has the same effect as the parent's call.
	Made []MadeCall `json:"made,omitempty"`

	// Effects lists the effects of the parents after the point of the fork. The calls of the fork
	// take them over.
	Effects []Effect `json:"effects,omitempty"`
}

// UndoneCalls records how many times the calls at a place were compensated. A place is an address
// without attempt numbers.
type UndoneCalls struct {
	Place string `json:"place"`
	Times int    `json:"times"`
}

// A MadeCall is a call that was made at a place, with the identity of its input.
type MadeCall struct {
	Place string `json:"place"`
	Input Hash   `json:"input"`
}

// A Claim is the next call, group, step or question of a scope.
type Claim struct {
	Address Address
	Ordinal int // position among all claims of the scope, from 1
	Kind    Kind
	Name    string // of the actor
	Input   Hash   // the identity of the input; zero if it is not known
}

// Source says what chose a delay. It is 0 if there is no delay.
type Source uint8

// The sources of delays.
const (
	SourceBackoff Source = iota + 1 // the retry configuration
	SourceServer                    // the service, by Retry-After
	SourceBreaker                   // a circuit breaker, by when it lets an attempt through again
)

// String returns the wire name.
func (s Source) String() string {
	return enum.Name([]string{"", "backoff", "retry_after", "breaker"}, uint8(s), "source")
}

// IsOutcome reports whether r ends its call: the call completed, or failed and is not retried.
func (r *Record) IsOutcome() bool {
	return r.Kind.IsCall() && (r.Status == StatusCompleted || r.Status == StatusFailed && !r.WillRetry)
}

// IsSuspension reports whether r stops its call without an outcome.
func (r *Record) IsSuspension() bool {
	return r.Kind.IsCall() && (r.Status == StatusInterrupted || r.Status == StatusAwaiting)
}

// Interrupt returns who interrupted a call or a run and why, or which question the call waits for.
// It returns nil for other records.
func (r *Record) Interrupt() *InterruptedError {
	switch r.Status {
	case StatusInterrupted, StatusAwaiting, StatusCancelled:
	default:
		return nil
	}
	e, _ := r.Err.(*InterruptedError)
	return e
}

// Encoded returns the record's encoded output or value, or nil if it has none.
func (r *Record) Encoded() []byte {
	if r.Detail == nil {
		return nil
	}
	return r.Detail.Output
}

// Artifact returns the reference to an output or value that is stored as an artifact, or an empty
// string if the record has none.
func (r *Record) Artifact() string {
	if r.Detail == nil {
		return ""
	}
	return r.Detail.Artifact
}

// Artifacts yields the references to all artifacts that the record needs: its own artifact, those that
// the input of a run contains, and those of effects that a fork may take over.
func (r *Record) Artifacts() iter.Seq[string] {
	return func(yield func(string) bool) {
		if reference := r.Artifact(); reference != "" && !yield(reference) || r.Detail == nil {
			return
		}
		for _, reference := range r.Detail.InputArtifacts {
			if !yield(reference) {
				return
			}
		}
		if r.Detail.Fork == nil {
			return
		}
		for i := range r.Detail.Fork.Effects {
			if reference := r.Detail.Fork.Effects[i].Artifact; reference != "" && !yield(reference) {
				return
			}
		}
	}
}

// Used returns what was consumed according to the record.
func (r *Record) Used() Usage {
	if r.Detail == nil {
		return Usage{}
	}
	return r.Detail.Usage
}

// Message returns the text of a log line or a question, or the description of a
// run. It is empty if the record has none.
func (r *Record) Message() string {
	if r.Detail == nil {
		return ""
	}
	return r.Detail.Message
}

// AnsweredBy returns who gave an answer, or an empty string if that is not known.
func (r *Record) AnsweredBy() string {
	if r.Detail == nil {
		return ""
	}
	return r.Detail.By
}

// IsRetry reports whether r is about an attempt after the first.
func (r *Record) IsRetry() bool { return r.Attempt > 0 }

// TotalAttempts returns the number of attempts that were made. It is 0 if the call ended before its
// first attempt.
func (r *Record) TotalAttempts() int {
	switch r.Stage {
	case StageDefinition, StageEntry, StagePrecondition, StageWait:
		return r.Attempt // this attempt did not begin
	}
	return r.Attempt + 1
}

// NextAttemptAt returns when the next attempt may begin, or the zero Time if none is planned.
func (r *Record) NextAttemptAt() time.Time {
	if r.Status != StatusRetrying && !r.WillRetry && !r.IsParked() {
		return time.Time{}
	}
	return r.Time.Add(r.Delay)
}

// IsParked reports whether r suspends its call, and with it the run, until the
// next attempt is due.
func (r *Record) IsParked() bool {
	return r.Kind.IsCall() && r.Status == StatusAwaiting && r.Stage == StageWait
}

// Retrying returns the retrying record that follows r, which must be a failed record with
// WillRetry. The retrying record is about the next attempt, and says when that attempt may begin.
func (r Record) Retrying() Record {
	r.Status, r.WillRetry = StatusRetrying, false
	r.Attempt++
	r.Duration = 0
	r.Detail = nil
	return r
}
