package record

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// recordJSON defines the names that a record's fields have on wires and in exports. Durations are
// numbers of seconds.
type recordJSON struct {
	RunID         string         `json:"run_id"`
	Seq           uint64         `json:"seq"`
	Generation    uint64         `json:"generation,omitempty"`
	Time          time.Time      `json:"time"`
	Address       string         `json:"address,omitempty"`
	Name          string         `json:"name,omitempty"`
	Tag           string         `json:"tag,omitempty"`
	Ordinal       int            `json:"ordinal,omitempty"`
	Kind          Kind           `json:"event_type"`
	Status        Status         `json:"execution_status"`
	Attempt       *int           `json:"retry_attempt,omitempty"`
	IsRetry       bool           `json:"is_retry,omitempty"`
	WillRetry     bool           `json:"will_retry,omitempty"`
	MaxAttempts   int            `json:"max_attempts,omitempty"`
	TotalAttempts int            `json:"total_attempts,omitempty"`
	OriginalError string         `json:"original_error,omitempty"`
	ErrorClass    string         `json:"error_class,omitempty"`
	Stage         string         `json:"stage,omitempty"`
	Reason        string         `json:"reason,omitempty"`
	RetryDelay    *float64       `json:"retry_delay,omitempty"`
	DelaySource   string         `json:"delay_source,omitempty"`
	NextAttemptAt *time.Time     `json:"next_attempt_at,omitempty"`
	ExecutionTime *float64       `json:"execution_time,omitempty"`
	TotalTime     *float64       `json:"total_time,omitempty"`
	InterruptedBy string         `json:"interrupted_by,omitempty"`
	AnsweredBy    string         `json:"answered_by,omitempty"`
	Message       string         `json:"message,omitempty"`
	Redacted      bool           `json:"redacted,omitempty"` // the message is not the original one
	Severity      string         `json:"severity,omitempty"`
	Branches      int            `json:"branches,omitempty"`
	Input         string         `json:"input,omitempty"`
	InputHash     string         `json:"input_hash,omitempty"`
	WholeInput    string         `json:"whole_input_hash,omitempty"`
	Detail        string         `json:"detail,omitempty"` // a preview of the output
	Artifact      string         `json:"artifact,omitempty"`
	NoStore       bool           `json:"no_store,omitempty"`
	Cached        bool           `json:"cached,omitempty"`
	Compensable   bool           `json:"compensable,omitempty"`
	Irreversible  bool           `json:"irreversible,omitempty"`
	Effect        *Effect        `json:"effect,omitempty"`
	SetInFork     bool           `json:"set_in_fork,omitempty"`
	Signal        string         `json:"signal,omitempty"`
	ToolCall      string         `json:"tool_call_id,omitempty"`
	InArtifacts   []string       `json:"input_artifacts,omitempty"`
	AfterReworded bool           `json:"after_reworded,omitempty"`
	NamedCalls    []Address      `json:"named_calls,omitempty"`
	Fork          *Fork          `json:"fork,omitempty"`
	Usage         *Usage         `json:"usage,omitempty"`
	Metadata      map[string]any `json:"metadata,omitempty"`
	Replayed      bool           `json:"replayed,omitempty"`

	Question string           `json:"question,omitempty"` // ID of the question that the call waits for
	Awaits   AwaitKind        `json:"awaits,omitempty"`
	DueAt    *time.Time       `json:"due_at,omitempty"` // when a question is answered by default, or a sleep ends
	Replaces *replacedJSON    `json:"replaces,omitempty"`
	Schema   json.RawMessage  `json:"schema,omitempty"`
	InDoubt  *callInDoubtJSON `json:"in_doubt,omitempty"`
}

// replacedJSON is the JSON form of a Replaced.
type replacedJSON struct {
	Seq      uint64 `json:"seq"`
	Status   Status `json:"execution_status"`
	Attempts int    `json:"attempts"`
}

// callInDoubtJSON is the JSON form of a CallInDoubt. It contains a preview of the input.
type callInDoubtJSON struct {
	Kind    Kind      `json:"event_type"`
	Name    string    `json:"name"`
	Attempt int       `json:"retry_attempt"`
	Starts  int       `json:"starts"`
	Began   time.Time `json:"began_at,omitzero"`
	Input   string    `json:"input,omitempty"`
	Effect  *Effect   `json:"effect,omitempty"`
	Key     string    `json:"idempotency_key,omitempty"`
	Cause   string    `json:"cause,omitempty"`
}

// MarshalJSON returns the call in the form that records have in transmission, with a preview of the
// call's input.
func (c *CallInDoubt) MarshalJSON() ([]byte, error) {
	return json.Marshal(c.json())
}

func (c *CallInDoubt) json() *callInDoubtJSON {
	return &callInDoubtJSON{c.Kind, c.Name, c.Attempt, c.Starts, c.Began, Preview(c.Input), c.Effect, c.IdempotencyKey, c.Cause}
}

func (in *callInDoubtJSON) call() *CallInDoubt {
	return &CallInDoubt{Kind: in.Kind, Name: in.Name, Attempt: in.Attempt, Starts: in.Starts, Began: in.Began, Effect: in.Effect, IdempotencyKey: in.Key, Cause: in.Cause}
}

