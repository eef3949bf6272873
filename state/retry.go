package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Errors returned by [Retry] and [Resume]. Test for them with errors.Is.
var (
	// ErrNotFailed is wrapped by the error from [Retry] if the run has not failed.
	ErrNotFailed = errors.New("only a run that has failed can be retried")

	// ErrNotInterrupted is wrapped by the error from [Resume] if the run has ended. For a run that is
	// queued, running or paused, Resume returns nil.
	ErrNotInterrupted = errors.New("only a run that was interrupted can be resumed")

	// ErrNoProgram is wrapped by the error from [Resume] if the run was not started by a runner,
	// because no runner continues such a run.
	ErrNoProgram = errors.New("no runner has started the run: the program that opened it must open it again")
)

// Retry makes a stored run that failed continue under its own ID, from any process. Calls that
// failed for good are tried again with all their attempts. As with [WithRerunFailed], calls that
// completed stay restored and keep their idempotency keys. A call that was compensated is made
// again with a new key. A call whose compensation failed still has its effect and stays restored;
// if the run fails again or is cancelled, the compensation is tried again with all its attempts.
//
// A failure that the program has handled remains: the call is not made again, because something
// else may have taken its place. The program has handled the failure
//   - of a call, if the same handler made another call or asked a question afterwards. This does not
//     count if the handler then returned an error that wraps the failure or contains its text;
//   - of a tool call that a model requested, if the model was called again;
//   - of a call inside a call that completed, for example of a branch of a group that completed;
//   - of a call outside any agent, if another call was made after it outside any agent.
//
// To make such a call again, [Fork] the run at it.
//
// Calling Retry again before the run is opened is allowed, and changes nothing.
//
// A call that failed in doubt (core.ErrInDoubt) is tried again like any other, even if its
// core.InDoubtPolicy forbids repetition: if the call took effect before, it may do so again. If the
// call has a LookUp, LookUp is asked first; otherwise a warning is recorded. The same applies to a
// compensation that failed in doubt. Before you retry a run, find out what such calls did. To
// continue with what you found, [Fork] the run and set the outputs of these calls.
//
// If a runner started the run, its status becomes queued, and a runner that has its program opens
// it. Any other run has the status interrupted, with the reason [record.InterruptRetry], until its
// program opens it with [Open], which needs no special option.
//
// If the run has not failed, the error is [ErrNotFailed], and nothing is written. If the run has
// ended, the error also wraps [ErrEnded] or [ErrCancelled].
func Retry(ctx context.Context, store snapshot.Store, runID string) (snapshot.Info, error) {
	if err := checkStore(store); err != nil {
		return snapshot.Info{}, err
	}
	info, err := updateIfChanged(ctx, store, runID, func(i *snapshot.Info) error {
		switch {
		case isRetryAsked(i):
			return errUnchanged // Retry was already called
		case i.Status == snapshot.StatusInterrupted && i.Program == "":
			return fmt.Errorf("%w; the run is interrupted (%s); it will continue when its program opens it", ErrNotFailed, i.Stop)
		case i.Status == snapshot.StatusInterrupted:
			return fmt.Errorf("%w; it is interrupted (%s): resume it", ErrNotFailed, i.Stop)
		case i.Status != snapshot.StatusFailed:
			return alsoEnded(fmt.Errorf("%w; it is %s", ErrNotFailed, i.Status), i)
		}
		queue(i)
		if i.RetryTo = i.LastSeq; i.Program == "" {
			i.Status, i.Stop = snapshot.StatusInterrupted, retryStop
		}
		return nil
	})
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("state: retry run %s: %w", runID, err)
	}
	return info, nil
}

// retryStop explains why a run that was not started by a runner does not continue by itself after
// Retry.
var retryStop = snapshot.Stop{Reason: record.InterruptRetry, Message: "its program tries the failed calls again when it opens the run"}

// isRetryAsked reports whether Retry was called and the run has recorded nothing since then.
func isRetryAsked(i *snapshot.Info) bool {
	switch i.Status {
	case snapshot.StatusQueued:
		return i.RetryTo > 0 && i.RetryTo == i.LastSeq
	case snapshot.StatusInterrupted:
		return i.Stop.Reason == record.InterruptRetry
	}
	return false
}

// Resume makes a stored run that was interrupted continue, from any process: its status becomes
// queued, and a runner that has its program opens it. Losses are counted from zero again. A run
// that is queued, running or waiting is not changed.
//
// If the run has ended, the error is [ErrNotInterrupted], and also wraps [ErrEnded] or
// [ErrCancelled]. If the run was not started by a runner, the error is [ErrNoProgram]. If the run
// was asked to stop (see [Stopping]) and its process has not closed it yet, the error is
// snapshot.ErrLocked. In all these cases, nothing is written.
func Resume(ctx context.Context, store snapshot.Store, runID string) (snapshot.Info, error) {
	if err := checkStore(store); err != nil {
		return snapshot.Info{}, err
	}
	info, err := updateIfChanged(ctx, store, runID, func(i *snapshot.Info) error {
		switch {
		case i.Open && i.Status == snapshot.StatusInterrupted: // a process is closing, opening or changing it
			return snapshot.ErrLocked
		case i.Open || i.Status == snapshot.StatusPaused:
			return errUnchanged
		case i.Status == snapshot.StatusQueued:
			return nil // written anyway: a runner that could not open the run tries again
		case i.Status == snapshot.StatusFailed:
			return alsoEnded(fmt.Errorf("%w; it has failed; retry it instead", ErrNotInterrupted), i)
		case i.Status != snapshot.StatusInterrupted:
			return alsoEnded(fmt.Errorf("%w; it is %s", ErrNotInterrupted, i.Status), i)
		case i.Program == "":
			return ErrNoProgram
		}
		queue(i)
		return nil
	})
	if err == nil {
		err = refuseStopping(ctx, store, &info)
	}
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("state: resume run %s: %w", runID, err)
	}
	return info, nil
}

// refuseStopping returns an error for a run that was asked to stop but has not stopped yet. Such a
// run is still running, so Resume would not change it, and yet it is about to stop.
func refuseStopping(ctx context.Context, store snapshot.Store, info *snapshot.Info) error {
	if !info.Open {
		return nil
	}
	asked, err := Stopping(ctx, store, info)
	if err == nil && asked != nil {
		err = fmt.Errorf("%w: it was asked to stop, and has not stopped yet", snapshot.ErrLocked)
	}
	return err
}

// errUnchanged is returned by a change function that has nothing to write. It keeps the store from
// updating the run's time.
var errUnchanged = errors.New("the run does not change")

// updateIfChanged is like the store's Update method, but if change returns errUnchanged, it writes
// nothing and returns the unchanged Info.
func updateIfChanged(ctx context.Context, store snapshot.Store, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	var found snapshot.Info
	info, err := store.Update(ctx, runID, func(i *snapshot.Info) error {
		found = i.Clone()
		return change(i)
	})
	if errors.Is(err, errUnchanged) {
		return found, nil
	}
	return info, err
}

// queue makes a closed run continue at once.
func queue(i *snapshot.Info) {
	i.Status, i.Due, i.Stop, i.Restarts, i.RefusedBy = snapshot.StatusQueued, time.Time{}, snapshot.Stop{}, 0, ""
}
