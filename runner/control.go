package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Interrupt stops a run. The run keeps its records, and does not continue until it is resumed. stop
// says who interrupts the run, and why. A waiting run is stopped at once. A run that another
// process has open is stopped by that process. A run that this process has open is stopped even if
// the store cannot be reached, but in that case the request is lost if the process ends first. If
// the run has ended or is already interrupted, the error is state.ErrNotRunning; see
// [state.Interrupt].
func (r *Runner) Interrupt(ctx context.Context, runID string, stop snapshot.Stop) error {
	stop.Reason = record.InterruptUser
	st, err := r.stateOf(ctx, runID)
	if err != nil {
		return fmt.Errorf("runner: interrupt run %s: %w", runID, err)
	}
	if st != nil {
		err := r.post(ctx, runID, stop, state.Interrupt)
		if st.Interrupt(stop) || err == nil {
			return nil
		}
	}
	return r.whileChanging(ctx, runID, func() (bool, error) { return r.interruptStored(ctx, runID, stop) })
}

// post asks a run that this process has open to stop. It does so through the store, as other
// processes do, so that all processes can see the request (see [state.Stopping]), and the run stops
// even if this process is killed first. The caller also stops the run directly, which needs no
// store.
func (r *Runner) post(ctx context.Context, runID string, stop snapshot.Stop, ask func(context.Context, snapshot.Store, string, snapshot.Stop) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return ask(ctx, r.store, runID, stop)
}

// changeTime is the longest time that opening or closing a run is expected to take. It is also the
// longest time that post waits for the store, and how long a request may continue after its context
// has ended.
const changeTime = 2 * time.Second

// outlast returns a context that ends changeTime after ctx, or ctx itself if it has already ended.
// A request whose client leaves while the request is being stored is then completed, and its run
// does not wait for the next sweep.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(changeTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(ctx))
		case <-lasting.Done():
		}
	})
	return lasting, func() { stop(); cancel(nil) }
}

