package state

import (
	"context"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
)

// errShutdown is the interrupt for calls after Shutdown.
var errShutdown = &core.InterruptedError{Reason: record.InterruptShutdown}

// Shutdown stops the run gracefully and closes it. From then on, no call and no attempt begins:
// calls that would begin are suspended, and waits for a next attempt end at once. Attempts in
// progress may run until ctx ends, and are then interrupted with the reason
// [record.InterruptShutdown]. An interrupted attempt is made again when the run is resumed, and
// does not count against MaxAttempts, even if its handler did not return before the process ended.
// The same holds for the compensations that [ExecutionState.Close] makes in another goroutine.
//
// If a call was stopped, the run's status is then interrupted, with the reason shutdown. Otherwise
// the status is the same as after [ExecutionState.Close]: a run that waits for an answer is paused.
// Shutdown returns the error from Close. Both may be called any number of times.
func (st *ExecutionState) Shutdown(ctx context.Context) error {
	r := st.run
	r.root.Drain(errShutdown)
	select {
	case <-r.root.Idle():
	case <-r.life.done:
	case <-ctx.Done():
		if r.root.Active() > 0 {
			r.interrupt(errShutdown)
		}
	}
	defer context.AfterFunc(ctx, func() { r.stopCompensating(errShutdown) })() // for a Close in another goroutine
	return r.close()
}
