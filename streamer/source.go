package streamer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
)

// A Source has runs that are not, or no longer, in the memory of a [Handler]. It must be
// safe for concurrent use. It must contain every record when the record is published to
// the handler, as a store does.
type Source interface {
	// List returns a page of the runs that a query selects. It does not read their
	// records. For a query that makes no sense the error is ErrInvalid.
	List(ctx context.Context, q Query) (RunPage, error)

	// Run returns the info of one run, with RunInfo.Stopping, or ErrNotFound if it does not
	// exist.
	Run(ctx context.Context, runID string) (RunInfo, error)

	// Records yields the records of a run with numbers above after, in order. It ends
	// after the first error.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Artifact returns the data of an artifact that a record refers to, or ErrNotFound.
	Artifact(ctx context.Context, reference string) ([]byte, error)

	// Answered returns the IDs of the questions of a run whose answers are stored and wait for the
	// run to be opened.
	Answered(ctx context.Context, runID string) ([]string, error)
}

// RunInfo is what is known of a run without reading its records.
type RunInfo struct {
	RunID       string    `json:"run_id"`
	ParentID    string    `json:"parent_run_id,omitempty"` // the run that it was forked from
	CalledBy    string    `json:"called_by,omitempty"`     // the run that has started it and waits for it
	Status      string    `json:"status"`                  // queued, running, paused, interrupted, completed, failed or cancelled
	Stop        *Stop     `json:"stop,omitempty"`          // why it is interrupted or cancelled
	Stopping    *Stop     `json:"stopping,omitempty"`      // the stop that somebody has requested for a running run; its reason is user or cancel
	Description string    `json:"description,omitempty"`
	Pipeline    string    `json:"pipeline,omitempty"`
	Tags        []string  `json:"tags,omitempty"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
	Due         time.Time `json:"due_at,omitzero"` // when it begins, or continues by itself
	Program     string    `json:"program,omitempty"`
	Version     string    `json:"program_version,omitempty"`
	Worker      string    `json:"worker,omitempty"` // who last opened it
	LastSeq     uint64    `json:"last_seq"`

	// Usage is what the run had consumed when it was last closed. A RunState of a run
	// whose records were not all read has this usage.
	Usage record.Usage `json:"-"`

	// The state of the run when it was last closed. Asking is the number of open questions, and
	// Questions has the first of them, without the schema of the answer.
	Calls, Failed, Retries, Asking int             `json:"-"`
	Questions                      []QuestionState `json:"-"`
	LastError                      *CallError      `json:"-"`
}

// A Stop says why a run does not continue.
type Stop struct {
	Reason  string `json:"reason"`            // such as user, shutdown or crash
	By      string `json:"by,omitempty"`      // the person who asked for it; empty for Reprise itself
	Message string `json:"message,omitempty"` // why, in their words; for a divergence, what differs
}

// A redactedSource redacts the texts of a source.
type redactedSource struct {
	Source
	redact redact.Redaction
}

// List searches the original texts, and redacts the runs that it returns. A client that searches for
// a secret therefore learns which runs contain it.
func (s redactedSource) List(ctx context.Context, q Query) (RunPage, error) {
	page, err := s.Source.List(ctx, q)
	for i := range page.Runs {
		page.Runs[i] = s.redacted(page.Runs[i])
	}
	return page, err
}

func (s redactedSource) Run(ctx context.Context, runID string) (RunInfo, error) {
	info, err := s.Source.Run(ctx, runID)
	return s.redacted(info), err
}

// redacted redacts the description and the reason of a stop as in the record that begins
// the run.
func (s redactedSource) redacted(info RunInfo) RunInfo {
	info.Description = s.text(info.Description)
	info.Stop, info.Stopping = s.stop(info.Stop), s.stop(info.Stopping)
	if info.LastError != nil {
		last := *info.LastError
		last.Message = redact.Beginning(s.redact, last.Message)
		info.LastError = &last
	}
	info.Questions = slices.Clone(info.Questions)
	for i := range info.Questions {
		q := &info.Questions[i]
		original := q.Text
		q.Text = redact.Beginning(s.redact, original)
		q.Redacted = q.Redacted || q.Text != original
	}
	return info
}

func (s redactedSource) stop(stop *Stop) *Stop {
	if stop == nil {
		return nil
	}
	return &Stop{Reason: stop.Reason, By: stop.By, Message: s.text(stop.Message)}
}

func (s redactedSource) text(text string) string {
	rec := record.Record{Detail: &record.Detail{Message: text}}.Redacted(s.redact.Text)
	return rec.Message()
}

func (s redactedSource) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for rec, err := range s.Source.Records(ctx, runID, after) {
			if !yield(rec.Redacted(s.redact.Text), err) {
				return
			}
		}
	}
}

// A Control carries out the requests that change a run. It must be safe for concurrent
// use. Its methods return ErrNotFound for a run or a question that does not exist,
// ErrConflict for a request that is not possible now, and ErrInvalid for a value that
// cannot be an answer. The last two are wrapped with a text for the user.
type Control interface {
	// Interrupt asks the process that has the run open to stop it. stop.By is the principal
	// of the request's Access; if that has none, the name in the request, or
	// "dashboard".
	Interrupt(ctx context.Context, runID string, stop Stop) error

	// Cancel ends the run for good, whether or not a process has it open. stop.By is as
	// for Interrupt.
	Cancel(ctx context.Context, runID string, stop Stop) error

	// Answer answers a question of the run. by is as for Interrupt, and the value is
	// JSON.
	Answer(ctx context.Context, runID, questionID, by string, value json.RawMessage) error

	// Signal sends a signal to the run. s.By is as for Interrupt. ErrTooMany is returned if
	// too many signals are waiting.
	Signal(ctx context.Context, runID string, s Signal) error
}

// A Signal is a value about something that has happened outside a run, see core.Receive.
type Signal struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	ID    string          `json:"id,omitempty"` // the same each time the same signal is sent
	By    string          `json:"by,omitempty"`
}

// The errors of a [Source] and a [Control], for errors.Is.
var (
	ErrNotFound = errors.New("streamer: not found")
	ErrConflict = errors.New("streamer: not possible now")
	ErrInvalid  = errors.New("streamer: not valid")

	ErrTooMany     = errors.New("streamer: too many, try again later")
	ErrUnavailable = errors.New("streamer: not available, try again later")
)

// errors.Is and errors.As also find these errors in the recorded errors of calls.
func init() {
	record.RegisterError("streamer.ErrNotFound", ErrNotFound)
	record.RegisterError("streamer.ErrConflict", ErrConflict)
	record.RegisterError("streamer.ErrInvalid", ErrInvalid)
	record.RegisterError("streamer.ErrTooMany", ErrTooMany)
	record.RegisterError("streamer.ErrUnavailable", ErrUnavailable)
	record.RegisterError("streamer.ErrUnauthenticated", ErrUnauthenticated)
	record.RegisterErrorType[*StatusError]("streamer.StatusError")
	record.RegisterErrorType[*ChallengeError]("streamer.ChallengeError")
}
