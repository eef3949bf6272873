package runner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// ErrNoRunner is returned by [Call] if it is called outside a run of a runner.
var ErrNoRunner = errors.New("runner: Call must be called by a handler of a run that a runner executes")

// A CalledError is the error that [Call] returns for a run that failed, was cancelled, or was
// deleted before its result could be read.
type CalledError struct {
	RunID   string
	Status  snapshot.Status // failed or cancelled; empty if the run was deleted
	Message string
}

// Error describes how the run ended.
func (e *CalledError) Error() string {
	if e.Status == "" {
		return "runner: run " + e.RunID + ": " + e.Message
	}
	return "runner: run " + e.RunID + " has ended as " + string(e.Status) + ": " + e.Message
}

// Call starts a run of the named program and returns the output of that run once it has completed.
// Call must be called by a handler of a run that a runner executes. The called run is started only
// once, no matter how often the process is killed. It is a run of its own: it is queued regardless
// of the limits of Start, is shown together with the run that called it, and can be stopped,
// retried and answered. While the called run is running, the calling run is paused, as it is by
// core.Receive: Call then returns a *core.InterruptedError, which the handler must return.
//
// The input is the same as for [Runner.Start]. Out is the output type of the program. If the called
// run failed or was cancelled, the error is a *[CalledError], and is permanent. If the called run
// is interrupted, Call waits until it continues and ends. If the called run failed, and
// [Runner.Retry] is used on the called run and then on the calling run, Call returns the new
// result. Cancelling the calling run does not stop the runs that it has called. If a call around
// Call is retried within the calling run, Call starts another run, just as every other call inside
// a retried call is made again.
//
// There are two cases in which the calling run waits until it is opened again. In the first, the
// called run is deleted before it has ended. To avoid this, cancel a run before you delete it. In
// the second, the calling run is a fork that keeps the start of the called run in a branch of a
// group, and the called run ends later. To avoid this, fork at that branch, or at the group.
func Call[Out any](ctx context.Context, program string, input any) (Out, error) {
	var zero Out
	r, _ := ctx.Value(runnerKey{}).(*Runner)
	h := state.From(ctx)
	if r == nil || h == nil {
		return zero, ErrNoRunner
	}
	called, err := storeStep(ctx, "start "+program, func(ctx context.Context) (calledRun, error) {
		return r.startCalled(ctx, h.RunID(), program, input)
	})
	if err != nil {
		return zero, err
	}
	for {
		if _, err := core.Receive[any](ctx, called.Signal); err != nil {
			r.signalEarlierEnd(ctx, h.RunID(), called)
			return zero, err
		}
		look := func(ctx context.Context) (calledEnd, error) { return r.endOfCalled(ctx, called.RunID) }
		switch end, err := storeStep(ctx, "end of "+program, look); {
		case err != nil:
			return zero, err
		case end.Status == snapshot.StatusCompleted:
			return storeStep(ctx, "result of "+program, func(ctx context.Context) (Out, error) {
				return state.Result[Out](ctx, r.store, called.RunID)
			})
		}
	}
}

// storeStep is a step that uses the store. If the store cannot be reached, the step does not fail.
// Instead, the run is interrupted, and later continues by itself.
func storeStep[T any](ctx context.Context, name string, f func(context.Context) (T, error)) (T, error) {
	return core.Step(ctx, name, func(ctx context.Context) (T, error) {
		v, err := f(ctx)
		if err != nil && snapshot.IsTemporary(err) {
			state.From(ctx).Interrupt(snapshot.Stop{Reason: record.InterruptStore, Message: err.Error()})
			err = cmp.Or(context.Cause(ctx), err) // ctx may be the user's own: it may not end, or end only now
		}
		return v, err
	})
}

// runnerKey is the key of the runner in the contexts of its runs.
type runnerKey struct{}

// calledRun is a run that another run has started.
type calledRun struct {
	RunID  string `json:"run_id"`
	Signal string `json:"signal"` // the name of the signal that reports that the run may have ended
}

// calledEnd describes a called run after a signal has arrived. If the run has not completed, it
// continues, and another signal will come.
type calledEnd struct {
	Status snapshot.Status `json:"status"`
}

