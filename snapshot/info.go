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
	StatusQueued      Status = "queued" // waits until a runner opens it, for the first time or again
	StatusRunning     Status = "running"
	StatusPaused      Status = "paused"      // waits for an answer, a signal or a time
	StatusInterrupted Status = "interrupted" // stopped before it had an outcome, or is about to continue after a fork or a retry
	StatusCompleted   Status = "completed"
	StatusFailed      Status = "failed"    // its last root call failed
	StatusCancelled   Status = "cancelled" // ended permanently; it cannot be resumed
)

// HasEnded reports whether a run with status s has completed, failed or been cancelled. A failed run
// continues if somebody retries it.
func (s Status) HasEnded() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

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

// Clone returns a deep copy of m.
func (m Metadata) Clone() Metadata {
	m.Tags, m.Custom = slices.Clone(m.Tags), maps.Clone(m.Custom)
	return m
}

// size returns the total length of all strings in m, in bytes.
func (m *Metadata) size() int {
	n := len(m.Description) + len(m.Pipeline)
	for _, tag := range m.Tags {
		n += len(tag)
	}
	for key, value := range m.Custom {
		n += len(key) + len(value)
	}
	return n
}

// Info describes a run without its records.
type Info struct {
	RunID    string   `json:"run_id"`
	ParentID string   `json:"parent_run_id,omitempty"` // the run from which this one was forked
	Status   Status   `json:"status"`
	Stop     Stop     `json:"stop,omitzero"` // why the run was interrupted or cancelled; set for a paused run if it was cancelled and a compensation waits
	Metadata Metadata `json:"metadata,omitzero"`

	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`          // when the Info last changed; appending records does not change it
	Due     time.Time `json:"due_at,omitzero"`     // when a paused or queued run continues
	Expires time.Time `json:"expires_at,omitzero"` // when a runner's retention may delete the run; set it with Store.Update

	Generation uint64 `json:"generation"` // how many times the run was opened for writing
	LastSeq    uint64 `json:"last_seq"`   // number of the latest record

	// Usage is the total usage of the run's calls over all generations, as of the last close.
	Usage record.Usage `json:"usage,omitzero"`

	Summary Summary `json:"summary,omitzero"` // the run's state as of the last close

	Open  bool   `json:"open,omitempty"`  // a process has the run open for writing; set by the store, not encoded
	Owner string `json:"owner,omitempty"` // OpenOptions.Owner of the last opening

	Program  string `json:"program,omitempty"`         // name of the run's program
	Version  string `json:"program_version,omitempty"` // version of the program
	Priority int    `json:"priority,omitempty"`
	Restarts int    `json:"restarts,omitempty"` // number of restarts after crashes
	Pinned   bool   `json:"pinned,omitempty"`   // retention does not delete the run

	// RetryTo, if not 0, requests that the next opening retry all failures up to the record with
	// this number. Once an opening has recorded such a retry, RetryTo has no effect.
	RetryTo uint64 `json:"retry_to,omitempty"`

	// RefusedBy is the build of the program that refused to continue the run. It is empty if no
	// program has refused.
	RefusedBy string `json:"refused_by,omitempty"`

	Retry RetryLevels `json:"retry,omitempty"` // nil if there are none
}

// A Stop specifies why a run was interrupted or cancelled. The zero Stop means that it was neither.
type Stop struct {
	Reason  record.InterruptReason `json:"reason"`            // such as user, shutdown or crash
	By      string                 `json:"by,omitempty"`      // who stopped the run; empty if Reprise itself did
	Message string                 `json:"message,omitempty"` // the explanation given; for a divergence, what differs
}

// String returns a string such as "shutdown" or "by ops: a new version".
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

// Clone returns a deep copy of i.
func (i Info) Clone() Info {
	i.Metadata, i.Retry, i.Summary = i.Metadata.Clone(), i.Retry.Clone(), i.Summary.Clone()
	return i
}

// maxInfo limits the total size of the strings in an Info. It is well below the limits that stores
// set for an encoded Info; package filestore reads up to 16 MiB.
const maxInfo = 8 << 20

// Check returns an error if stores cannot store i: if its status is unknown, a time is outside the
// years 1678 to 2261, or the strings in Metadata and Stop exceed 8 MiB in total.
func (i *Info) Check() error {
	err := i.checkTimes()
	if n := i.Metadata.size() + len(i.Stop.By) + len(i.Stop.Message); n > maxInfo {
		err = fmt.Errorf("the texts in the metadata and in the stop reason have %d bytes; want at most %d", n, maxInfo)
	}
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
		if !isStorable(t.time) {
			return fmt.Errorf("%s: %w", t.name, errTime(t.time))
		}
	}
	return nil
}

// A Snapshot is a run with all its records decoded. The records are in sequence order and
// include all retries.
type Snapshot struct {
	Info
	Records []record.Record
}
