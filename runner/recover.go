package runner

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/snapshot"
)

// canContinue reports whether a run that is not open can continue by itself.
func canContinue(info *snapshot.Info) bool {
	switch info.Status {
	case snapshot.StatusQueued, snapshot.StatusPaused:
		return true
	case snapshot.StatusInterrupted:
		return info.Stop.Reason.ContinuesByItself()
	}
	return false
}

// consider queues a run that continues on its own, unless the run is open in this process. If
// answered is set, a paused run is due at once. fresh means that the run has just been stored.
func (r *Runner) consider(ctx context.Context, info *snapshot.Info, answered, fresh bool) {
	if !canContinue(info) || !r.mayQueue(info) {
		return
	}
	e := entryOf(info)
	e.Fresh = fresh
	now, err := r.queue.Now(ctx)
	continues := err == nil
	if continues {
		e.Due, continues = continuesAt(info, answered, now)
	}
	switch {
	case !continues:
	case answered:
		err = r.queue.Wake(ctx, e)
	default:
		_, err = r.queue.Add(ctx, e)
	}
	if err != nil && ctx.Err() == nil { // the sweep will add the run
		r.observe(Notice{Type: NoticeTrouble, RunID: e.RunID, Program: e.Program.Name, Version: e.Program.Version, Status: info.Status, Err: err})
	}
}

func entryOf(info *snapshot.Info) QueueEntry {
	return QueueEntry{RunID: info.RunID, Program: ProgramID{info.Program, info.Version}, Priority: info.Priority}
}

// continuesAt returns when a run that is not open continues on its own, and whether it does so at
// all. If the clock was ahead when the run changed, and was then set back, the recorded times are
// in the future. They are then ignored: a run that waits for nothing is due now, and a parked run
// is due after the rest of its wait.
func continuesAt(info *snapshot.Info, answered bool, now time.Time) (time.Time, bool) {
	switch {
	case !canContinue(info):
		return time.Time{}, false
	case answered && info.Status == snapshot.StatusPaused:
		return now, true
	case info.Status == snapshot.StatusPaused && info.Updated.After(now) && info.Due.After(info.Updated):
		return now.Add(info.Due.Sub(info.Updated)), true
	case !info.Due.IsZero():
		return info.Due, true
	case info.Status == snapshot.StatusQueued:
		return earlier(info.Created, now), true
	}
	return earlier(info.Updated, now), info.Status != snapshot.StatusPaused // a paused run without a due time waits for an answer
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mayQueue reports whether this runner may queue a run. It may if the program of the run is
// registered, no process has the run open, and the run was not refused.
func (r *Runner) mayQueue(info *snapshot.Info) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programs[programKey{info.Program, info.Version}] == nil || info.Open || r.stopping || r.open[info.RunID] != nil || r.suspects.isWaiting(info.RunID) {
		return false
	}
	return !r.isRefused(info)
}

// A refusal is the state that a run had when it could not continue in this process.
type refusal struct {
	created, updated, due time.Time
	status                snapshot.Status
	generation            uint64
}

func refusalOf(info *snapshot.Info) refusal {
	return refusal{info.Created, info.Updated, info.Due, info.Status, info.Generation}
}

// isRefused reports whether a run could not continue here and has not changed since. If the run was
// only opened and closed, that does not count as a change: another process refused it, too. r.mu
// must be held.
func (r *Runner) isRefused(info *snapshot.Info) bool {
	at, ok := r.refused[info.RunID]
	switch {
	case !ok:
		return false
	case at.created.IsZero(): // the state of the run was not known when it was refused
		return true
	case !at.created.Equal(info.Created), !at.due.Equal(info.Due), at.status != info.Status:
		return false
	case at.generation < info.Generation:
		r.refused[info.RunID] = refusalOf(info)
		return true
	}
	return at.updated.Equal(info.Updated)
}

