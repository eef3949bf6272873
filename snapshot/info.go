package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// FormatVersion is the version of the format that this package writes.
const FormatVersion = 1

// Status is the status of a run.
type Status string

// The statuses of a run.
const (
	StatusQueued      Status = "queued" // waits for a runner to open it, for the first time or again
	StatusRunning     Status = "running"
	StatusPaused      Status = "paused"      // continues by itself when it is due, or waits for an answer
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

// Info describes a run without its records.
type Info struct {
	RunID    string   `json:"run_id"`
	ParentID string   `json:"parent_run_id,omitempty"` // the run that it was forked from
	Status   Status   `json:"status"`
	Stop     Stop     `json:"stop,omitzero"` // why a run is interrupted or cancelled
	Metadata Metadata `json:"metadata,omitzero"`

	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`          // when the Info last changed; records do not count
	Due     time.Time `json:"due_at,omitzero"`     // when a paused or queued run continues
	Expires time.Time `json:"expires_at,omitzero"` // when the run may be deleted

	Generation uint64 `json:"generation"` // how often it was opened for writing
	LastSeq    uint64 `json:"last_seq"`   // of its newest record

	// Usage is what its calls had consumed when it was last closed, over all
	// generations.
	Usage record.Usage `json:"usage,omitzero"`

	Standing Standing `json:"standing,omitzero"` // when it was last closed

	Open  bool   `json:"open,omitempty"`  // a process has it open for writing; set by the store and not encoded
	Owner string `json:"owner,omitempty"` // who last opened it

	Program  string `json:"program,omitempty"`         // the name of the program of the run
	Version  string `json:"program_version,omitempty"` // of the program
	Priority int    `json:"priority,omitempty"`
	Restarts int    `json:"restarts,omitempty"` // after crashes
	Pinned   bool   `json:"pinned,omitempty"`   // retention keeps it

	// RetryTo asks that failures up to this record are tried again when the run is
	// opened. It does nothing once a later opening has recorded that it did. 0 for none.
	RetryTo uint64 `json:"retry_to,omitempty"`

	// RefusedBy is the build of the program that refused the run, because the run
	// cannot continue with it; empty for none.
	RefusedBy string `json:"refused_by,omitempty"`

	Retry RetryLevels `json:"retry,omitempty"` // nil if it had none
}

// A Stop is why a run does not continue. The zero Stop is no reason.
type Stop struct {
	Reason  record.InterruptReason `json:"reason"`            // such as user, shutdown or crash
	By      string                 `json:"by,omitempty"`      // the person who stopped it; empty for Reprise itself
	Message string                 `json:"message,omitempty"` // the reason that this person gave; for a divergence, what differs
}

// String returns a text such as "shutdown" or "by ops: a new version".
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
	i.Metadata, i.Retry, i.Standing = i.Metadata.Clone(), i.Retry.Clone(), i.Standing.Clone()
	return i
}

// Check returns an error if no store can keep i: its status is unknown, or a time
// is outside the years 1678 to 2261.
func (i *Info) Check() error {
	err := i.checkTimes()
	if !slices.Contains(statuses, i.Status) {
		err = fmt.Errorf("status %q; want one of %v", i.Status, statuses)
	}
	if err != nil {
		return fmt.Errorf("snapshot: run %s: %w", i.RunID, err)
	}
	return nil
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
