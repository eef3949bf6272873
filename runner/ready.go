package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// ErrNotReady is matched by every error that [Runner.Ready] returns.
var ErrNotReady = errors.New("runner: not ready")

// anyRun is the run ID that Ready looks up to check whether the store can be read. The run need not
// exist.
const anyRun = "ready"

// Ready returns nil if the runner can start and execute runs: Serve has found the existing runs,
// the context of Serve has not ended, and the store and the queue can be reached. Otherwise, Ready
// returns an error.
func (r *Runner) Ready(ctx context.Context) error {
	r.mu.Lock()
	swept, stopping, queueErr := r.swept, r.stopping, r.queueErr
	r.mu.Unlock()
	switch {
	case stopping:
		return fmt.Errorf("%w: %w", ErrNotReady, stoppingError{})
	case !swept:
		return fmt.Errorf("%w: the runner is starting", ErrNotReady)
	case queueErr != nil:
		return fmt.Errorf("%w: the queue: %w", ErrNotReady, queueErr)
	}
	if _, err := r.store.Info(ctx, anyRun); err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("%w: the store: %w", ErrNotReady, err)
	}
	return nil
}

// A stoppingError matches ErrStopping. Its text has no prefix, since it follows that of ErrNotReady.
type stoppingError struct{}

func (stoppingError) Error() string { return "the runner is stopping" }

func (stoppingError) Is(target error) bool { return target == ErrStopping }

// noteQueue records the result of a request to the queue. late means that the request only reached
// its time limit, which is not an error.
func (r *Runner) noteQueue(err error, late bool) {
	if late {
		err = nil
	}
	r.mu.Lock()
	r.queueErr = err
	r.mu.Unlock()
}
