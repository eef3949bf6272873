package record

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// UnmarshalJSON parses what MarshalJSON returned. The result is not the whole record. Inputs and
// outputs are missing, since the JSON contains only their previews. An error has only its text and
// class, and an interrupt only its reason, message, author, and what it awaits.
func (r *Record) UnmarshalJSON(data []byte) error {
	var in recordJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("record: read a record: %w", err)
	}
	rec, err := in.record()
	if err != nil {
		return fmt.Errorf("record: read a record: %w", err)
	}
	*r = rec
	return nil
}

func (in *recordJSON) record() (r Record, err error) {
	if in.Kind == 0 || in.Status == 0 {
		return Record{}, errors.New("event_type and execution_status are required")
	}
	r = Record{
		RunID: in.RunID, Seq: in.Seq, Generation: in.Generation, Ordinal: in.Ordinal, Time: in.Time, Name: in.Name,
		Kind: in.Kind, Status: in.Status, WillRetry: in.WillRetry, Replayed: in.Replayed, MaxAttempts: in.MaxAttempts,
		Duration: duration(in.ExecutionTime), Elapsed: duration(in.TotalTime), Delay: duration(in.RetryDelay),
	}
	if in.Attempt != nil {
		r.Attempt = *in.Attempt
	}
	if in.Address != "" {
		if r.Address, err = ParseAddress(in.Address); err != nil {
			return Record{}, err
		}
	}
	suspended := in.Status == StatusInterrupted || in.Status == StatusAwaiting || in.Status == StatusCancelled
	if !suspended {
		if r.Reason, err = readName[Reason]("reason", in.Reason); err != nil {
			return Record{}, err
		}
	}
	if r.Stage, err = readName[Stage]("stage", in.Stage); err != nil {
		return Record{}, err
	}
	if r.Class, err = readName[Class]("error_class", in.ErrorClass); err != nil {
		return Record{}, err
	}
	if r.DelaySource, err = readName[Source]("delay_source", in.DelaySource); err != nil {
		return Record{}, err
	}
	switch {
	case suspended && in.Reason != "":
		r.Err = &InterruptedError{Reason: InterruptReason(in.Reason), By: in.InterruptedBy, Message: in.Message, Question: in.Question, Awaits: in.Awaits}
	case in.OriginalError != "" || in.ErrorClass != "":
		r.Err = &Error{Message: in.OriginalError, Class: r.Class}
	}
	if r.Detail, err = in.detail(); err == nil && in.Kind == KindQuestion && in.Awaits != 0 {
		if r.Detail == nil {
			r.Detail = new(Detail)
		}
		r.Detail.Awaits = in.Awaits
	}
	return r, err
}

// detail returns the record's detail, or nil if it has none.
func (in *recordJSON) detail() (*Detail, error) {
	d := Detail{Artifact: in.Artifact, Message: in.Message, Metadata: in.Metadata, NoStore: in.NoStore, Branches: in.Branches, Cached: in.Cached, Compensable: in.Compensable, Fork: in.Fork, By: in.AnsweredBy, Schema: in.Schema, Irreversible: in.Irreversible, Effect: in.Effect, SetInFork: in.SetInFork, Signal: in.Signal, ToolCall: in.ToolCall, InputArtifacts: in.InArtifacts, AfterReworded: in.AfterReworded, NamedCalls: in.NamedCalls}
	if c := in.InDoubt; c != nil {
		d.InDoubt = c.call()
	}
	if in.Replaces != nil {
		d.Replaces = (*Replaced)(in.Replaces)
	}
	if in.Usage != nil {
		d.Usage = *in.Usage
	}
	var err error
	if d.InputHash, err = readHash("input_hash", in.InputHash); err != nil {
		return nil, err
	}
	if d.WholeInput, err = readHash("whole_input_hash", in.WholeInput); err != nil {
		return nil, err
	}
	if in.Severity != "" {
		var level slog.Level
		if err := level.UnmarshalText([]byte(in.Severity)); err != nil {
			return nil, fmt.Errorf("severity %q: %w", in.Severity, err)
		}
		d.Severity = level
	}
	if d.Artifact == "" && d.Message == "" && d.Metadata == nil && !d.NoStore && d.Branches == 0 && !d.Cached && !d.Compensable && d.Fork == nil && d.By == "" && d.Schema == nil && d.InDoubt == nil && d.Replaces == nil && !d.Irreversible && d.Effect == nil && !d.SetInFork && d.Signal == "" && d.ToolCall == "" && d.InputArtifacts == nil && !d.AfterReworded && d.NamedCalls == nil &&
		d.Usage == (Usage{}) && d.InputHash.IsZero() && d.WholeInput.IsZero() && in.Severity == "" {
		return nil, nil
	}
	return &d, nil
}

func readHash(field, text string) (h Hash, err error) {
	if text == "" {
		return h, nil
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != len(h) {
		return h, fmt.Errorf("%s %q is not %d bytes in hexadecimal", field, text, len(h))
	}
	return Hash(sum), nil
}

// readName returns the value with the given name, or the zero value if the name is empty.
func readName[T interface {
	~uint8
	String() string
}](field, text string) (T, error) {
	for v := 0; v <= math.MaxUint8; v++ {
		if T(v).String() == text {
			return T(v), nil
		}
	}
	if text == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("%s %q is not known", field, text)
}

// duration returns the Duration that is nearest to the given number of seconds.
func duration(seconds *float64) time.Duration {
	if seconds == nil {
		return 0
	}
	ns := math.Round(*seconds * float64(time.Second))
	return time.Duration(max(math.MinInt64, min(ns, math.MaxInt64-512))) // the next float64 is above every Duration
}
