package state

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// This file finds the effect that a call might repeat.

// Effect implements engine.Run.
func (r *run) Effect(s *engine.Scope, q engine.EffectQuery) (*engine.FoundEffect, error) {
	r.mu.Lock()
	if q.Take != nil {
		e := r.effects.find(q.Take)
		if e == nil || !r.effects.take(q.Take) {
			r.mu.Unlock()
			return nil, nil
		}
		found := &engine.FoundEffect{Effect: e.toRecord()}
		r.mu.Unlock()
		return found, nil
	}
	found := r.findEffect(s, q)
	r.mu.Unlock()
	if found != nil && !found.InDoubt {
		r.loadEffect(&found.Effect)
	}
	return found, nil
}

// findEffect returns the effect that is closest to the call, as described at
// actors.WithIrreversible. r.mu must be held.
func (r *run) findEffect(s *engine.Scope, q engine.EffectQuery) *engine.FoundEffect {
	spec, call := s.Spec(), ""
	var closest *effect
	nearest := closeness(0)
	for e := range r.repeatable(s) {
		if !e.isLeft() || e.Kind != spec.Kind || e.Name != spec.Name {
			continue
		}
		if call == "" {
			call = s.Address().WithoutAttempts()
		}
		if near := e.closenessTo(q.Identity, call); near > nearest {
			closest, nearest = e, near
		}
	}
	if closest == nil {
		return nil
	}
	return &engine.FoundEffect{
		Effect: closest.toRecord(), Here: outerScope(closest.call()) == outerScope(call), Same: closest.Input == q.Identity,
		TakeOver: nearest >= equalHere || nearest == equalElsewhere && q.Declared,
	}
}

// call returns the address of the call without attempts.
func (e *effect) call() string {
	if e.withoutAttempts == "" {
		e.withoutAttempts = e.Address.WithoutAttempts()
	}
	return e.withoutAttempts
}

// closeness ranks how well an earlier effect matches a call that may repeat it; 0 means that it
// does not match.
type closeness uint8

const (
	otherHere      closeness = iota + 1 // at the same place, with another input
	equalElsewhere                      // completed with the same input, at another place
	equalInDoubt                        // with the same input, and in doubt
	equalHere                           // completed with the same input, at the same place
	equalCall                           // like equalHere, and the call's number is the same, too
)

// closenessTo returns how well the effect matches a call, given the hash of the call's input and
// its address without attempts. Calls in the same scope are at the same place.
func (e *effect) closenessTo(identity record.Hash, call string) closeness {
	equal, own := e.Input == identity, e.call()
	switch here := outerScope(own) == outerScope(call); {
	case !equal && here:
		return otherHere
	case !equal:
		return 0
	case !e.hasCompleted():
		return equalInDoubt
	case !here:
		return equalElsewhere
	case own != call:
		return equalHere
	}
	return equalCall
}

// repeatable yields the effects that a call with the scope s might repeat: the effects in earlier
// attempts of the surrounding calls, the effects that a fork inherits from its parents, and the
// effects of calls that are made again. r.mu must be held.
func (r *run) repeatable(s *engine.Scope) iter.Seq[*effect] {
	return func(yield func(*effect) bool) {
		all := &r.effects
		if !each(all.inherited, yield) {
			return
		}
		for in := all.scope(s.Address().Scope()); in != nil; in = in.around {
			for _, earlier := range in.attempts.scopes {
				if earlier.attempt >= in.attempt {
					continue
				}
				earlier.all = withoutGone(earlier.all)
				if !each(earlier.all, yield) {
					return
				}
			}
		}
		if r.rerun.since != nil {
			each(r.madeAnew(s), yield)
		}
	}
}

// withoutGone removes the effects at the beginning of the list that are gone. Later effects are
// rarely gone, since calls mostly take effects over in order.
func withoutGone(all []*effect) []*effect {
	for len(all) > 0 && all[0].gone {
		all = all[1:]
	}
	return all
}

// madeAnew returns the effects of calls that no longer count because a divergence was recorded
// after them. r.mu must be held.
func (r *run) madeAnew(s *engine.Scope) (all []*effect) {
	if r.rerun.at(s.Parent()) == 0 {
		return nil
	}
	for _, e := range r.effects.latest {
		if r.isMadeAnew(e, s) {
			all = append(all, e)
		}
	}
	for _, older := range r.effects.earlier {
		for _, e := range older {
			if r.isMadeAnew(e, s) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(x, y *effect) int { return int(x.first) - int(y.first) })
	return all
}

// isMadeAnew reports whether a divergence was recorded between the effect and the call that the
// program makes, or will make, in its place. The program is making the call of s.
func (r *run) isMadeAnew(e *effect, s *engine.Scope) bool {
	path := e.Address.String()
	for scope := s.Parent(); scope != nil; scope = scope.Parent() {
		inside := path
		if at := scope.Path(); at != "" {
			var ok bool
			if inside, ok = strings.CutPrefix(path, at+"/"); !ok {
				continue
			}
		}
		next, _, _ := strings.Cut(inside, "/") // the call in this scope that leads to the effect
		made, err := record.ParseAddress(strings.TrimSuffix(path, inside) + callOf(next))
		if err != nil {
			return false
		}
		since, claimed := r.rerun.since[made]
		if t := r.restored.calls[made]; !claimed && (t == nil || !t.asked) {
			since = r.rerun.at(scope) // a claim of the effect's call would come after the divergence
		}
		return e.first <= since
	}
	return false
}

// loadEffect reads an effect's output into e. If the output cannot be read, it sets NoOutput.
func (r *run) loadEffect(e *record.Effect) {
	if e.RunID == "" && len(e.Output) == 0 && e.Artifact == "" && r.restored != nil {
		if outcome, err := r.restored.found.Record(e.Seq); err == nil {
			e.Output = outcome.Encoded()
		}
	}
	if e.Artifact != "" && len(e.Output) == 0 {
		e.Output, _ = r.readArtifact(context.Background(), e.Address, e.Artifact)
	}
	e.NoOutput = e.NoOutput || len(e.Output) == 0
}