// startCalled starts the called run for the step that ctx belongs to, unless the step has already
// started it.
func (r *Runner) startCalled(ctx context.Context, from, name string, input any) (calledRun, error) {
	p, err := r.find(name, "")
	if err != nil {
		return calledRun{}, core.Permanent(err)
	}
	key, err := core.IdempotencyKey(ctx)
	if err != nil {
		return calledRun{}, err
	}
	sum := sha256.Sum256([]byte(from + "\x00" + key)) // a fork has its parent's keys, but calls its own runs
	id := hex.EncodeToString(sum[:8])
	c := calledRun{name + "-" + id, "run." + id}
	encoded, err := p.encode(input)
	if err != nil {
		return calledRun{}, core.Permanent(err)
	}
	var o StartOptions
	caller.Caller{RunID: from, Signal: c.Signal}.AddTo(&o.Metadata)
	_, _, err = r.startEncoded(ctx, p, c.RunID, encoded, o)
	return c, err
}

// endOfCalled returns the state of a called run that may have ended. It first waits until no
// process has the run open, since the signal is sent just before the run is closed. If the called
// run failed, was cancelled or was deleted, endOfCalled returns an error. When the calling run is
// retried, it then reads the state again, since the called run may have been retried too.
func (r *Runner) endOfCalled(ctx context.Context, runID string) (calledEnd, error) {
	info, err := r.awaitClosed(ctx, runID)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return calledEnd{}, core.Permanent(&CalledError{RunID: runID, Message: "the run was deleted"})
	case err != nil:
		return calledEnd{}, err
	case info.Status.HasEnded() && info.Status != snapshot.StatusCompleted:
		_, failure := state.Result[any](ctx, r.store, runID)
		return calledEnd{}, core.Permanent(&CalledError{runID, info.Status, record.Truncate(fmt.Sprint(failure), record.MessageLimit)})
	}
	return calledEnd{info.Status}, nil
}

// awaitClosed waits until no process has the run open, and then returns the info of the run.
func (r *Runner) awaitClosed(ctx context.Context, runID string) (snapshot.Info, error) {
	info, err := r.store.Info(ctx, runID)
	if err != nil || !info.Open {
		return info, err // for a missing run, Watch would wait for its creation
	}
	for event, err := range r.store.Watch(ctx, snapshot.WatchOptions{RunID: runID}) {
		switch {
		case err != nil:
			return snapshot.Info{}, err
		case event.Deleted:
			return snapshot.Info{}, snapshot.ErrNotFound
		case !event.Info.Open:
			return event.Info, nil
		}
	}
	return snapshot.Info{}, context.Cause(ctx)
}

// signalEarlierEnd sends again the signal that a called run has ended, because the calling run is
// about to wait for it. If the calling run had failed and is now being retried, the first signal
// was not accepted. If the calling run is a fork, the first signal was sent to another run.
func (r *Runner) signalEarlierEnd(ctx context.Context, callerID string, called calledRun) {
	info, err := r.store.Info(ctx, called.RunID)
	if isEnded := err == nil && !info.Open && info.Status.HasEnded(); !isEnded && !errors.Is(err, snapshot.ErrNotFound) {
		return
	}
	c := caller.Caller{RunID: callerID, Signal: called.Signal}
	if err := r.signalEnd(ctx, c, called.RunID, info.Generation); err != nil {
		r.observe(Notice{Type: NoticeTrouble, RunID: callerID, Err: err})
	}
}

// signalEnd signals to the calling run that a called run may have ended. It does nothing if the
// calling run has ended, was deleted, or has received the signal before.
func (r *Runner) signalEnd(ctx context.Context, c caller.Caller, runID string, generation uint64) error {
	err := state.Signal(ctx, r.store, c.RunID, c.Signal, nil, state.SignalOptions{ID: caller.SignalID(runID, generation)})
	if err != nil && !errors.Is(err, state.ErrEnded) && !errors.Is(err, state.ErrCancelled) && !errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("runner: signal to run %s that run %s has ended: %w", c.RunID, runID, err)
	}
	return nil
}

// tellCaller signals to the calling run that this run may be ending. It does so before this run is
// closed, so that a crash cannot prevent the signal. If the calling run is paused, the runner wakes
// it.
func (r *Runner) tellCaller(ctx context.Context, o *openRun, st *state.ExecutionState, err error) {
	e := st.Interrupted()
	if o.caller.RunID == "" || core.IsSuspension(err) && (e == nil || e.Reason != record.InterruptCancel) {
		return
	}
	if err := r.signalEnd(ctx, o.caller, o.runID, o.generation); err != nil {
		r.observe(o.notice(NoticeTrouble, st.Status(), err))
		return
	}
	r.continueAnswered(ctx, o.caller.RunID)
}

// Let errors.Is and errors.As find these errors in an error that was restored from a record.
func init() {
	record.RegisterError("runner.ErrNoRunner", ErrNoRunner)
	record.RegisterErrorType[*CalledError]("runner.CalledError")
}
