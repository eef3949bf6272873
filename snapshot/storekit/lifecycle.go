package storekit

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// NewInfo returns the info of a run that Open creates, before it passes the info to [OpenedInfo].
func NewInfo(runID string, o *snapshot.OpenOptions) snapshot.Info {
	now := time.Now().UTC().Round(0)
	return snapshot.Info{RunID: runID, Status: snapshot.StatusRunning, Metadata: o.Metadata.Clone(), Created: now, Updated: now}
}

// CreatedInfo returns the info with which Create stores a run. The error is that of Info.Check:
// no store could store the run.
func CreatedInfo(info snapshot.Info) (snapshot.Info, error) {
	info = info.Clone()
	now := time.Now().UTC().Round(0)
	if info.Created.IsZero() {
		info.Created = now
	}
	if info.Status == snapshot.StatusRunning {
		info, info.Updated = CrashedInfo(info), now
	}
	if info.Updated.Before(info.Created) || info.Updated.After(now) {
		info.Updated = now
	}
	info.Open, info.Owner = false, ""
	if err := info.Check(); err != nil {
		return snapshot.Info{}, err
	}
	return info, nil
}

// OpenedInfo takes the stored info of a run that is being opened. It returns the info that
// Journal.Restored must have, and the info to store now. No other process may have the run open, so a
// run with the status running has crashed. The error is that of o.Check or, for a new run, the reason
// why the run cannot be stored.
func OpenedInfo(found snapshot.Info, o *snapshot.OpenOptions) (restored, now snapshot.Info, err error) {
	now = found.Clone()
	isBegun := found.Generation == 0
	if found.Status == snapshot.StatusRunning && !isBegun {
		now = CrashedInfo(now)
	}
	if isBegun {
		if err := now.Check(); err != nil {
			return restored, now, err
		}
	}
	if o.Check != nil {
		if err := o.Check(now.Clone()); err != nil {
			return restored, now, err
		}
	}
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
	now.Status, now.Stop, now.Due, now.Updated, now.Open = snapshot.StatusRunning, snapshot.Stop{}, time.Time{}, TimeAfter(found.Updated), true
	return restored, now, nil
}

// CrashedInfo returns the info of a run that is running although no process has it open: its
// process ended without closing it. Load, Info, List and Update report this info; [OpenedInfo]
// calls CrashedInfo.
func CrashedInfo(info snapshot.Info) snapshot.Info {
	info.Status, info.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptCrash}
	return info
}

// ClosedInfo returns the info of a run after its journal was closed.
func ClosedInfo(info snapshot.Info, end snapshot.End) snapshot.Info {
	info.Status, info.Stop, info.Due, info.Usage, info.Open = end.Status, end.Stop, end.Due, end.Usage, false
	info.Summary = end.Summary.Clone()
	info.Updated = TimeAfter(info.Updated)
	return info
}

// UpdatedInfo returns the info of a run after Store.Update has called change. The error is that of
// change, or says which change is not allowed: it is ErrLocked for a field that must not change while
// the run is open.
func UpdatedInfo(before snapshot.Info, change func(*snapshot.Info) error) (snapshot.Info, error) {
	after := before.Clone()
	err := change(&after)
	if err == nil {
		err = checkUpdate(&before, &after)
	}
	if err != nil {
		return snapshot.Info{}, err
	}
	after.Updated = TimeAfter(before.Updated)
	return after, nil
}

func checkUpdate(before, after *snapshot.Info) error {
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
	case after.Usage != before.Usage:
		return refuse("usage")
	case !after.Summary.Equal(before.Summary):
		return refuse("summary")
	case !after.Retry.Equal(before.Retry):
		return refuse("retry")
	}
	if err := after.Check(); err != nil {
		return err
	}
	switch {
	case before.Open && OwnerFieldsDiffer(before, after):
		return &snapshot.LockedError{RunID: before.RunID, Owner: before.Owner}
	case after.Status != before.Status && after.Status == snapshot.StatusRunning:
		return fmt.Errorf("snapshot: update run %s: status running: only Open may set it", before.RunID)
	}
	return nil
}

// TimeAfter returns the current time, or a time just after t if the current time is not after t, so
// that every change is visible.
func TimeAfter(t time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.After(t) {
		return now
	}
	return t.Add(1)
}

// OwnerFieldsDiffer reports whether the infos differ in a field that only the owner of a run may change
// while it is open.
func OwnerFieldsDiffer(a, b *snapshot.Info) bool {
	return a.Status != b.Status || a.Stop != b.Stop || !a.Due.Equal(b.Due) || a.Program != b.Program || a.Version != b.Version ||
		a.Priority != b.Priority || a.Restarts != b.Restarts || a.RetryTo != b.RetryTo || a.RefusedBy != b.RefusedBy
}
