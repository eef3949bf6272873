package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// FormatVersion is the version of the format that this package writes.
const FormatVersion = 1

// Status says how a run stands.
type Status string

// The statuses of a run.
const (
	StatusQueued      Status = "queued" // created, and not begun yet
	StatusRunning     Status = "running"
	StatusPaused      Status = "paused"      // goes on by itself when it is due, or waits for an answer
	StatusInterrupted Status = "interrupted" // stopped with calls that have no outcome
	StatusCompleted   Status = "completed"
	StatusFailed      Status = "failed"    // its last root call failed
	StatusCancelled   Status = "cancelled" // ended for good; nothing resumes it
)

var statuses = []Status{
	StatusQueued, StatusRunning, StatusPaused, StatusInterrupted, StatusCompleted, StatusFailed, StatusCancelled,
}

// Metadata describes a run.
type Metadata struct {
	Description string            `json:"description,omitempty"`
	Pipeline    string            `json:"pipeline,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Custom      map[string]string `json:"custom,omitempty"`
}

// Clone returns a copy that shares nothing with m.
func (m Metadata) Clone() Metadata {
	m.Tags, m.Custom = slices.Clone(m.Tags), maps.Clone(m.Custom)
	return m
}

// Info is what is known of a run without reading its records.
type Info struct {
	RunID    string   `json:"run_id"`
	ParentID string   `json:"parent_run_id,omitempty"` // the run that it was forked from
	Status   Status   `json:"status"`
	Stop     Stop     `json:"stop,omitzero"` // why a run is interrupted or cancelled
	Metadata Metadata `json:"metadata,omitzero"`

	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`          // when this changed last; records do not count
	Due     time.Time `json:"due_at,omitzero"`     // when a paused or queued run shall go on
	Expires time.Time `json:"expires_at,omitzero"` // when the run may be deleted

	Generation uint64 `json:"generation"` // how often it was opened for writing
	LastSeq    uint64 `json:"last_seq"`   // of its newest record

	Open  bool   `json:"open,omitempty"`  // somebody has it open for writing
	Owner string `json:"owner,omitempty"` // who opened it last

	Program  string `json:"program,omitempty"`         // that the run is of
	Version  string `json:"program_version,omitempty"` // of the program
	Priority int    `json:"priority,omitempty"`
	Restarts int    `json:"restarts,omitempty"` // after crashes
	Pinned   bool   `json:"pinned,omitempty"`   // retention keeps it

	Retry RetryLevels `json:"retry,omitempty"` // nil if it had none
}

// A Stop says why a run does not go on. The zero Stop says nothing.
type Stop struct {
	Reason  record.InterruptReason `json:"reason"`            // such as user, shutdown or crash
	By      string                 `json:"by,omitempty"`      // the person who asked for it; empty for Reprise itself
	Message string                 `json:"message,omitempty"` // in their words
}

// StopOf returns why an interrupt stops a run; nil stands for none.
func StopOf(e *record.InterruptedError) Stop {
	if e == nil {
		return Stop{}
	}
	return Stop{Reason: e.Reason, By: e.By, Message: e.Message}
}

