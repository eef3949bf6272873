package state

import (
	"slices"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// resume restores values for a call that continues. rec is the call's first record in this opening.
// Values written by the call's preconditions are restored only for this call. Values from calls
// made in its preconditions and earlier attempts are restored for everyone. r.mu must be held.
func (r *run) resume(s *engine.Scope, rec *record.Record) error {
	a := rec.Address
	t := r.restored.calls[a]
	if t == nil || t.resumed || t.first == 0 || !t.isMadeAfter(r.rerun.since[a]) {
		return nil
	}
	t.resumed = true
	if err := r.restorePreconditions(s); err != nil {
		return err
	}
	return r.takeValues(s, r.restored.valuesBefore(a, rec.Attempt), r.rerun.since[a], preconditionsOf(s))
}

// restorePreconditions restores the values that the preconditions of s's call wrote in earlier
// openings. r.mu must be held.
func (r *run) restorePreconditions(s *engine.Scope) error {
	a := s.Address()
	if r.restored == nil || len(r.restored.preconditions[a]) == 0 || r.rerun.isDiscarded(a) {
		return nil
	}
	if t := r.restored.calls[a]; t == nil || t.first == 0 { // the preconditions run again
		delete(r.restored.preconditions, a)
		return nil
	}
	written, err := r.restored.decodeValues(r.restored.preconditions[a])
	if err != nil {
		return err
	}
	if r.values.pending == nil {
		r.values.pending = make(map[attemptID][]value)
	}
	r.values.pending[preconditionsOf(s)] = written
	delete(r.restored.preconditions, a)
	return nil
}

// takeValues makes restored values visible to everyone, except values from before the divergence
// since. The restored values replace values with the same keys that were written by the attempts in
// older or by the attempts around s. r.mu must be held.
func (r *run) takeValues(s *engine.Scope, numbers []uint64, since uint64, older ...attemptID) error {
	left, err := r.restored.decodeValues(slices.DeleteFunc(numbers, func(seq uint64) bool { return seq <= since }))
	for _, v := range left {
		for _, id := range older {
			r.values.forget(id, v.key)
		}
		r.values.replace(s, v.key) // as when the call completed
		r.values.set(v)
	}
	return err
}

// followValue adds the record of a value. The value counts once its call has completed. A value
// written by a precondition counts only for the call itself.
func (r *restoredRun) followValue(rec *record.Record) {
	if rec.Stage != record.StagePrecondition {
		r.values = append(r.values, placedRecord{rec.Address.String(), rec.Seq})
		return
	}
	if r.preconditions == nil {
		r.preconditions = make(map[record.Address][]uint64)
	}
	r.preconditions[rec.Address] = append(r.preconditions[rec.Address], rec.Seq)
}

// dropPreconditions drops the values that the preconditions of the call at a wrote before the
// record with the number given by before.
func (r *restoredRun) dropPreconditions(a record.Address, before uint64) {
	if written := r.preconditions[a]; len(written) > 0 {
		i, _ := slices.BinarySearch(written, before)
		r.preconditions[a] = written[i:]
	}
}

// valuesOf takes the values written by the call and the calls inside it. For the zero address, it
// takes the values written outside all calls.
func (r *restoredRun) valuesOf(a record.Address) []uint64 {
	if len(r.values) == 0 {
		return nil
	}
	return takeNumbers(r.values.within(a.String()))
}

// valuesBefore takes the values of the calls made by the preconditions of the call at a, and by the
// attempts of that call whose numbers are less than attempt.
func (r *restoredRun) valuesBefore(a record.Address, attempt int) []uint64 {
	if len(r.values) == 0 {
		return nil
	}
	return takeNumbers(r.values.before(a.String(), attempt))
}

// decodeValues decodes the records with the given numbers.
func (r *restoredRun) decodeValues(numbers []uint64) ([]value, error) {
	values := make([]value, len(numbers))
	for i, seq := range numbers {
		rec, err := r.found.Record(seq)
		if err != nil {
			return nil, err
		}
		values[i] = value{rec.Name, rec.Encoded(), rec.Message() == shownMessage, rec.Seq}
	}
	return values, nil
}

// restarts holds, by the path of the call, the number of the record with which the call began
// again.
type restarts map[string]uint64

func (b *restarts) add(rec *record.Record) {
	if *b == nil {
		*b = make(restarts)
	}
	(*b)[rec.Address.String()] = rec.Seq
}

// dropReplaced drops the values of calls that have begun again since writing them. A call also
// begins again if a surrounding call does.
func (r *restoredRun) dropReplaced() {
	if len(r.restartsAfterDivergence) == 0 && len(r.restartsAfterCompletion) == 0 {
		return
	}
	r.values = slices.DeleteFunc(r.values, func(p placedRecord) bool {
		if r.restartsAfterCompletion[p.path] > p.seq {
			return true
		}
		for path := p.path; path != ""; path = callOf(outerScope(path)) {
			if r.restartsAfterDivergence[path] > p.seq {
				return true
			}
		}
		return false
	})
}
