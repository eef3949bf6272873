package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// interruptedGrace is how long Serve waits for the handlers of runs that it has
// interrupted.
const interruptedGrace = 5 * time.Second

// Serve runs what is queued and goes on with what has not ended, until ctx
// ends; then it stops, see Options.Grace. It returns once everything that it
// began has ended, with nil after a graceful stop. Runs whose handlers do not
// honour their context are closed without them, and named in an error that is
// [ErrStopped]. An error of the store at the beginning is returned at once. A
// runner serves once.
func (r *Runner) Serve(ctx context.Context) error {
	r.mu.Lock()
	if r.serving {
		r.mu.Unlock()
		return errors.New("runner: Serve was called before; a runner serves once")
	}
	r.serving = true
	r.mu.Unlock()
	took, err := r.sweep(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("runner: find the runs to go on with: %w", err)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // its runs end in their own way
	var beside sync.WaitGroup
	beside.Go(func() { r.sweepOften(ctx, took) })
	beside.Go(func() { r.retainOften(ctx) })
	beside.Go(func() { r.followSchedules(ctx) })
	r.dispatch(ctx, own)
	beside.Wait()
	err = r.stop()
	cancel()
	return err
}

// dispatch begins runs until ctx ends.
func (r *Runner) dispatch(ctx, own context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if next, ok := r.beginDue(own); ok {
			timer.Reset(time.Until(next))
		} else {
			timer.Stop()
		}
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
}

// beginDue begins what is due, as far as there are slots, and returns when the
// next is due.
func (r *Runner) beginDue(own context.Context) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.advance(time.Now()) // also while there is no slot: what is due needs no timer
	for len(r.open) < r.options.Limit {
		e := r.queue.pop()
		if e == nil {
			break
		}
		o := &openRun{runID: e.runID, program: e.program, opened: make(chan struct{})}
		r.open[e.runID] = o
		r.runs.Go(func() { r.execute(own, o, e) })
	}
	return r.queue.next()
}

// stop waits for the runs, interrupts those that take too long, and closes those
// that do not care.
func (r *Runner) stop() error {
	done := make(chan struct{})
	go func() {
		r.runs.Wait()
		close(done)
	}()
	if within(done, r.options.Grace) {
		return nil
	}
	r.mu.Lock()
	r.stopped = true // runs that are being opened see it
	r.mu.Unlock()
	for _, st := range r.states() {
		st.Interrupt(record.InterruptShutdown, "", "")
	}
	if within(done, interruptedGrace) {
		return nil
	}
	var stuck []string
	var err error
	for id, st := range r.states() {
		stuck = append(stuck, id)
		err = errors.Join(err, st.Close())
	}
	slices.Sort(stuck)
	return errors.Join(fmt.Errorf("%w: %s", ErrStopped, strings.Join(stuck, ", ")), err)
}

// within reports whether done is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// states are those of the runs that are open, by their IDs.
func (r *Runner) states() map[string]*state.ExecutionState {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]*state.ExecutionState, len(r.open))
	for id, o := range r.open {
		if o.st != nil {
			all[id] = o.st
		}
	}
	return all
}
