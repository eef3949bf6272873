package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Wait waits until a run no longer continues by itself, because it has completed or failed, or was
// cancelled or interrupted. Wait also waits while the run is paused for an answer. Since another
// process may end the run, a runner that does not serve, or that has [Options.Queue], watches the
// run in the store; for other runners, the next sweep detects such an end. If the run was set aside
// after crashes, Wait returns its Info and [ErrCrashLoop]. Wait returns an error when ctx ends.
func (r *Runner) Wait(ctx context.Context, runID string) (snapshot.Info, error) {
	if r.options.Queue == nil && r.isServing() {
		return r.wait(ctx, runID)
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { r.watchEnd(watched, runID) })
	return r.wait(ctx, runID)
}

// watchEnd announces each time that the run may have ended in another process, until ctx ends.
func (r *Runner) watchEnd(ctx context.Context, runID string) {
	again := time.NewTimer(0)
	defer again.Stop()
	for ctx.Err() == nil {
		for e, err := range r.store.Watch(ctx, snapshot.WatchOptions{RunID: runID}) {
			if err != nil {
				break
			}
			if e.Deleted || isSettled(&e.Info) {
				r.mu.Lock()
				r.announce(runID, snapshot.Info{})
				r.mu.Unlock()
			}
		}
		again.Reset(watchRetryDelay)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// watchRetryDelay is how long to wait after a store error before watching a run again.
const watchRetryDelay = 500 * time.Millisecond

func (r *Runner) isServing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serving
}

func (r *Runner) wait(ctx context.Context, runID string) (snapshot.Info, error) {
	for {
		end := r.endOf(runID)
		info, err := r.settledInfo(ctx, runID)
		if err != nil || info.RunID != "" {
			return withCrashLoop(info, err)
		}
		select {
		case <-end.announced:
			if isSettled(&end.info) {
				return withCrashLoop(end.info.Clone(), nil)
			}
		case <-ctx.Done():
			return snapshot.Info{}, fmt.Errorf("runner: wait for run %s: %w", runID, context.Cause(ctx))
		}
	}
}

// withCrashLoop returns info, and an error if the run was set aside after crashes.
func withCrashLoop(info snapshot.Info, err error) (snapshot.Info, error) {
	if err == nil && isCrashLoop(&info) {
		err = crashLoop(&info)
	}
	return info, err
}

// settledInfo returns the Info of a run that will not continue by itself, and the zero Info for any
// other run.
func (r *Runner) settledInfo(ctx context.Context, runID string) (snapshot.Info, error) {
	r.mu.Lock()
	isOpen, serving := r.open[runID] != nil, r.serving
	r.mu.Unlock()
	if isOpen || serving && r.heap != nil && r.heap.isAboutToBegin(runID) {
		return snapshot.Info{}, nil
	}
	info, err := r.Info(ctx, runID)
	if err != nil || !isSettled(&info) {
		return snapshot.Info{}, err
	}
	return info, nil
}

// isSettled reports whether the run will not continue by itself. It reports false
// for the zero Info.
func isSettled(info *snapshot.Info) bool {
	return info.RunID != "" && !info.Open && info.Status != snapshot.StatusRunning && !canContinue(info)
}

// An ending is the next end of a run, for waiting goroutines.
type ending struct {
	announced chan struct{} // closed when the run may have ended
	info      snapshot.Info // the run's Info when it ended; zero if it must be read from the store
}

// endOf returns the next ending of the run.
func (r *Runner) endOf(runID string) *ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endings[runID] == nil {
		r.endings[runID] = &ending{announced: make(chan struct{})}
	}
	return r.endings[runID]
}

// announce wakes the goroutines that are waiting for a run. info is zero if the run's Info is not
// known. r.mu must be held.
func (r *Runner) announce(runID string, info snapshot.Info) {
	if end := r.endings[runID]; end != nil {
		end.info = info
		close(end.announced)
		delete(r.endings, runID)
	}
}

// crashLoop returns the error for a run that is set aside.
func crashLoop(info *snapshot.Info) error {
	return fmt.Errorf("%w: run %s: %s", ErrCrashLoop, info.RunID, info.Stop.Message)
}

// Result returns the output of a run that has ended, or the error with which the run failed. The
// output has the actor's output type. If the program is not registered in this runner, the output
// instead has the basic type that its encoding decodes to. If the run has not ended, the error is
// state.ErrNotEnded. If the run was set aside after crashes, the error is ErrCrashLoop.
func (r *Runner) Result(ctx context.Context, runID string) (any, error) {
	info, err := r.Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	if isCrashLoop(&info) {
		return nil, crashLoop(&info)
	}
	p, err := r.find(info.Program, info.Version)
	switch {
	case errors.Is(err, ErrNotRegistered):
		return state.Result[any](ctx, r.store, runID)
	case err != nil:
		return nil, err
	}
	return p.result(ctx, r.store, runID)
}
