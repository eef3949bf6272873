package state

import (
	"context"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
)

// errShutdown is why calls stop after Shutdown.
var errShutdown = &core.InterruptedError{Reason: record.InterruptShutdown}

// Shutdown ends the work of the process on the run in good order, and closes it.
// From now on no call and no attempt begins: what would begin is suspended, and
// waits for a next attempt end at once. Attempts that run may finish until ctx
// ends, and are interrupted then, with the reason [record.InterruptShutdown]. An
// attempt that was interrupted is made again when the run is resumed, and has
// cost none of its attempts, also if its handler did not return before the
// process ended.
//
// The run is interrupted, and says that a shutdown did it, unless its calls all
// had an outcome. Shutdown returns what [ExecutionState.Close] does, and both
// may be called any number of times.
func (st *ExecutionState) Shutdown(ctx context.Context) error {
	r := st.run
	r.root.Drain(errShutdown)
	select {
	case <-r.root.Idle():
	case <-r.done:
	case <-ctx.Done():
		if r.root.Active() > 0 {
			r.interrupt(errShutdown)
		}
	}
	return r.close()
}
