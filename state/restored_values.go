package state

import (
	"strings"

	"github.com/reprise-go/reprise/core"
)

// reenter prepares a call that goes on. What its preconditions wrote is there
// for it, and what the calls of its preconditions and of its earlier attempts
// wrote for everyone. The lock is held.
func (r *run) reenter(s *core.Scope, kind core.Kind, found *core.Recalled) {
	if found == nil || !found.Begun {
		return
	}
	if r.strict {
		found.Wait = 0 // a replay waits for nothing
	}
	a, own := s.Address(), s.ID().Preconditions()
	if written := r.restored.preconditions[a]; len(written) > 0 {
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
	paths := []string{a.String() + "@pre"}
	for i := range attempts {
		paths = append(paths, scopePath(a, i))
	}
	for _, path := range paths {
		left := r.restored.valuesIn(path)
		for _, v := range left {
			if v.seq > r.rerun.since[a] {
				r.values.forget(own, v.slot)
			}
		}
		r.takeValues(s, left, r.rerun.since[a])
	}
}

// takeValues gives restored values to everyone, but for those from before the
// divergence. The lock is held.
func (r *run) takeValues(s *core.Scope, restored []value, since uint64) {
	for _, v := range restored {
		if v.seq <= since {
			continue
		}
		r.values.replace(s, v.slot) // as when the call completed
		r.values.set(v)
	}
}

// follow takes in the record of a value: it counts once its call has
// completed, and one of a precondition only for the call itself.
func (r *restored) followValue(rec *core.Record) {
	v, a := value{slot{rec.Kind, rec.Name}, rec.Encoded(), rec.Seq}, rec.Address
	if rec.Stage == core.StagePrecondition {
		r.preconditions[a] = append(r.preconditions[a], v)
		return
	}
	if _, ok := r.values[a]; !ok {
		r.order = append(r.order, a)
	}
	r.values[a] = append(r.values[a], v)
}

// valuesOf takes the values that the call and those inside it wrote.
func (r *restored) valuesOf(a core.Address) []value {
	if a.IsZero() {
		taken := r.values[a]
		delete(r.values, a)
		return taken
	}
	path := a.String()
	return r.take(func(by core.Address) bool { return by == a || isInside(by.Scope(), path) })
}

// valuesIn takes the values that the calls in the scope of the path wrote, and
// those inside them.
func (r *restored) valuesIn(path string) []value {
	return r.take(func(by core.Address) bool {
		scope := by.Scope()
		return scope == path || strings.HasPrefix(scope, path+"/")
	})
}

func (r *restored) take(wanted func(core.Address) bool) []value {
	var taken []value
	for _, by := range r.order {
		if wanted(by) {
			taken = append(taken, r.values[by]...)
			delete(r.values, by)
		}
	}
	return taken
}
