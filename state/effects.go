package state

import (
	"math"
	"slices"

	"github.com/reprise-go/reprise/record"
)

// effects holds a run's effects according to its records: what calls to irreversible actors did, or
// may have done. An effect remains until it is compensated or another call takes it over.
type effects struct {
	latest    map[record.Address]*effect   // the latest effect of each call
	earlier   map[record.Address][]*effect // earlier effects of calls that were made again, in order
	scopes    map[string]*effectScope      // by path
	attempts  map[string]*attemptScopes    // by the path of the call
	inherited []*effect                    // effects that a fork inherits from its parents
	leftOver  []*effect                    // effects left over when the surrounding call ended

	keepsOutputs bool // keep outputs, since they cannot be read again from a store
}

// effect describes the effect of one call.
type effect struct {
	record.Effect
	withoutAttempts string  // the address of the call without attempts; empty until needed
	first           uint64  // the first record of the call
	took            *effect // the other call's effect that this call took over, or nil
	takenBy         *effect // the effect of the call that took this effect over, or nil
	progress        record.Progress
	gone            bool // taken over, or compensated
	cached          bool // a cache answered the call: the effect belongs to another call
	reported        bool // already reported as left over
}

// isLeft reports whether a call might repeat the effect.
func (e *effect) isLeft() bool { return !e.gone && (e.hasCompleted() || e.isInDoubt()) }

func (e *effect) hasCompleted() bool { return e.progress.Phase == record.StateCompleted && !e.cached }

// isInDoubt reports whether the call began and its outcome is not known.
func (e *effect) isInDoubt() bool {
	return e.progress.InDoubt() || e.progress.Phase == record.StateAsking
}

// toRecord returns the effect in the form that records contain.
func (e *effect) toRecord() record.Effect {
	known := e.Effect
	known.InDoubt = !e.hasCompleted()
	return known
}

// inherit adds the effects that a fork inherits from its parents.
func (all *effects) inherit(parents []record.Effect) {
	for _, p := range parents {
		e := &effect{Effect: p}
		if e.progress.Phase = record.StateCompleted; p.InDoubt {
			e.progress.Phase = record.StateRunning
		}
		all.inherited = append(all.inherited, e)
	}
}

// follow processes the run's next record.
func (all *effects) follow(rec *record.Record) {
	if !rec.Kind.IsCall() {
		return
	}
	if rec.Kind == record.KindCompensation {
		all.followUndo(rec)
		return
	}
	e := all.latest[rec.Address]
	if marked := rec.Detail != nil && rec.Detail.Irreversible; marked {
		took := all.takenBy(rec)
		takesOver := took != nil && rec.Status == record.StatusCompleted
		if e == nil || e.gone || takesOver || rec.Reason == record.ReasonDivergence && beginsAnew(rec) {
			e = all.add(rec, e)
		}
		if takesOver {
			e.took, took.takenBy = took, e // took is older, so there are no cycles
		}
	}
	if e == nil {
		return
	}
	e.progress.Add(rec)
	if rec.Status == record.StatusStarted || rec.IsOutcome() {
		e.Seq = rec.Seq
	}
	if rec.Status == record.StatusCompleted {
		e.cached, e.Artifact = rec.Detail != nil && rec.Detail.Cached, rec.Artifact()
		if all.keepsOutputs {
			e.Output = rec.Encoded()
		}
	}
	if rec.Detail != nil && !rec.Detail.InputHash.IsZero() {
		e.Input = rec.Detail.InputHash
	}
}

// add adds the effect of a call that begins. old is the call's previous effect, or nil.
func (all *effects) add(rec *record.Record, old *effect) *effect {
	if all.latest == nil {
		all.latest, all.earlier = make(map[record.Address]*effect), make(map[record.Address][]*effect)
	}
	if old != nil {
		all.earlier[rec.Address] = append(all.earlier[rec.Address], old)
	}
	e := &effect{Effect: record.Effect{Address: rec.Address, Kind: rec.Kind, Name: rec.Name}, first: rec.Seq}
	all.latest[rec.Address] = e
	for scope := all.scope(rec.Address.Scope()); scope != nil; scope = scope.around {
		scope.all = append(scope.all, e)
	}
	return e
}

// takenBy returns the effect that the call takes over according to the record, or nil. It also
// marks the effect as gone.
func (all *effects) takenBy(rec *record.Record) *effect {
	if rec.Detail.Effect == nil {
		return nil
	}
	all.take(rec.Detail.Effect)
	if rec.Status == record.StatusCompleted {
		all.takeInside(rec.Detail.Effect)
	}
	return all.find(rec.Detail.Effect)
}

// take marks the effect at a place as gone because another call takes it over. It reports whether,
// until then, a call might have repeated the effect.
func (all *effects) take(place *record.Effect) bool {
	e := all.find(place)
	if e == nil || !e.isLeft() {
		return false
	}
	e.gone = true
	return true
}

// takeInside removes the effects of the calls inside a call whose effect was taken over, because
// they are part of that effect.
func (all *effects) takeInside(taken *record.Effect) {
	if taken.RunID == "" {
		all.dropInside(taken.Address.String())
		return
	}
	for _, e := range all.inherited {
		if e.RunID == taken.RunID && isAround(taken.Address, e.Address) {
			e.gone = true
		}
	}
}

// dropInside removes the effects inside the call at the path.
func (all *effects) dropInside(path string) {
	for e := range all.inAttempts(path, math.MaxInt) {
		e.gone = true
	}
}

// find returns the effect at a place, or nil if there is none.
func (all *effects) find(place *record.Effect) *effect {
	is := func(e *effect) bool { return e != nil && e.Seq == place.Seq }
	if place.RunID != "" {
		for _, e := range all.inherited {
			if e.RunID == place.RunID && e.Address == place.Address && is(e) {
				return e
			}
		}
		return nil
	}
	if e := all.latest[place.Address]; is(e) {
		return e
	}
	if i := slices.IndexFunc(all.earlier[place.Address], is); i >= 0 {
		return all.earlier[place.Address][i]
	}
	return nil
}

// followUndo processes a record of a compensation. Once the compensation has completed, the effects
// of the compensated call and of the calls inside it no longer exist.
func (all *effects) followUndo(rec *record.Record) {
	if rec.Status != record.StatusCompleted || len(all.latest) == 0 {
		return
	}
	path := callOf(rec.Address.Scope())
	if undone, err := record.ParseAddress(path); err == nil && all.latest[undone] != nil {
		for e := all.latest[undone]; e != nil; e = e.takenBy { // including those of the calls that took it over
			e.gone = true
		}
	}
	all.dropInside(path)
}
