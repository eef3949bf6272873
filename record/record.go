package record

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/internal/enum"
)

// A Record is one immutable fact about a call or a run. History keeps
// records, publishers carry them, printers show them. A record that was
// restored is of the same type as a live one. A reader of a record must not
// change what its Detail points to.
type Record struct {
	RunID      string
	Seq        uint64    // the position in the run, from 1 and without holes
	Generation uint64    // which opening of the run wrote it, from 1
	Time       time.Time // in UTC, without a monotonic reading
	Address    Address   // zero for facts about the run itself
	Name       string    // of the actor; of the logger or key for other kinds

	// Ordinal is the number of the call among all that its scope claimed:
	// calls, groups, steps and questions, from 1 and in the order of claiming.
	// It is 0 for what no scope claimed. A version has the number of claims
	// that came before it.
	Ordinal int

	Kind        Kind
	Status      Status
	Reason      Reason // why the call failed for good
	Stage       Stage  // where the attempt failed or was interrupted
	Class       Class  // of Err
	DelaySource Source // who chose Delay

	Attempt     int  // from 0: Attempt+1 were made so far
	MaxAttempts int  // Unlimited if there is no end
	WillRetry   bool // failed: another attempt follows
	Replayed    bool // published again from restored history

	Duration time.Duration // of the attempt, where it ends
	Elapsed  time.Duration // of the call so far: all attempts and waits
	Delay    time.Duration // failed with WillRetry, retrying: the wait before the next attempt; started: that before this one

	Err    error   // what went wrong, for a retry that started in the attempt before; the text is made when somebody asks
	Detail *Detail // what few records have; nil if there is nothing
}

// Detail is the part of a [Record] that few records have. Values are encoded
// by [Encode].
type Detail struct {
	InputHash Hash // the identity of the input
	Input     []byte
	Output    []byte
	Artifact  string // reference of an output that is stored apart
	Usage     Usage
	Message   string     // of a log line, a run's description
	Severity  slog.Level // of a log line
	Metadata  map[string]any
	NoStore   bool // of a call that completed: its output is not kept, and it runs again on resume
	Branches  int  // of a group that starts: how many branches it has

	// Cached says of a call that completed that its output is one that a cache
	// had of an earlier call: its handler did not run.
	Cached bool

	// Compensable says of a call that completed that its actor has a
	// compensation: the call is undone when what is around it fails.
	Compensable bool

	// WholeInput is the hash of the whole input of a call of an LLM, of which the
	// identity is a part. It is in the started records of attempts that have an
	// input of their own: the first, and the first after a resume.
	WholeInput Hash

	Schema  json.RawMessage // of a question: the JSON schema of its answer; of one about a call in doubt, that of the call's output
	InDoubt *CallInDoubt    // of a question about a call in doubt

	// Unrecorded are the claims with lower ordinals in the same scope, and
	// around it, that have no record when this one is appended.
	Unrecorded []Claim
}

// A CallInDoubt is a call of which nobody knows whether it took effect. Its
// address is that of the record, or of the question, that it is in.
type CallInDoubt struct {
	Kind    Kind
	Name    string    // of the actor
	Attempt int       // that had begun, from 0
	Starts  int       // how often an attempt began, over all openings of the run
	Began   time.Time // when the last one did; zero if it is not known
	Input   []byte    // of the call, encoded; nil if it was not kept
}

// A Claim is what a scope was asked for: the next call, group, step or
// question in it.
type Claim struct {
	Address Address
	Ordinal int // among all claims of the scope, from 1
	Kind    Kind
	Name    string // of the actor
	Input   Hash   // the identity of the input; zero if it is not known
}

// Source says who chose a delay; 0 where there is none.
type Source uint8

// The sources of delays.
const (
	SourceBackoff Source = iota + 1 // the retry configuration
	SourceServer                    // the service, by Retry-After
	SourceBreaker                   // a circuit breaker: when it lets an attempt through again
)

// String is the name on the wire.
func (s Source) String() string {
	return enum.Name([]string{"", "backoff", "retry_after", "breaker"}, uint8(s), "source")
}

// IsOutcome reports whether r ends its call: completed, or failed without a
// retry to follow.
func (r *Record) IsOutcome() bool {
	return r.Kind.IsCall() && (r.Status == StatusCompleted || r.Status == StatusFailed && !r.WillRetry)
}

// IsSuspension reports whether r stops its call without an outcome.
func (r *Record) IsSuspension() bool {
	return r.Kind.IsCall() && (r.Status == StatusInterrupted || r.Status == StatusAwaiting)
}

// Interrupt is by whom and why a call or a run was interrupted, or which
// question it waits for; nil for every other record.
func (r *Record) Interrupt() *InterruptedError {
	switch r.Status {
	case StatusInterrupted, StatusAwaiting, StatusCancelled:
	default:
		return nil
	}
	e, _ := r.Err.(*InterruptedError)
	return e
}

// Encoded is the encoded output or value of the record, nil if it has none.
func (r *Record) Encoded() []byte {
	if r.Detail == nil {
		return nil
	}
	return r.Detail.Output
}

// Artifact is the reference of an output or value that is stored apart, empty if
// the record has none.
func (r *Record) Artifact() string {
	if r.Detail == nil {
		return ""
	}
	return r.Detail.Artifact
}

// Used is what the record says was consumed.
func (r *Record) Used() Usage {
	if r.Detail == nil {
		return Usage{}
	}
	return r.Detail.Usage
}

// Message is the text of a log line, a question, the description of a run;
// empty if the record has none.
func (r *Record) Message() string {
	if r.Detail == nil {
		return ""
	}
	return r.Detail.Message
}

// IsRetry reports whether r is about an attempt after the first.
func (r *Record) IsRetry() bool { return r.Attempt > 0 }

// TotalAttempts is the number of attempts that were made, 0 where a call
// ended before its first.
func (r *Record) TotalAttempts() int {
	switch r.Stage {
	case StageDefinition, StageEntry, StagePrecondition, StageWait:
		return r.Attempt // it was not begun
	}
	return r.Attempt + 1
}

// NextAttemptAt is when the attempt that was put off may begin; the zero Time
// where none was.
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

// Retrying is the record that goes with r, a failed one with WillRetry: it says
// when the next attempt begins, and is about that attempt.
func (r Record) Retrying() Record {
	r.Status, r.WillRetry = StatusRetrying, false
	r.Attempt++
	r.Duration = 0
	r.Detail = nil
	return r
}
