package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// interruptedGrace is how long Serve waits for the handlers of interrupted runs to return.
const interruptedGrace = 5 * time.Second

// Serve executes queued runs and continues runs that have not ended, until ctx ends. Then it stops;
// see Options.Grace. It returns when everything that it began has ended, and returns nil after a
// graceful stop. Runs whose handlers ignore their context are closed without waiting for the
// handlers; they are listed in an error that matches [ErrNotStopped]. If the store fails at the
// beginning, Serve returns the error at once. If the queue is closed, Serve stops as if ctx had
// ended, and returns an error that matches [ErrQueueClosed]. A runner can serve only once.
func (r *Runner) Serve(ctx context.Context) error {
	ctx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	r.mu.Lock()
	if r.serving {
		r.mu.Unlock()
		return errors.New("runner: Serve was called before; a runner serves once")
	}
	r.serving = true
	r.mu.Unlock()
	took, err := r.sweep(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("runner: find the runs to continue: %w", err)
	}
	if err := r.tryRefused(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("runner: find the runs that were refused: %w", err)
	}
	r.mu.Lock()
	r.swept = true
	r.mu.Unlock()
	stopping := context.AfterFunc(ctx, r.refuseStarts)
	defer stopping()
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // runs are stopped separately
	var background sync.WaitGroup
	background.Go(func() { r.sweepLoop(ctx, took) })
	background.Go(func() { r.retainLoop(ctx) })
	background.Go(func() { r.followSchedules(ctx) })
	if r.heap == nil {
		background.Go(func() { r.countQueueLoop(ctx) })
	} else { // the clock of this machine decides when entries are due
		background.Go(func() { r.watchClock(ctx) })
	}
	closed := r.dispatch(ctx, own)
	stopServing()
	background.Wait()
	err = r.stop()
	cancel()
	return errors.Join(closed, err)
}

// dispatch takes runs from the queue and begins them until ctx ends. If the queue is closed, it
// returns the error.
func (r *Runner) dispatch(ctx, own context.Context) error {
	slots := make(chan struct{}, r.options.Limit)
	free := func() { <-slots }
	for {
		n := awaitSlots(ctx, slots)
		leases, err := r.take(ctx, n)
		for range n - len(leases) {
			free()
		}
		if len(leases) == 0 {
			r.refuseStarts()
			return err
		}
		for _, lease := range leases {
			r.begin(own, lease, free)
		}
	}
}

// awaitSlots waits for a free slot, and then takes all free slots. It returns the number of slots
// taken, or 0 if ctx ends.
func awaitSlots(ctx context.Context, slots chan<- struct{}) int {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
}

// refuseStarts makes further starts fail.
func (r *Runner) refuseStarts() {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
}

// takeRetryDelay is the time to wait after an error from the queue.
const takeRetryDelay = time.Second

// take waits for runs and takes at most n of them. It returns none when ctx ends or the queue is
// closed. It returns an error only if the queue is closed.
func (r *Runner) take(ctx context.Context, n int) ([]Lease, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		taking, cancel := context.WithTimeout(ctx, r.options.SweepEvery) // programs may be registered while it waits
		leases, err := r.queue.Take(taking, r.programIDs(), n)
		late := taking.Err() != nil
		cancel()
		r.noteQueue(err, late)
		switch {
		case err == nil:
			return leases, nil
		case errors.Is(err, ErrQueueClosed):
			return nil, err
		case late:
			continue
		}
		r.observe(Notice{Type: NoticeTrouble, Err: fmt.Errorf("runner: take a run from the queue: %w", err)})
		pause.Reset(takeRetryDelay)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil, nil
}

// programIDs returns the IDs of the registered programs.
func (r *Runner) programIDs() []ProgramID {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]ProgramID, 0, len(r.programs))
	for k := range r.programs {
		all = append(all, ProgramID{k.name, k.version})
	}
	return all
}

// begin begins to execute a run taken from the queue. It calls free once the run is closed.
func (r *Runner) begin(own context.Context, lease Lease, free func()) {
	e := lease.Entry()
	o := &openRun{runID: e.RunID, opened: make(chan struct{})}
	r.mu.Lock()
	r.admission.leave(e.RunID)
	there := r.open[e.RunID]
	if o.program = r.programs[programKey{e.Program.Name, e.Program.Version}]; o.program != nil && there == nil {
		r.open[e.RunID] = o
	}
	if there != nil {
		there.newAnswer = true
	}
	r.mu.Unlock()
	r.runs.Go(func() {
		defer free()
		switch {
		case o.program == nil:
			lease.Abandon() // other runners may take the run
		case there != nil:
			r.endLease(own, lease, func() error { return lease.Park(own, r.queueTime(own, time.Now().Add(offerAgainAfter))) })
		default:
			r.execute(own, o, lease)
		}
	})
}

// offerAgainAfter is how long a run waits if another process has it open, or if the reason why it
// stopped may persist. It is also how long a schedule waits after an error.
const offerAgainAfter = 5 * time.Second

// stop waits for the open runs to stop, interrupts those that take too long, and closes those that
// ignore the interrupt.
func (r *Runner) stop() error {
	done := make(chan struct{})
	go func() {
		r.runs.Wait()
		close(done)
	}()
	if closedWithin(done, r.options.Grace) {
		return nil
	}
	r.mu.Lock()
	r.stopped = true // runs that are being opened check this
	r.mu.Unlock()
	for _, st := range r.states() {
		if st != nil {
			st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown})
		}
	}
	if closedWithin(done, interruptedGrace) {
		return nil
	}
	stuck, err := closeAll(r.states())
	return errors.Join(fmt.Errorf("%w: %s", ErrNotStopped, strings.Join(stuck, ", ")), err)
}

// closeAll closes the runs that did not stop, and returns their IDs. It closes them concurrently,
// because each Close waits a while for the run's handlers.
func closeAll(states map[string]*state.ExecutionState) ([]string, error) {
	stuck := slices.Sorted(maps.Keys(states))
	errs := make([]error, len(stuck))
	var closing sync.WaitGroup
	for i, id := range stuck {
		if st := states[id]; st != nil {
			closing.Go(func() {
				st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}) // the run may have been cancelled since
				errs[i] = st.Close()
			})
		}
	}
	closing.Wait()
	return stuck, errors.Join(errs...)
}

// closedWithin reports whether done is closed within d.
func closedWithin(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// states returns the states of the open runs, by run ID. The state of a run that is still being
// opened is nil.
func (r *Runner) states() map[string]*state.ExecutionState {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]*state.ExecutionState, len(r.open))
	for id, o := range r.open {
		all[id] = cmp.Or(o.st, o.compensating)
	}
	return all
}