// String is a text such as "shutdown" or "by ops: a new version".
func (s Stop) String() string {
	text := string(s.Reason)
	switch {
	case s.By != "" && (s.Reason == record.InterruptUser || s.Reason == record.InterruptCancel):
		text = "by " + s.By
	case s.By != "":
		text += " by " + s.By
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

// Clone returns a copy that shares nothing with i.
func (i Info) Clone() Info {
	i.Metadata, i.Retry = i.Metadata.Clone(), i.Retry.Clone()
	return i
}

// CheckUpdate says what is wrong with a change of an Info by Store.Update:
// ErrLocked for what may not change while the run is open.
func CheckUpdate(before, after Info) error {
	refuse := func(field string) error {
		return fmt.Errorf("snapshot: update run %s: %s cannot be changed", before.RunID, field)
	}
	switch {
	case after.RunID != before.RunID:
		return refuse("run_id")
	case after.ParentID != before.ParentID:
		return refuse("parent_run_id")
	case !after.Created.Equal(before.Created):
		return refuse("created_at")
	case after.Generation != before.Generation:
		return refuse("generation")
	case after.LastSeq != before.LastSeq:
		return refuse("last_seq")
	case after.Owner != before.Owner, after.Open != before.Open:
		return refuse("owner")
	case !maps.EqualFunc(after.Retry, before.Retry, RetryLevel.equal):
		return refuse("retry")
	}
	if err := after.check(); err != nil {
		return fmt.Errorf("snapshot: update run %s: %w", before.RunID, err)
	}
	owned := after.Status != before.Status || after.Stop != before.Stop || !after.Due.Equal(before.Due) || after.Program != before.Program ||
		after.Version != before.Version || after.Priority != before.Priority || after.Restarts != before.Restarts
	switch {
	case owned && before.Open:
		return &LockedError{RunID: before.RunID, Owner: before.Owner}
	case after.Status != before.Status && after.Status == StatusRunning:
		return fmt.Errorf("snapshot: update run %s: status running: only Open makes a run running", before.RunID)
	}
	return nil
}

// check says what no store can keep.
func (i *Info) check() error {
	if !slices.Contains(statuses, i.Status) {
		return fmt.Errorf("status %q; want one of %v", i.Status, statuses)
	}
	return i.checkTimes()
}

func (i *Info) checkTimes() error {
	for _, t := range []struct {
		name string
		time time.Time
	}{{"created_at", i.Created}, {"updated_at", i.Updated}, {"due_at", i.Due}, {"expires_at", i.Expires}} {
		if !storable(t.time) {
			return fmt.Errorf("%s: %w", t.name, errTime(t.time))
		}
	}
	return nil
}

// A Snapshot is a run with its records decoded, in sequence order, with the
// full history of retries.
type Snapshot struct {
	Info
	Records []record.Record
}

// infoPairs is the number of pairs that writeInfo writes.
const infoPairs = 18

// AppendInfo appends i as a msgpack map to dst, for stores that keep it apart
// from records. Open is not kept. It fails for times outside the years 1678 to
// 2261.
func AppendInfo(dst []byte, i *Info) ([]byte, error) {
	if err := i.checkTimes(); err != nil {
		return dst, fmt.Errorf("snapshot: run %s: %w", i.RunID, err)
	}
	w := codec.NewWriter(dst)
	w.Map(infoPairs)
	i.write(w)
	return w.Finish(), nil
}

// DecodeInfo reads what [AppendInfo] appended. Pairs that it does not know are
// skipped. Anything else is ErrCorrupt.
func DecodeInfo(data []byte) (Info, error) {
	in := codec.NewReader(data)
	defer in.Release()
	var i Info
	for key := range in.Pairs() {
		i.read(in, key)
	}
	switch {
	case in.Err() != nil:
		return Info{}, fmt.Errorf("%w: %w", ErrCorrupt, in.Err())
	case in.Len() > 0:
		return Info{}, fmt.Errorf("%w: byte %d: %d bytes after the info", ErrCorrupt, in.Offset(), in.Len())
	case i.RunID == "":
		return Info{}, fmt.Errorf("%w: %w", ErrCorrupt, errNoRunID)
	}
	return i, nil
}

var errNoRunID = errors.New("it names no run")

func (i *Info) write(w *codec.Writer) {
	w.Text("run_id")
	w.Text(i.RunID)
	w.Text("parent_run_id")
	w.Text(i.ParentID)
	w.Text("status")
	w.Text(string(i.Status))
	w.Text("stop")
	writeStop(w, i.Stop)
	w.Text("metadata")
	writeMetadata(w, &i.Metadata)
	w.Text("created_at")
	writeTime(w, i.Created)
	w.Text("updated_at")
	writeTime(w, i.Updated)
	w.Text("due_at")
	writeTime(w, i.Due)
	w.Text("expires_at")
	writeTime(w, i.Expires)
	w.Text("generation")
	w.Uint(i.Generation)
	w.Text("last_seq")
	w.Uint(i.LastSeq)
	w.Text("owner")
	w.Text(i.Owner)
	w.Text("program")
	w.Text(i.Program)
	w.Text("program_version")
	w.Text(i.Version)
	w.Text("priority")
	w.Int(int64(i.Priority))
	w.Text("restarts")
	w.Int(int64(i.Restarts))
	w.Text("pinned")
	w.Bool(i.Pinned)
	w.Text("retry")
	writeRetryLevels(w, i.Retry)
}

// read reads the value of a key. Keys that a later version has added are
// skipped.
func (i *Info) read(in *codec.Reader, key string) {
	switch key {
	case "run_id":
		i.RunID = in.Text()
	case "parent_run_id":
		i.ParentID = in.Text()
	case "status":
		i.Status = Status(in.Name())
	case "stop":
		i.Stop = readStop(in)
	case "metadata":
		i.Metadata = readRunMetadata(in)
	case "created_at":
		i.Created = readTime(in)
	case "updated_at":
		i.Updated = readTime(in)
	case "due_at":
		i.Due = readTime(in)
	case "expires_at":
		i.Expires = readTime(in)
	case "generation":
		i.Generation = in.Uint()
	case "last_seq":
		i.LastSeq = in.Uint()
	case "owner":
		i.Owner = in.Text()
	case "program":
		i.Program = in.Text()
	case "program_version":
		i.Version = in.Text()
	case "priority":
		i.Priority = int(in.Int())
	case "restarts":
		i.Restarts = int(in.Int())
	case "pinned":
		i.Pinned = in.Bool()
	case "retry":
		i.Retry = readRetryLevels(in)
	default:
		in.Skip()
	}
}

// writeStop writes no reason as nil.
func writeStop(w *codec.Writer, s Stop) {
	if s == (Stop{}) {
		w.Nil()
		return
	}
	w.Map(3)
	w.Text("reason")
	w.Text(string(s.Reason))
	w.Text("by")
	w.Text(s.By)
	w.Text("message")
	w.Text(s.Message)
}

func readStop(in *codec.Reader) (s Stop) {
	if in.Nil() {
		return s
	}
	for key := range in.Pairs() {
		switch key {
		case "reason":
			s.Reason = record.InterruptReason(in.Name())
		case "by":
			s.By = in.Text()
		case "message":
			s.Message = in.Text()
		default:
			in.Skip()
		}
	}
	return s
}

func writeMetadata(w *codec.Writer, m *Metadata) {
	w.Map(4)
	w.Text("description")
	w.Text(m.Description)
	w.Text("pipeline")
	w.Text(m.Pipeline)
	w.Text("tags")
	w.Array(len(m.Tags))
	for _, tag := range m.Tags {
		w.Text(tag)
	}
	w.Text("custom")
	w.Map(len(m.Custom))
	for _, key := range slices.Sorted(maps.Keys(m.Custom)) {
		w.Text(key)
		w.Text(m.Custom[key])
	}
}

func readRunMetadata(in *codec.Reader) (m Metadata) {
	for key := range in.Pairs() {
		switch key {
		case "description":
			m.Description = in.Text()
		case "pipeline":
			m.Pipeline = in.Text()
		case "tags":
			m.Tags = nil
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				m.Tags = append(m.Tags, in.Text())
			}
		case "custom":
			m.Custom = readCustom(in)
		default:
			in.Skip()
		}
	}
	return m
}

func readCustom(in *codec.Reader) map[string]string {
	n := in.Map()
	if n == 0 {
		return nil
	}
	m := make(map[string]string)
	for ; n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		m[key] = in.Text()
	}
	return m
}
