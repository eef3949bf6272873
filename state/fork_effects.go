package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ForkEffects specifies how to handle calls that have had effects but that a fork does not keep.
// See [EffectsAfter].
type ForkEffects uint8

const (
	// RefuseEffects refuses the fork if there are such calls.
	RefuseEffects ForkEffects = iota
	// TakeOverEffects lets the fork's calls take over the effects of irreversible calls, or ask a
	// person, as described at actors.WithIrreversible. It refuses the fork if other calls have had
	// effects.
	TakeOverEffects
	// RepeatEffects handles irreversible calls like TakeOverEffects, and lets the fork make the
	// other calls again, with their old idempotency keys unless [ForkOptions.NewKeys] is set.
	RepeatEffects
)

// ErrEffects is wrapped by the error from [Fork] if somebody has to decide how to handle effects.
// The error is an *[EffectsError].
var ErrEffects = errors.New("the fork would not keep calls that have had effects")

// An EffectsError lists the old run's calls that have had effects and that the fork would not keep.
type EffectsError struct {
	Calls []EffectCall
}

// Error lists the calls and the possible decisions.
func (e *EffectsError) Error() string {
	calls := make([]string, 0, maxListed+1)
	others, compensable := false, false
	for i, c := range e.Calls {
		others, compensable = others || !c.Irreversible, compensable || c.Compensable && !c.CompensationFailed
		if i < maxListed {
			calls = append(calls, c.String())
		}
	}
	if more := len(e.Calls) - maxListed; more > 0 {
		calls = append(calls, fmt.Sprintf("and %d more", more))
	}
	decisions := "TakeOverEffects, so that the fork takes over what they did"
	if others {
		decisions = "RepeatEffects, so that the fork repeats the calls that are not irreversible"
	}
	if compensable {
		decisions += "; or compensate them first, by cancelling the run if it has not ended"
	}
	return fmt.Sprintf("%v: %s; decide with ForkOptions.Effects: %s", ErrEffects, strings.Join(calls, ", "), decisions)
}

// Unwrap returns [ErrEffects].
func (e *EffectsError) Unwrap() error { return ErrEffects }

// An EffectCall is a call that has had an effect, or may have had one: it is irreversible, it can
// be compensated, or it is in doubt. Calls that were compensated are left out, but a call whose
// compensation failed or has not ended is included.
type EffectCall struct {
	Address record.Address `json:"address"`
	Kind    record.Kind    `json:"event_type"`
	Name    string         `json:"name"` // of the actor

	Irreversible bool `json:"irreversible,omitempty"` // a fork can take its effect over
	Compensable  bool `json:"compensable,omitempty"`
	InDoubt      bool `json:"in_doubt,omitempty"`

	CompensationFailed bool `json:"compensation_failed,omitempty"` // its compensation failed for good, so the effect still exists

	seq    uint64         // number of the record of its outcome, or of its latest start
	effect *record.Effect // of an irreversible call
}

// String returns the address and a description of the call.
func (c EffectCall) String() string {
	var is []string
	for _, trait := range []struct {
		has  bool
		name string
	}{{c.Irreversible, "irreversible"}, {c.Compensable && !c.CompensationFailed, "has a compensation"}, {c.CompensationFailed, "its compensation failed"}, {c.InDoubt, "in doubt"}} {
		if trait.has {
			is = append(is, trait.name)
		}
	}
	return fmt.Sprintf("%s (%s)", c.Address, strings.Join(is, ", "))
}

