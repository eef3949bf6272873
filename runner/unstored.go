package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A run that is interrupted because the store did not accept its records continues later, and
// repeats the calls that have no outcome. If this happened to the same call each time, for example
// because its outcome is too large, the call's effect would be repeated forever. Therefore such
// openings are counted like crashes: the run waits longer each time, and is set aside after
// MaxRestarts of them.

// maxUnstoredWait is the longest time that a run waits to continue after its records could not be
// stored.
const maxUnstoredWait = 10 * time.Minute

// unstoredWait returns how long a run waits before it continues, given the number of times in a row
// that its records could not be stored.
func unstoredWait(times int) time.Duration {
	wait := offerAgainAfter
	for ; times > 1 && wait < maxUnstoredWait; times-- {
		wait *= 2
	}
	return min(wait, maxUnstoredWait)
}

// countUnstored counts an opening whose records could not be stored, and sets the time at which the
// run continues. It returns the run's new Info.
func (r *Runner) countUnstored(ctx context.Context, o *openRun, info snapshot.Info) snapshot.Info {
	run, err := r.store.Load(ctx, info.RunID)
	if err != nil {
		return info // the queue will hand out the run again
	}
	last, err := lastOpening(run, info.Generation)
	if err != nil {
		return info
	}
	times := info.Restarts + 1
	if last.progressed {
		times = 1
	}
	now, err := r.store.Update(ctx, info.RunID, func(i *snapshot.Info) error {
		if i.Status != info.Status || i.Stop != info.Stop || i.Generation != info.Generation {
			return errCounted
		}
		i.Restarts, i.Due = times, time.Now().UTC().Round(0).Add(unstoredWait(times))
		if times > r.options.MaxRestarts {
			i.Due = time.Time{}
			i.Stop = snapshot.Stop{
				Reason:  record.InterruptCrashLoop,
				Message: fmt.Sprintf("its records could not be stored %d times in a row: %s", times, o.whyStopped()),
			}
		}
		return nil
	})
	if err != nil {
		if !errors.Is(err, errCounted) && !errors.Is(err, snapshot.ErrLocked) {
			r.observe(o.notice(NoticeTrouble, info.Status, err))
		}
		return info
	}
	return now
}

// whyStopped returns the text of the error that stopped the run.
func (o *openRun) whyStopped() string {
	if o.stopped == nil {
		return "the store failed"
	}
	return o.stopped.Error()
}