// MarshalJSON returns the record with the names that consoles and dashboards
// use: run_id, seq, address, event_type, execution_status, retry_attempt, …
// Durations are seconds; inputs and outputs are previews.
func (r Record) MarshalJSON() ([]byte, error) {
	out := recordJSON{
		RunID: r.RunID, Seq: r.Seq, Generation: r.Generation, Ordinal: r.Ordinal, Time: r.Time, Address: r.Address.String(), Name: r.Name,
		Kind: r.Kind, Status: r.Status, WillRetry: r.WillRetry, Replayed: r.Replayed,
		Tag: r.Address.Tag(), Stage: r.Stage.String(), Reason: r.Reason.String(),
	}
	if r.Kind.IsCall() {
		r.callJSON(&out)
	}
	if r.Kind == KindRun && r.Elapsed > 0 {
		out.TotalTime = seconds(r.Elapsed)
	}
	if r.Err != nil {
		out.OriginalError, out.ErrorClass = fmt.Sprint(r.Err), r.Class.String()
		if r.Status == StatusStarted || r.Status == StatusAwaiting {
			out.ErrorClass = "" // the class belongs to the previous attempt, or to none: a suspended call has not failed
		}
	}
	if r.Detail != nil {
		r.Detail.intoJSON(&out)
		if r.Kind == KindLog {
			out.Severity = strings.ToLower(r.Detail.Severity.String())
		}
	}
	if e := r.Interrupt(); e != nil {
		e.intoJSON(&out)
	}
	out.Awaits = r.Awaits()
	if r.Kind == KindQuestion && r.Delay > 0 {
		at := r.Time.Add(r.Delay)
		out.DueAt = &at
	}
	data, err := marshalSafely(out)
	if err != nil {
		// Metadata comes from the user: the record must not be lost because of it.
		out.Metadata = map[string]any{"error": "metadata cannot be written as JSON: " + err.Error()}
		data, err = marshalSafely(out)
	}
	return data, err
}

// marshalSafely is like json.Marshal, but returns an error if a MarshalJSON method panics.
func marshalSafely(v any) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return json.Marshal(v)
}

func (e *InterruptedError) intoJSON(out *recordJSON) {
	out.Reason, out.InterruptedBy, out.Question = string(e.Reason), e.By, e.Question
	if out.Message == "" {
		out.Message = e.Message
	}
}

func (r *Record) callJSON(out *recordJSON) {
	out.Attempt, out.IsRetry, out.MaxAttempts = &r.Attempt, r.IsRetry(), r.MaxAttempts
	if at := r.NextAttemptAt(); !at.IsZero() {
		out.RetryDelay, out.NextAttemptAt, out.DelaySource = seconds(r.Delay), &at, r.DelaySource.String()
	}
	if r.Status == StatusStarted && r.Err != nil {
		out.RetryDelay = seconds(r.Delay)
	}
	if r.Status == StatusCompleted || r.Status == StatusFailed || r.Status == StatusInterrupted {
		out.ExecutionTime = seconds(r.Duration)
	}
	if r.IsOutcome() {
		out.TotalTime, out.TotalAttempts = seconds(r.Elapsed), r.TotalAttempts()
	}
}

// UnmarshalJSON parses what MarshalJSON returned. It ignores the preview of the input, from which
// the input cannot be restored.
func (c *CallInDoubt) UnmarshalJSON(data []byte) error {
	var in callInDoubtJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("record: read a call in doubt: %w", err)
	}
	*c = *in.call()
	return nil
}

func (d *Detail) intoJSON(out *recordJSON) {
	out.Message, out.Redacted, out.Metadata, out.Artifact, out.AnsweredBy = d.Message, d.Redacted, d.Metadata, d.Artifact, d.By
	out.NoStore, out.Branches, out.Cached, out.Compensable, out.Fork = d.NoStore, d.Branches, d.Cached, d.Compensable, d.Fork
	out.Irreversible, out.Effect, out.SetInFork, out.Signal, out.ToolCall, out.InArtifacts = d.Irreversible, d.Effect, d.SetInFork, d.Signal, d.ToolCall, d.InputArtifacts
	out.AfterReworded, out.NamedCalls = d.AfterReworded, d.NamedCalls
	if len(d.Schema) > 0 && json.Valid(d.Schema) { // a store may return anything
		out.Schema = d.Schema
	}
	if d.Replaces != nil {
		out.Replaces = (*replacedJSON)(d.Replaces)
	}
	if c := d.InDoubt; c != nil {
		out.InDoubt = c.json()
	}
	out.Input, out.Detail = Preview(d.Input), Preview(d.Output)
	if !d.InputHash.IsZero() {
		out.InputHash = d.InputHash.String()
	}
	if !d.WholeInput.IsZero() {
		out.WholeInput = d.WholeInput.String()
	}
	if u := d.Usage; !u.IsZero() {
		if math.IsNaN(u.Cost) || math.IsInf(u.Cost, 0) {
			u.Cost = 0 // JSON cannot represent it
		}
		out.Usage = &u
	}
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}