// EffectsAfter returns the calls with effects that a [Fork] of the run at address would not keep,
// in the order of their records. It uses only the Outputs of o.
func EffectsAfter(ctx context.Context, store snapshot.Store, runID string, address record.Address, o ForkOptions) ([]EffectCall, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	f, err := loadFork(ctx, store, runID, address)
	if err == nil {
		err = f.set(o.Outputs)
	}
	if err != nil {
		return nil, fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	return f.effectsAfter(), nil
}

// effectsAfter returns the calls that have had effects and that the fork does not keep.
func (f *fork) effectsAfter() []EffectCall {
	r, first := f.parent, f.first
	found := make(map[record.Address]*EffectCall)
	var inherited []EffectCall
	call := func(a record.Address, kind record.Kind, name string, seq uint64) *EffectCall {
		if found[a] == nil {
			found[a] = &EffectCall{Address: a, Kind: kind, Name: name, seq: seq}
		}
		return found[a]
	}
	isBehind := func(a record.Address, ended uint64, hasOutcome bool) bool {
		isOfWhole := f.whole && (a == f.address || isAround(f.address, a))
		return (!hasOutcome || ended >= first) && !isAround(a, f.address) && !isOfWhole
	}
	for _, e := range r.effects.list() {
		if !e.isLeft() {
			continue
		}
		known := r.readEffect(e)
		switch {
		case e.RunID != "":
			inherited = append(inherited, EffectCall{Address: e.Address, Kind: e.Kind, Name: e.Name, Irreversible: true, InDoubt: known.InDoubt, effect: known})
		case isBehind(e.Address, e.Seq, e.progress.HasOutcome()) && !f.keepsOriginOf(e):
			c := call(e.Address, e.Kind, e.Name, e.Seq)
			c.Irreversible, c.InDoubt, c.effect = true, known.InDoubt, known
		}
	}
	for a, completions := range r.compensable {
		last := completions[len(completions)-1]
		if nth := len(completions); isBehind(a, last.ended, !last.open) && !r.undone[undoAddress(a, last.name, nth)] {
			c := call(a, last.kind, last.name, last.ended)
			c.Compensable, c.InDoubt = true, c.InDoubt || last.inDoubt
			c.CompensationFailed = r.compensationFailed(a, last.name, nth)
		}
	}
	for a, t := range r.calls {
		if (t.kind == record.KindTool || t.kind == record.KindStep) && t.InDoubt() && isBehind(a, t.Last, t.HasOutcome()) && !r.isCompensated(a) {
			c := call(a, t.kind, r.nameOf(t), t.Last)
			c.InDoubt = true
		}
	}
	all := inherited
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortStableFunc(all, func(x, y EffectCall) int {
		return cmp.Or(cmp.Compare(x.seq, y.seq), strings.Compare(x.Address.String(), y.Address.String()))
	})
	return all
}

// list returns all effects, inherited effects first.
func (all *effects) list() []*effect {
	list := slices.Clone(all.inherited)
	for _, e := range all.latest {
		list = append(list, e)
	}
	for _, older := range all.earlier {
		list = append(list, older...)
	}
	return list
}

// keepsOriginOf reports whether e was taken over, directly or through other calls, from an effect
// of the same run that the fork keeps or that is in doubt in the fork.
func (f *fork) keepsOriginOf(e *effect) bool {
	for e = e.took; e != nil; e = e.took {
		isKept := e.Seq < f.first || f.whole && e.Address == f.address
		if e.RunID == "" && (isKept && e.progress.HasOutcome() || isAround(e.Address, f.address)) {
			return true
		}
	}
	return false
}

// readEffect returns the effect in the form that records contain, with its output.
func (r *restoredRun) readEffect(e *effect) *record.Effect {
	known := e.toRecord()
	if known.RunID == "" && !known.InDoubt {
		outcome, err := r.found.Record(known.Seq)
		if known.Output = outcome.Encoded(); err != nil || len(known.Output) == 0 && known.Artifact == "" {
			known.NoOutput = true
		}
	}
	return &known
}

// nameOf returns the name of the actor that a call invokes.
func (r *restoredRun) nameOf(t *track) string {
	latest, err := r.found.Record(t.Last)
	if err != nil {
		return ""
	}
	return latest.Name
}

// decide returns the effects that the fork takes over, or an error if the caller has to decide how to
// handle the calls that the fork does not keep.
func (e ForkEffects) decide(runID string, calls []EffectCall) (effects []record.Effect, err error) {
	refuses := e == RefuseEffects && len(calls) > 0
	for _, c := range calls {
		if refuses = refuses || e == TakeOverEffects && !c.Irreversible; c.effect == nil {
			continue
		}
		effect := *c.effect
		effect.RunID = cmp.Or(effect.RunID, runID)
		effects = append(effects, effect)
	}
	if refuses {
		return nil, &EffectsError{Calls: calls}
	}
	return effects, nil
}
