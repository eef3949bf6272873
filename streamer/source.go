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

// A Source provides runs that are not, or no longer, in the memory of a [Handler]. It must be safe
// for concurrent use. When a record is published to the handler, the source must already contain
// it, as a store does.
type Source interface {
	// List returns a page of the runs that a query selects, without reading their records. If the
	// query is not valid, the error is ErrInvalid.
	List(ctx context.Context, q Query) (RunPage, error)

	// Run returns the RunInfo of one run, including RunInfo.Stopping. If the run does not exist,
	// the error is ErrNotFound.
	Run(ctx context.Context, runID string) (RunInfo, error)

	// Records yields the records of a run with numbers above after, in order. It ends
	// after the first error.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Artifact returns the data of an artifact that a record refers to. If the artifact does not
	// exist, the error is ErrNotFound.
	Artifact(ctx context.Context, reference string) ([]byte, error)

	// Answered returns the IDs of those questions of a run that have an answer in the store. The
	// run takes these answers when it is next opened.
	Answered(ctx context.Context, runID string) ([]string, error)
}

// RunInfo contains what is known about a run without reading its records.
type RunInfo struct {
	RunID       string    `json:"run_id"`
	ParentID    string    `json:"parent_run_id,omitempty"` // the run from which this run was forked
	CalledBy    string    `json:"called_by,omitempty"`     // the run that started this run and waits for it
	Status      string    `json:"status"`                  // queued, running, paused, interrupted, completed, failed or cancelled
	Stop        *Stop     `json:"stop,omitempty"`          // why the run is interrupted or cancelled; set for a paused run if it was cancelled and a compensation waits
	Stopping    *Stop     `json:"stopping,omitempty"`      // the stop that somebody has requested but that is not complete; its reason is user or cancel
	Description string    `json:"description,omitempty"`
	Pipeline    string    `json:"pipeline,omitempty"`
	Tags        []string  `json:"tags,omitempty"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
	Due         time.Time `json:"due_at,omitzero"` // when the run begins, or continues by itself
	Program     string    `json:"program,omitempty"`
	Version     string    `json:"program_version,omitempty"`
	Worker      string    `json:"worker,omitempty"` // who last opened the run
	LastSeq     uint64    `json:"last_seq"`         // number of its newest known record

	// Usage is what the run had consumed when it was last closed. A RunState reports this usage if
	// not all of the run's records were read.
	Usage record.Usage `json:"-"`

	// The fields below describe the run when it was last closed. Asking is the number of open
	// questions, and Questions contains the first of them, without the schemas of their answers.
	Calls, Failed, Retries, Asking int             `json:"-"`
	Questions                      []QuestionState `json:"-"`
	LastError                      *CallError      `json:"-"`
}

// isCancelled reports whether the run was cancelled but has not ended, because its calls must still
// stop or be compensated.
func (i *RunInfo) isCancelled() bool {
	isCancel := func(s *Stop) bool { return s != nil && s.Reason == string(record.InterruptCancel) }
	return isCancel(i.Stopping) || isCancel(i.Stop) && i.Status != statusCancelled
}

// A Stop describes why a run stopped or was asked to stop.
type Stop struct {
	Reason  string `json:"reason"`            // such as user, shutdown or crash
	By      string `json:"by,omitempty"`      // the person who asked for the stop; empty for Reprise itself
	Message string `json:"message,omitempty"` // the person's explanation; for a divergence, what differs
}

// A redactedSource redacts the texts that a source returns.
type redactedSource struct {
	Source
	redact redact.Redaction
}

// List searches the original texts and redacts the runs that it returns. A client can therefore
// find out which runs contain a secret by searching for it.
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

// redacted redacts the texts in info: the description, the messages of stops, the last error and the
// questions.
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

// A Control carries out requests that change a run. It must be safe for concurrent use. Its methods
// return ErrNotFound if the run or the question does not exist, ErrConflict if the request is not
// possible now, and ErrInvalid if the value is not a valid answer. ErrConflict and ErrInvalid are
// wrapped in an error with a text for the user.
type Control interface {
	// Interrupt asks the process that has the run open to stop it. stop.By is the principal of the
	// request's Access or, if there is no principal, the name in the request or "dashboard".
	Interrupt(ctx context.Context, runID string, stop Stop) error

	// Cancel ends the run for good, whether or not a process has it open. stop.By is chosen as
	// for Interrupt.
	Cancel(ctx context.Context, runID string, stop Stop) error

	// Answer answers a question of the run. by is chosen as for Interrupt. The value is encoded as
	// JSON.
	Answer(ctx context.Context, runID, questionID, by string, value json.RawMessage) error

	// Signal sends a signal to the run. s.By is chosen as for Interrupt. If too many signals are
	// waiting, the error is ErrTooMany.
	Signal(ctx context.Context, runID string, s Signal) error
}

// A Signal tells a run about something that has happened outside it; see core.Receive.
type Signal struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	ID    string          `json:"id,omitempty"` // the same if the signal is sent again
	By    string          `json:"by,omitempty"` // who sends it
}

// Errors that a [Source], a [Control] and similar interfaces return, for use with errors.Is.
var (
	ErrNotFound = errors.New("streamer: not found")
	ErrConflict = errors.New("streamer: not possible now")
	ErrInvalid  = errors.New("streamer: not valid")

	ErrTooMany     = errors.New("streamer: too many, try again later")
	ErrUnavailable = errors.New("streamer: not available, try again later")
)

// errors.Is and errors.As also match these errors after they were recorded by a call.
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
