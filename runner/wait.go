package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Wait returns when a run does not go on by itself any more: it has completed or
// failed, or was cancelled or interrupted. It goes on waiting while the run is
// queued, runs, or is paused, also for an answer. The end of a run in another process
// shows with the next sweep. Wait ends with an error when ctx does.
func (r *Runner) Wait(ctx context.Context, runID string) (snapshot.Info, error) {
	for {
		ended := r.endOf(runID)
		info, err := r.settled(ctx, runID)
		if err != nil || info.RunID != "" {
			return info, err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return snapshot.Info{}, fmt.Errorf("runner: wait for run %s: %w", runID, context.Cause(ctx))
		}
	}
}

// settled returns what is known of a run that does not go on by itself, and the
// zero Info for any other.
func (r *Runner) settled(ctx context.Context, runID string) (snapshot.Info, error) {
	r.mu.Lock()
	isOpen := r.open[runID] != nil
	r.mu.Unlock()
	if isOpen {
		return snapshot.Info{}, nil
	}
	info, err := r.Info(ctx, runID)
	if err != nil || info.Open || info.Status == snapshot.StatusRunning || mayGoOn(&info) {
		return snapshot.Info{}, err
	}
	return info, nil
}

// endOf returns what is closed when the run may have ended.
func (r *Runner) endOf(runID string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended[runID] == nil {
		r.ended[runID] = make(chan struct{})
	}
	return r.ended[runID]
}

// announce wakes those who wait for a run. The lock is held.
func (r *Runner) announce(runID string) {
	if c := r.ended[runID]; c != nil {
		close(c)
		delete(r.ended, runID)
	}
}

// Result returns the output of a run that has ended, of the type that its actor
// returns, or the error that it failed with. For a run that goes on or waits it
// is state.ErrNotEnded, for one that was set aside after crashes ErrCrashLoop. The
// output of a program that is not registered here is of a basic type.
func (r *Runner) Result(ctx context.Context, runID string) (any, error) {
	info, err := r.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	if info.Status == snapshot.StatusFailed && info.Stop.Reason == record.InterruptCrashLoop {
		return nil, fmt.Errorf("%w: run %s, %d times", ErrCrashLoop, runID, info.Restarts)
	}
	p, err := r.find(info.Program, info.Version)
	switch {
	case errors.Is(err, ErrUnknown):
		return state.Result[any](ctx, r.store, runID)
	case err != nil:
		return nil, err
	}
	return p.result(ctx, r.store, runID)
}
