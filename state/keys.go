package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// This file determines the idempotency keys of calls. A key depends on the run and on how often the
// call was compensated. If a payment that was refunded were made again with its old key, the
// service would return the old receipt, and nothing would be paid.

// useKeys sets the values from which the keys of the run's calls are determined.
func (r *run) useKeys() {
	r.settings.KeysOf = cmp.Or(r.restored.fork.Keys, r.settings.RunID)
	r.settings.UndoneByParents = r.restored.undoneByParents()
	r.settings.Undone = r.restored.timesUndone()
	r.settings.Made = make(map[string][]record.Hash)
	for _, m := range r.restored.fork.Made {
		r.settings.Made[m.Place] = append(r.settings.Made[m.Place], m.Input)
	}
}

// undoneByParents returns how often each call was compensated by a fork's parents.
func (r *restoredRun) undoneByParents() map[string]int {
	times := make(map[string]int)
	for _, u := range r.fork.Undone {
		times[u.Place] += u.Times
	}
	return times
}

// timesUndone returns how often each call was compensated, in this run and in its parents. The
// map's keys are addresses without attempts, because all attempts of a call share one idempotency
// key. A compensation counts as soon as it has begun, unless it has failed.
func (r *restoredRun) timesUndone() map[string]int {
	times := r.undoneByParents()
	if !r.compensates {
		return times
	}
	for a, t := range r.calls {
		if t.kind != record.KindCompensation || t.Phase == record.StateFailed {
			continue
		}
		if undone, err := record.ParseAddress(callOf(a.Scope())); err == nil {
			times[undone.WithoutAttempts()]++
		}
	}
	return times
}

// keysOfForks returns what a fork needs to give its calls the same keys as this run.
func (r *restoredRun) keysOfForks(runID string) *record.Fork {
	fork := &record.Fork{Keys: cmp.Or(r.fork.Keys, runID), Made: append(slices.Clip(r.fork.Made), r.madeCalls()...)}
	times := r.timesUndone()
	for _, place := range slices.Sorted(maps.Keys(times)) {
		fork.Undone = append(fork.Undone, record.UndoneCalls{Place: place, Times: times[place]})
	}
	return fork
}

// madeCalls returns the run's calls that can be compensated but have not been.
func (r *restoredRun) madeCalls() (all []record.MadeCall) {
	for a, completions := range r.compensable {
		last := len(completions)
		if !r.mayBeUndone(a, completions[last-1].name, last) {
			all = append(all, record.MadeCall{Place: a.WithoutAttempts(), Input: r.calls[a].Input})
		}
	}
	slices.SortFunc(all, func(x, y record.MadeCall) int {
		return cmp.Or(cmp.Compare(x.Place, y.Place), cmp.Compare(x.Input.String(), y.Input.String()))
	})
	return all
}

// refuseCompensated returns an error if a fork at the address would keep a call that was, or may
// have been, compensated, or a call that was made inside such a call. first is the number of the
// first record at the address.
func (r *restoredRun) refuseCompensated(kept []record.Record, address record.Address, first uint64) error {
	var undone []record.Address
	for a, completions := range r.compensable {
		nth := 0 // the completion that the fork keeps, or during which the fork begins
		for nth < len(completions) && completions[nth].ended < first {
			nth++
		}
		if isAround(a, address) && slices.ContainsFunc(kept, func(rec record.Record) bool {
			return rec.Status == record.StatusCompleted && isAround(a, rec.Address)
		}) {
			nth++
		} else if nth > 0 && nth <= len(completions) && completions[nth-1].open {
			continue // it has no outcome and is not kept
		}
		if nth > 0 && nth <= len(completions) && r.mayBeUndone(a, completions[nth-1].name, nth) {
			undone = append(undone, a)
		}
	}
	if len(undone) == 0 {
		return nil
	}
	slices.SortFunc(undone, func(a, b record.Address) int { return cmp.Compare(r.calls[a].first, r.calls[b].first) })
	names := make([]string, len(undone))
	for i, a := range undone {
		names[i] = a.String()
	}
	return fmt.Errorf("%w: %s; fork at %s or at a call before it", ErrCompensated, strings.Join(names, ", "), names[0])
}
