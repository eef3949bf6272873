package storekit

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// NewInfo returns the info for a run that Open creates. Open then passes it to [OpenedInfo].
func NewInfo(runID string, o *snapshot.OpenOptions) snapshot.Info {
	now := time.Now().UTC().Round(0)
	return snapshot.Info{RunID: runID, Status: snapshot.StatusRunning, Metadata: o.Metadata.Clone(), Created: now, Updated: now}
}

// CreatedInfo returns the info that Create stores for a run. The error is the one from Info.Check.
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

// OpenedInfo returns two infos for a run that is being opened: restored is the info that
// Journal.Restored must return, and now is the info to store. The parameter found is the stored
// info or, for a new run, the result of [NewInfo]. The caller has made sure that no process has the
// run open. So if the stored status is running, the process that had the run open has crashed.
// OpenedInfo returns the error from o.Check or, for a new run, from Info.Check.
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

// CrashedInfo returns the info, with the status interrupted, for a run whose process has ended
// without closing the run. Call it if the stored status is running but no process has the run open.
// Load, Info, List and Update must report this info; [OpenedInfo] calls CrashedInfo itself.
func CrashedInfo(info snapshot.Info) snapshot.Info {
	info.Status, info.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptCrash}
	return info
}

// ClosedInfo returns the info to store when a run's journal is closed.
func ClosedInfo(info snapshot.Info, end snapshot.End) snapshot.Info {
	info.Status, info.Stop, info.Due, info.Usage, info.Open = end.Status, end.Stop, end.Due, end.Usage, false
	info.Summary = end.Summary.Clone()
	info.Updated = TimeAfter(info.Updated)
	return info
}

// UpdatedInfo calls change for Store.Update and returns the changed info. If change returns an
// error, UpdatedInfo returns it. If change has changed a field that must never change, the error
// names the field. If it has changed a field that must not change while the run is open, the error
// is ErrLocked.
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
		return fmt.Errorf("snapshot: update run %s: only Open may set the status running", before.RunID)
	}
	return nil
}

// TimeAfter returns the current time. If that is not after t, it returns a time just after t, so
// that every change of an info changes its Updated.
func TimeAfter(t time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.After(t) {
		return now
	}
	return t.Add(1)
}

// OwnerFieldsDiffer reports whether the infos differ in a field that only the process that has the
// run open may change while the run is open.
func OwnerFieldsDiffer(a, b *snapshot.Info) bool {
	return a.Status != b.Status || a.Stop != b.Stop || !a.Due.Equal(b.Due) || a.Program != b.Program || a.Version != b.Version ||
		a.Priority != b.Priority || a.Restarts != b.Restarts || a.RetryTo != b.RetryTo || a.RefusedBy != b.RefusedBy
}
