package snapshot

import (
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
)

// FormatVersion is the version of the format that this package writes. It
// reads this one and every released one before it.
const FormatVersion = 1

// Status says how a run stands.
type Status string

// The statuses of a run.
const (
	StatusRunning     Status = "running"
	StatusPaused      Status = "paused"      // it waits for an answer
	StatusInterrupted Status = "interrupted" // it stopped with calls that have no outcome
	StatusCompleted   Status = "completed"
	StatusFailed      Status = "failed" // its last root call, or a branch of its last root group, failed
)

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
	RunID      string    `json:"run_id"`
	ParentID   string    `json:"parent_run_id,omitempty"` // the run that it was forked from
	Status     Status    `json:"status"`
	Metadata   Metadata  `json:"metadata,omitzero"`
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"`
	Generation uint64    `json:"generation"` // how often it was opened for writing
	LastSeq    uint64    `json:"last_seq"`   // of its newest record

	Retry RetryLevels `json:"retry,omitempty"` // nil if it had none
}

// A Snapshot is a run as it is stored: what is known of it, and its records in
// sequence order, with the full history of retries.
type Snapshot struct {
	Info
	Records []core.Record
}

// Filter picks runs. The zero Filter picks all.
type Filter struct {
	Status   []Status  // any of these
	Tags     []string  // all of these
	Pipeline string    // this one
	Since    time.Time // updated then or later
	Until    time.Time // updated before
	Limit    int       // at most so many, 0 for all
}

// Matches reports whether the filter picks a run. It does not count.
func (f Filter) Matches(i *Info) bool {
	switch {
	case len(f.Status) > 0 && !slices.Contains(f.Status, i.Status):
		return false
	case f.Pipeline != "" && f.Pipeline != i.Metadata.Pipeline:
		return false
	case !f.Since.IsZero() && i.Updated.Before(f.Since):
		return false
	case !f.Until.IsZero() && !i.Updated.Before(f.Until):
		return false
	}
	for _, tag := range f.Tags {
		if !slices.Contains(i.Metadata.Tags, tag) {
			return false
		}
	}
	return true
}
