package snapshot

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// How an Info changes in the life of a run, for the authors of stores.

// Begun is what is known of a run that Open begins, before it is opened.
func Begun(runID string, o *OpenOptions) Info {
	now := time.Now().UTC().Round(0)
	return Info{RunID: runID, Status: StatusRunning, Metadata: o.Metadata.Clone(), Created: now, Updated: now}
}

// Created is what is known of a run that Create stores, given what it was
// called with. It fails for what no store can keep.
func Created(info Info) (Info, error) {
	info = info.Clone()
	if info.Status == StatusRunning {
		info = Crashed(info)
	}
	now := time.Now().UTC().Round(0)
	if info.Created.IsZero() {
		info.Created = now
	}
	info.Updated, info.Open, info.Owner = now, false, ""
	if err := info.check(); err != nil {
		return Info{}, fmt.Errorf("snapshot: create run %s: %w", info.RunID, err)
	}
	return info, nil
}

// Opened returns what Restored says of a run that was found and is opened now,
// and what is known of it from now on.
func Opened(found Info, o *OpenOptions) (restored, now Info) {
	now = found.Clone()
	switch {
	case o.Retry == nil:
	case len(o.Retry) == 0:
		now.Retry = nil
	default:
		now.Retry = o.Retry.Clone()
	}
	now.Generation++
	now.Owner = o.Owner
	restored = now.Clone()
	now.Status, now.Stop, now.Due, now.Updated, now.Open = StatusRunning, Stop{}, time.Time{}, Later(found.Updated), true
	return restored, now
}

// Crashed is what is known of a run that is running although nobody has it
// open: its process ended without closing it.
func Crashed(info Info) Info {
	info.Status, info.Stop = StatusInterrupted, Stop{Reason: record.InterruptCrash}
	return info
}

// Closed is what is known of a run after its journal was closed.
func Closed(info Info, end End) Info {
	info.Status, info.Stop, info.Due, info.Usage, info.Open = end.Status, end.Stop, end.Due, end.Usage, false
	info.Updated = Later(info.Updated)
	return info
}

// Later is now, or just after t if the clock has not moved on: a change shows.
func Later(t time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.After(t) {
		return now
	}
	return t.Add(1)
}