// sweep searches the store for runs to continue. It returns how long that took.
func (r *Runner) sweep(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	f := snapshot.Filter{Status: []snapshot.Status{
		snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusRunning,
	}}
	if r.heap == nil { // a shared queue already contains the runs that wait for a given time
		f.DueBy = r.queueTime(ctx, began)
	}
	page, err := r.store.List(ctx, f)
	if err != nil {
		return time.Since(began), err
	}
	for i := range page.Runs {
		info := &page.Runs[i]
		if r.isOurs(info) {
			answered := info.Status == snapshot.StatusPaused && r.hasAnswer(ctx, info)
			r.consider(ctx, info, answered, false)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.endings {
		if r.open[id] == nil {
			r.announce(id, snapshot.Info{}) // another process may have ended the run
		}
	}
	return time.Since(began), nil
}

// isOurs reports whether the run's program is registered and no process has the run open.
func (r *Runner) isOurs(info *snapshot.Info) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !info.Open && r.open[info.RunID] == nil && r.programs[programKey{info.Program, info.Version}] != nil
}

// sweepLoop sweeps until ctx ends. took is how long the last sweep took.
func (r *Runner) sweepLoop(ctx context.Context, took time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(max(r.options.SweepEvery, 20*took))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		var err error
		if took, err = r.sweep(ctx); err != nil {
			took = 0 // the time of a failed sweep does not count
			if ctx.Err() == nil {
				r.observe(Notice{Type: NoticeTrouble, Err: err})
			}
		}
	}
}

// inspect reads the current state of a run that was taken from the queue, and counts a crash if the
// run's process crashed. It reports whether the run continues.
func (r *Runner) inspect(ctx context.Context, o *openRun) (bool, error) {
	info, err := r.store.Info(ctx, o.runID)
	if err != nil || info.Open || !canContinue(&info) {
		return false, err
	}
	switch {
	case info.Status == snapshot.StatusPaused:
		return !r.isWaiting(ctx, &info), nil
	case info.Status != snapshot.StatusInterrupted:
		return true, nil
	case r.heap != nil && info.Due.After(time.Now()): // the run had been queued before Due was set
		return false, nil
	case info.Stop.Reason != record.InterruptCrash:
		return true, nil
	}
	if interrupted, err := r.isInterrupted(ctx, &info); err != nil || interrupted {
		return false, err
	}
	if r.takeOutage(&info) {
		return true, nil
	}
	return r.countCrash(ctx, o, info)
}

// isWaiting reports whether a paused run is not due and has no message. That happens if the run
// paused after it was listed by the sweep that queued it.
func (r *Runner) isWaiting(ctx context.Context, info *snapshot.Info) bool {
	now := time.Now()
	otherClock := r.heap == nil || info.Updated.Sub(now) > minJump // the queue's clock, or this machine's clock before it was set back
	if !info.Due.IsZero() && (otherClock || !info.Due.After(now)) {
		return false
	}
	return !r.hasAnswer(ctx, info)
}

// isInterrupted reports whether the run was asked to stop before its process ended. If so,
// isInterrupted records in the store that the run remains interrupted.
func (r *Runner) isInterrupted(ctx context.Context, info *snapshot.Info) (bool, error) {
	waiting, err := r.store.Messages(ctx, info.RunID)
	if err != nil {
		return false, err
	}
	for i := range waiting {
		m := &waiting[i]
		e := m.Record.Interrupt()
		if e == nil || m.IsCancel() || m.Generation != info.Generation {
			continue
		}
		_, err := r.store.Update(ctx, info.RunID, func(i *snapshot.Info) error {
			if i.Status != info.Status || i.Generation != info.Generation {
				return errCounted
			}
			i.Status, i.Due, i.Stop = snapshot.StatusInterrupted, time.Time{}, snapshot.Stop{Reason: record.InterruptUser, By: e.By, Message: e.Message}
			return nil
		})
		if errors.Is(err, errCounted) || errors.Is(err, snapshot.ErrLocked) { // another process continues the run
			return true, nil
		} else if err != nil {
			return false, err
		}
		return true, r.store.Remove(ctx, info.RunID, m.ID())
	}
	return false, nil
}

// errCounted is returned if another process handles the crash.
var errCounted = errors.New("another process continues it")
