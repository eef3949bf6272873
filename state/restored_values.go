package state

import (
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// reenter prepares a call that goes on. What its preconditions wrote is there
// for it, and what the calls of its preconditions and of its earlier attempts
// wrote for everyone. The lock is held.
func (r *run) reenter(s *core.Scope, kind core.Kind, found *core.Recalled) error {
	if found == nil || !found.Begun {
		return nil
	}
	if r.strict {
		found.Wait = 0 // a replay waits for nothing
	}
	a, own := s.Address(), s.ID().Preconditions()
	if numbers := r.restored.preconditions[a]; len(numbers) > 0 {
		written, err := r.restored.decodeValues(numbers)
		if err != nil {
			return err
		}
		if r.values.pending == nil {
			r.values.pending = make(map[core.AttemptID][]value)
		}
		r.values.pending[own] = written
		delete(r.restored.preconditions, a)
	}
	attempts := found.Attempt // that are over
	if found.Started && kind != core.KindAgent {
		attempts++
	}
	return r.takeValues(s, r.restored.valuesBefore(a, attempts), r.rerun.since[a], own)
}

// takeValues gives restored values to everyone, but for those from before the
// divergence. They are newer than what the attempts of the IDs, and those
// around s, have written. The lock is held.
func (r *run) takeValues(s *core.Scope, numbers []uint64, since uint64, older ...core.AttemptID) error {
	left, err := r.restored.decodeValues(slices.DeleteFunc(numbers, func(seq uint64) bool { return seq <= since }))
	for _, v := range left {
		for _, id := range older {
			r.values.forget(id, v.slot)
		}
		r.values.replace(s, v.slot) // as when the call completed
		r.values.set(v)
	}
	return err
}

// followValue takes in the record of a value: it counts once its call has
// completed, and one of a precondition only for the call itself.
func (r *restored) followValue(rec *snapshot.Head) {
	if rec.Stage != core.StagePrecondition {
		r.values = append(r.values, placed{rec.Address.String(), rec.Seq})
		return
	}
	if r.preconditions == nil {
		r.preconditions = make(map[core.Address][]uint64)
	}
	r.preconditions[rec.Address] = append(r.preconditions[rec.Address], rec.Seq)
}

// valuesOf takes the values that the call and those inside it wrote; those
// written outside every call for the zero address.
func (r *restored) valuesOf(a core.Address) []uint64 {
	if len(r.values) == 0 {
		return nil
	}
	return take(r.values.within(a.String()))
}

// valuesBefore takes the values that calls wrote which were made by the
// preconditions and by the attempts before that of the number.
func (r *restored) valuesBefore(a core.Address, attempt int) []uint64 {
	if len(r.values) == 0 {
		return nil
	}
	return take(r.values.before(a.String(), attempt))
}

// valuesIn takes the values that the calls in the scope of the path wrote, and
// those inside them.
func (r *restored) valuesIn(path string) []uint64 {
	if len(r.values) == 0 {
		return nil
	}
	return take(r.values.inside(path))
}

// decodeValues reads the records with the numbers.
func (r *restored) decodeValues(numbers []uint64) ([]value, error) {
	values := make([]value, len(numbers))
	for i, seq := range numbers {
		rec, err := r.found.Record(seq)
		if err != nil {
			return nil, err
		}
		values[i] = value{slot{rec.Kind, rec.Name}, rec.Encoded(), rec.Seq}
	}
	return values, nil
}

// begun has the record with which a call began again, by the path of the call.
type begun map[string]uint64

func (b *begun) at(rec *snapshot.Head) {
	if *b == nil {
		*b = make(begun)
	}
	(*b)[rec.Address.String()] = rec.Seq
}

// dropReplaced drops the values that a call wrote before it began again, or
// before a call around it began anew.
func (r *restored) dropReplaced() {
	if len(r.anew) == 0 && len(r.again) == 0 {
		return
	}
	r.values = slices.DeleteFunc(r.values, func(p placed) bool {
		if r.again[p.path] > p.seq {
			return true
		}
		for path := p.path; path != ""; path = callOf(outer(path)) {
			if r.anew[path] > p.seq {
				return true
			}
		}
		return false
	})
}
