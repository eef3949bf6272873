package state

import (
	"github.com/reprise-go/reprise/record"
)

// dropInside forgets the calls inside calls that will be recalled as a whole, because the inner
// calls are no longer needed. In a run of nested agents, nearly all calls are inner calls.
func (r *restoredRun) dropInside() {
	if r.diverged || r.unclaimed || len(r.compensable) > 0 || r.isFork() {
		return // any of the inner calls may be needed
	}
	whole := wholeCalls{r.calls, make(map[string]bool)}
	if !whole.hasAny(r.inside) {
		return
	}
	kept := 0
	for a := range r.calls {
		if !whole.has(a.Scope()) {
			kept++
		}
	}
	calls, tracks := make(map[record.Address]*track, kept), make([]track, kept)
	for a, t := range r.calls {
		if !whole.has(a.Scope()) {
			tracks[0] = *t
			calls[a], tracks = &tracks[0], tracks[1:]
		}
	}
	r.calls = calls
	r.ordinals = keepOutside(&whole, r.ordinals)
	r.inside = keepOutside(&whole, r.inside)
	r.usage.dropInside(&whole)
}

func (r *restoredRun) isFork() bool {
	return r.fork.Keys != "" || len(r.fork.Undone) > 0 || len(r.fork.Made) > 0 || len(r.fork.Effects) > 0
}

// keepOutside returns a copy of m, whose keys are scope paths. It leaves out the scopes inside
// calls that are recalled as a whole.
func keepOutside[M ~map[string]V, V any](whole *wholeCalls, m M) M {
	kept := make(M)
	for scope, v := range m {
		if !whole.has(scope) {
			kept[scope] = v
		}
	}
	return kept
}

// wholeCalls determines which scopes are inside a call that is recalled as a whole.
type wholeCalls struct {
	calls map[record.Address]*track
	known map[string]bool // by scope path
}

// hasAny reports whether the map contains a scope inside a call that is recalled as a whole.
func (w *wholeCalls) hasAny(scopes map[string]uint64) bool {
	for scope := range scopes {
		if w.has(scope) {
			return true
		}
	}
	return false
}

func (w *wholeCalls) has(scope string) bool {
	if scope == "" {
		return false
	}
	has, known := w.known[scope]
	if !known {
		has = w.isOfWhole(scope) || w.has(outerScope(scope))
		w.known[scope] = has
	}
	return has
}

// isOfWhole reports whether the call that the scope belongs to has completed and its output was
// recorded.
func (w *wholeCalls) isOfWhole(scope string) bool {
	around, err := record.ParseAddress(callOf(scope))
	if err != nil {
		return false
	}
	t := w.calls[around]
	return t != nil && t.Phase == record.StateCompleted && t.HasOutput && !t.kind.IsParallel()
}
