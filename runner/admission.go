package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// An admission counts the runs that are waiting to begin, so that Start can enforce its limits.
// Runner.mu guards it.
type admission struct {
	starting    map[string]int    // number of admitted starts that have not returned, by run
	byPrincipal map[string]int    // waiting runs, and starts that have not returned, by principal
	principalOf map[string]string // principals of the waiting runs, by run

	stored   int       // number of waiting runs in the store, if other processes share the queue
	storedAt time.Time // when stored was counted
}

func newAdmission() admission {
	return admission{starting: make(map[string]int), byPrincipal: make(map[string]int), principalOf: make(map[string]string)}
}

// countEvery is how long a count of the runs in the store is used before the runs are counted
// again.
const countEvery = time.Second

// admit returns an error if a start would exceed the limits. Otherwise, the caller must call done
// once the run has been started or could not be started.
func (r *Runner) admit(ctx context.Context, runID, principal string) (done func(isNew bool), err error) {
	if err := r.countStored(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, most, own := &r.admission, r.options.MaxQueued, r.options.MaxQueuedPerPrincipal
	queued := r.countQueued()
	switch {
	case r.stopping:
		return nil, fmt.Errorf("%w: start the run again later, or in another process", ErrStopping)
	case most > 0 && queued >= most:
		return nil, fmt.Errorf("%w: %d of at most %d", ErrTooMany, queued, most)
	case own > 0 && principal != "" && a.byPrincipal[principal] >= own:
		return nil, fmt.Errorf("%w: %d of at most %d for %s", ErrTooMany, a.byPrincipal[principal], own, principal)
	}
	a.starting[runID]++
	if own == 0 {
		principal = ""
	}
	if principal != "" {
		a.byPrincipal[principal]++
	}
	return func(isNew bool) { r.endStart(runID, principal, isNew) }, nil
}

// countQueued returns how many runs are waiting to begin, including those that are just being
// started. r.mu must be held.
func (r *Runner) countQueued() int {
	if r.heap == nil {
		return r.admission.stored + len(r.admission.starting)
	}
	r.heap.mu.Lock()
	defer r.heap.mu.Unlock()
	queued := r.heap.countReady()
	for runID := range r.admission.starting { // skip runs that are in the queue already, or have begun
		if r.open[runID] == nil && r.heap.queue.entries[runID] == nil {
			queued++
		}
	}
	return queued
}

// endStart ends a start. If the run has begun in the meantime, it is no longer waiting.
func (r *Runner) endStart(runID, principal string, isNew bool) {
	isQueued := r.heap == nil || r.heap.has(runID)
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.admission
	if a.starting[runID]--; a.starting[runID] == 0 {
		delete(a.starting, runID)
	}
	if isNew {
		a.stored++
	}
	switch {
	case principal == "":
	case isNew && isQueued && r.open[runID] == nil:
		a.principalOf[runID] = principal
	default:
		a.countDown(principal)
	}
}

// leave stops counting a run that is no longer waiting. Runner.mu must be held.
func (a *admission) leave(runID string) {
	if principal, ok := a.principalOf[runID]; ok {
		delete(a.principalOf, runID)
		a.countDown(principal)
	}
}

func (a *admission) countDown(principal string) {
	if a.byPrincipal[principal]--; a.byPrincipal[principal] == 0 {
		delete(a.byPrincipal, principal)
	}
}

// countStored counts the runs in the store that have not begun, if other processes may begin them.
// It stops counting runs that have begun.
func (r *Runner) countStored(ctx context.Context) error {
	limits := r.options.MaxQueued > 0 || r.options.MaxQueuedPerPrincipal > 0
	r.mu.Lock()
	isFresh := time.Since(r.admission.storedAt) < countEvery
	r.mu.Unlock()
	if r.heap != nil || !limits || isFresh {
		return nil
	}
	queued := make(map[string]bool)
	now := time.Now()
	stored := 0
	for info, err := range snapshot.Runs(ctx, r.store, snapshot.Filter{Status: []snapshot.Status{snapshot.StatusQueued}}) {
		if err != nil {
			return fmt.Errorf("runner: count the runs that wait: %w", err)
		}
		if queued[info.RunID] = true; !info.Due.After(now) {
			stored++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admission.stored, r.admission.storedAt = stored, now
	for runID := range r.admission.principalOf {
		if !queued[runID] {
			r.admission.leave(runID)
		}
	}
	return nil
}

// has reports whether a run is waiting in the queue.
func (h *heapQueue) has(runID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queue.entries[runID] != nil
}