// whileChanging performs an operation that depends on whether a run is open. It repeats the
// operation as long as another process is opening or closing the run.
func (r *Runner) whileChanging(ctx context.Context, runID string, try func() (changing bool, err error)) error {
	changing, err := try()
	if !changing {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	for _, failed := range r.store.Watch(waiting, snapshot.WatchOptions{RunID: runID}) {
		if failed != nil {
			break
		}
		if changing, err = try(); !changing {
			break
		}
	}
	return err
}

// interruptStored interrupts a run that is not open in this process. It reports whether another
// process is currently opening or closing the run. In that case, the run can be interrupted
// afterwards, and the error explains why it cannot be interrupted now.
func (r *Runner) interruptStored(ctx context.Context, runID string, stop snapshot.Stop) (changing bool, err error) {
	_, err = r.store.Update(ctx, runID, func(i *snapshot.Info) error {
		if i.Open {
			return snapshot.ErrLocked
		} else if !canContinue(i) || i.Stop.Reason == record.InterruptCancel {
			return errNotDue
		}
		i.Status, i.Due, i.Stop = snapshot.StatusInterrupted, time.Time{}, stop
		return nil
	})
	switch {
	case errors.Is(err, snapshot.ErrLocked):
		err = state.Interrupt(ctx, r.store, runID, stop)
		return errors.Is(err, state.ErrNotRunning), err
	case errors.Is(err, errNotDue):
		return false, state.Interrupt(ctx, r.store, runID, stop) // the error explains why not
	case err != nil:
		return false, fmt.Errorf("runner: interrupt run %s: %w", runID, err)
	}
	r.drop(runID)
	return false, nil
}

// Cancel ends a run for good; see state.Cancel. A run that this process has open is cancelled even
// if the store cannot be reached, but then the request is lost if the process ends first.
func (r *Runner) Cancel(ctx context.Context, runID string, stop snapshot.Stop) error {
	st, err := r.stateOf(ctx, runID)
	if err != nil {
		return fmt.Errorf("runner: cancel run %s: %w", runID, err)
	}
	if st != nil {
		_ = r.post(ctx, runID, stop, state.Cancel)
		if st.Cancel(stop) {
			return nil
		}
	}
	ctx, cancel := outlast(ctx)
	defer cancel()
	if err := state.Cancel(ctx, r.store, runID, stop); err != nil {
		return err
	}
	r.drop(runID)
	if info, err := r.store.Info(ctx, runID); err == nil { // otherwise, the sweep finds the run
		r.consider(ctx, &info, r.hasAnswer(ctx, &info), false) // in case calls must be compensated
	}
	return nil
}

// Answer answers the question of a run whose ID is questionID; see state.Answer. by says who
// answers, and may be empty. If the run is waiting for the answer, it continues. If the run is not
// open and was not started by a runner, the error is state.ErrNoProgram, and the question remains
// open.
func (r *Runner) Answer(ctx context.Context, runID, questionID, by string, value any) error {
	ctx, cancel := outlast(ctx)
	defer cancel()
	if info, err := r.store.Info(ctx, runID); err == nil && info.Program == "" && !info.Open && info.Status == snapshot.StatusPaused {
		return fmt.Errorf("runner: answer a question of run %s: %w; then answer with state.Answer", runID, state.ErrNoProgram)
	}
	if err := state.Answer(ctx, r.store, runID, questionID, by, value); err != nil {
		return err
	}
	r.continueAnswered(ctx, runID)
	return nil
}

// Signal sends a signal to a run; see [state.Signal]. If the run is waiting for the signal, it
// continues.
func (r *Runner) Signal(ctx context.Context, runID, name string, value any, o state.SignalOptions) error {
	ctx, cancel := outlast(ctx)
	defer cancel()
	if err := state.Signal(ctx, r.store, runID, name, value, o); err != nil {
		return err
	}
	r.continueAnswered(ctx, runID)
	return nil
}

// continueAnswered continues a run that has received an answer, or a signal that it was waiting
// for.
func (r *Runner) continueAnswered(ctx context.Context, runID string) {
	r.mu.Lock()
	o := r.open[runID]
	if o != nil {
		o.newAnswer = true
	}
	r.mu.Unlock()
	if o != nil {
		return
	}
	info, err := r.store.Info(ctx, runID)
	if err != nil || info.Status != snapshot.StatusPaused {
		return // the sweep will find the run
	}
	r.consider(ctx, &info, r.hasAnswer(ctx, &info), false)
}

// Questions returns the open questions of a run.
func (r *Runner) Questions(ctx context.Context, runID string) ([]core.Question, error) {
	return state.Questions(ctx, r.store, runID)
}

// Resume continues a run that was interrupted for any reason, or was set aside after crashes. The
// run's crashes are then counted from zero again. The run is queued; if it is still stopping, it is
// queued once it has stopped. For the errors, see [state.Resume].
func (r *Runner) Resume(ctx context.Context, runID string) error {
	if err := r.awaitStop(ctx, runID); err != nil {
		return fmt.Errorf("runner: resume run %s: %w", runID, err)
	}
	return r.whileChanging(ctx, runID, func() (bool, error) {
		ctx, cancel := outlast(ctx)
		defer cancel()
		info, err := state.Resume(ctx, r.store, runID)
		if err == nil {
			r.requeue(ctx, &info)
		}
		return errors.Is(err, snapshot.ErrLocked), err
	})
}

// Retry makes a run that has failed continue under the same ID. Calls that failed for good are
// tried again, and calls that completed remain restored. If a runner started the run, it is queued.
// See [state.Retry], which also describes what happens to calls that failed in doubt.
func (r *Runner) Retry(ctx context.Context, runID string) error {
	return r.whileChanging(ctx, runID, func() (bool, error) {
		ctx, cancel := outlast(ctx)
		defer cancel()
		info, err := state.Retry(ctx, r.store, runID)
		if err == nil {
			r.requeue(ctx, &info)
		}
		return errors.Is(err, snapshot.ErrLocked), err
	})
}

// ResumeAll resumes the selected interrupted runs, as [Runner.Resume] does. It returns the result
// for each run.
func (r *Runner) ResumeAll(ctx context.Context, c state.Selection) ([]state.SelectedRun, error) {
	return c.Each(ctx, r.store, snapshot.StatusInterrupted, r.Resume)
}

// RetryAll retries the selected failed runs, as [Runner.Retry] does. It returns the result for each
// run.
func (r *Runner) RetryAll(ctx context.Context, c state.Selection) ([]state.SelectedRun, error) {
	return c.Each(ctx, r.store, snapshot.StatusFailed, r.Retry)
}

// requeue queues a run that was resumed or that is being retried, even if the run was refused
// before.
func (r *Runner) requeue(ctx context.Context, info *snapshot.Info) {
	r.mu.Lock()
	delete(r.refused, info.RunID)
	r.mu.Unlock()
	r.consider(ctx, info, false, false)
}

// Stopping returns why a run is stopping, or nil if it is not. Somebody may have interrupted or
// cancelled it; see [state.Stopping]. If this process has the run open, the run may also be stopping
// for any other reason, such as a shutdown or a time limit.
func (r *Runner) Stopping(ctx context.Context, runID string) (*snapshot.Stop, error) {
	info, err := r.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	st, err := r.stateOf(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("runner: stop of run %s: %w", runID, err)
	}
	if st != nil && info.Open { // otherwise the run has stopped, and only its queue entry is left
		if e := st.Interrupted(); e != nil {
			return &snapshot.Stop{Reason: e.Reason, By: e.By, Message: e.Message}, nil
		}
	}
	return state.Stopping(ctx, r.store, &info)
}

// awaitStop waits until a run that is being interrupted is closed.
func (r *Runner) awaitStop(ctx context.Context, runID string) error {
	for {
		closed := r.endOf(runID)
		st, err := r.stateOf(ctx, runID)
		if err != nil {
			return err
		}
		if st == nil {
			return r.awaitStopElsewhere(ctx, runID)
		}
		if st.Interrupted() == nil { // the run may not have read its inbox yet
			if stop, err := r.Stopping(ctx, runID); err != nil || stop == nil {
				return err
			}
		}
		select {
		case <-closed.announced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitStopElsewhere is like awaitStop, but for a run that is open in another process.
func (r *Runner) awaitStopElsewhere(ctx context.Context, runID string) error {
	open, err := r.store.Info(ctx, runID)
	if err != nil || !open.Open {
		return err
	}
	if asked, err := state.Stopping(ctx, r.store, &open); err != nil || asked == nil {
		return err
	}
	for e, err := range r.store.Watch(ctx, snapshot.WatchOptions{RunID: runID}) {
		if err != nil || !e.Info.Open || e.Info.Generation != open.Generation {
			return err
		}
	}
	return context.Cause(ctx)
}

// Pin sets whether retention keeps a run.
func (r *Runner) Pin(ctx context.Context, runID string, pinned bool) error {
	_, err := r.store.Update(ctx, runID, func(i *snapshot.Info) error { i.Pinned = pinned; return nil })
	if err != nil {
		return fmt.Errorf("runner: pin run %s: %w", runID, err)
	}
	return nil
}

// stateOf returns the state of a run that is open in this process, or nil for any other run. It waits
// for a run that is being opened. If ctx ends first, it returns the cause.
func (r *Runner) stateOf(ctx context.Context, runID string) (*state.ExecutionState, error) {
	r.mu.Lock()
	o := r.open[runID]
	r.mu.Unlock()
	if o == nil {
		return nil, nil // the run is not open here
	}
	select {
	case <-o.opened:
	case <-ctx.Done():
		select {
		case <-o.opened:
		default:
			return nil, fmt.Errorf("it is still being opened: %w", context.Cause(ctx))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.st, nil
}

// drop removes from the queue a run that does not continue.
func (r *Runner) drop(runID string) {
	if r.heap != nil { // another kind of queue may hand out the run, and the runner then sees that the run does not continue
		r.heap.drop(runID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admission.leave(runID)
	r.announce(runID, snapshot.Info{})
}
