package state

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// effects are the effects of a run according to its records: what calls of irreversible
// actors did, or may have done. An effect is left until another call takes it over, or it
// is compensated.
type effects struct {
	at        map[record.Address]*effect   // the latest of each call
	before    map[record.Address][]*effect // those of calls that were made anew, in order
	scopes    map[string]*effectScope      // by path
	attempts  map[string]*attemptScopes    // by the path of the call
	inherited []*effect                    // of the parents of a fork
	over      []*effect                    // left when the call around them had ended

	keepsOutputs bool // they cannot be read again from the store
}

// effectScope holds the effects in a scope, also in those inside it, in order.
type effectScope struct {
	all     []*effect
	around  *effectScope // nil if the scope around it is the run
	attempt int
	of      *attemptScopes // of the call whose attempt it is
}

// attemptScopes are the scopes of the attempts of one call, as far as there were effects.
type attemptScopes struct{ scopes []*effectScope }

// effect is what one call did.
type effect struct {
	record.Effect
	withoutAttempts string  // its address; empty until it is asked for
	first           uint64  // the first record of the call
	took            *effect // of another call, which is the same effect; nil for none
	takenBy         *effect // the effect of the call that took it over; nil for none
	progress        record.Progress
	gone            bool // taken over, or compensated
	cached          bool // its call was answered by a cache: the effect is that of another one
	reported        bool // among those that were left over
}

// isLeft reports whether a call might repeat the effect.
func (e *effect) isLeft() bool { return !e.gone && (e.hasCompleted() || e.isInDoubt()) }

func (e *effect) hasCompleted() bool { return e.progress.Phase == record.PhaseSucceeded && !e.cached }

// isInDoubt reports whether the call began and its outcome is not known.
func (e *effect) isInDoubt() bool {
	return e.progress.InDoubt() || e.progress.Phase == record.PhaseAsking
}

// known returns the effect as records show it.
func (e *effect) known() record.Effect {
	known := e.Effect
	known.InDoubt = !e.hasCompleted()
	return known
}

// inherit adds the effects that a fork has from its parents.
func (all *effects) inherit(parents []record.Effect) {
	for _, p := range parents {
		e := &effect{Effect: p}
		if e.progress.Phase = record.PhaseSucceeded; p.InDoubt {
			e.progress.Phase = record.PhaseRunning
		}
		all.inherited = append(all.inherited, e)
	}
}

// scope returns the scope with the path, nil for the run itself.
func (all *effects) scope(path string) *effectScope {
	if path == "" {
		return nil
	}
	s := all.scopes[path]
	if s != nil {
		return s
	}
	if all.scopes == nil {
		all.scopes, all.attempts = make(map[string]*effectScope), make(map[string]*attemptScopes)
	}
	call := callOf(path)
	of := all.attempts[call]
	if of == nil {
		of = new(attemptScopes)
		all.attempts[call] = of
	}
	s = &effectScope{around: all.scope(outer(path)), attempt: attemptNumber(path), of: of}
	of.scopes = append(of.scopes, s)
	all.scopes[path] = s
	return s
}

// follow follows the next record of the run.
func (all *effects) follow(rec *record.Record) {
	if !rec.Kind.IsCall() {
		return
	}
	if rec.Kind == record.KindCompensation {
		all.followUndo(rec)
		return
	}
	e := all.at[rec.Address]
	if marked := rec.Detail != nil && rec.Detail.Irreversible; marked {
		took := all.takenBy(rec)
		takesOver := took != nil && rec.Status == record.StatusCompleted
		if e == nil || e.gone || takesOver || rec.Reason == record.ReasonDivergence && beginsAnew(rec) {
			e = all.add(rec, e)
		}
		if takesOver {
			e.took, took.takenBy = took, e // which is older: there are no circles
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

// add adds the effect of a call that begins, and had the effect old before.
func (all *effects) add(rec *record.Record, old *effect) *effect {
	if all.at == nil {
		all.at, all.before = make(map[record.Address]*effect), make(map[record.Address][]*effect)
	}
	if old != nil {
		all.before[rec.Address] = append(all.before[rec.Address], old)
	}
	e := &effect{Effect: record.Effect{Address: rec.Address, Kind: rec.Kind, Name: rec.Name}, first: rec.Seq}
	all.at[rec.Address] = e
	for scope := all.scope(rec.Address.Scope()); scope != nil; scope = scope.around {
		scope.all = append(scope.all, e)
	}
	return e
}

// takenBy returns the effect that the record says was taken, nil for none.
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

// take removes the effect at a place: another call has it now.
func (all *effects) take(place *record.Effect) bool {
	e := all.find(place)
	if e == nil || !e.isLeft() {
		return false
	}
	e.gone = true
	return true
}

// takeInside removes the effects of the calls inside one whose effect was taken over: they
// are part of that.
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

// inAttempts yields the effects in the attempts of the call at the path that come before
// the attempt with the number.
func (all *effects) inAttempts(path string, attempt int) iter.Seq[*effect] {
	return func(yield func(*effect) bool) {
		of := all.attempts[path]
		if of == nil {
			return
		}
		for _, s := range of.scopes {
			if s.attempt < attempt && !each(s.all, yield) {
				return
			}
		}
	}
}

// find returns the effect at a place, nil if there is none.
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
	if e := all.at[place.Address]; is(e) {
		return e
	}
	if i := slices.IndexFunc(all.before[place.Address], is); i >= 0 {
		return all.before[place.Address][i]
	}
	return nil
}

// followUndo follows a record of a compensation: what the call did, and what the calls
// inside it did, does not stand any more once that completed.
func (all *effects) followUndo(rec *record.Record) {
	if rec.Status != record.StatusCompleted || len(all.at) == 0 {
		return
	}
	path := callOf(rec.Address.Scope())
	if undone, err := record.ParseAddress(path); err == nil && all.at[undone] != nil {
		for e := all.at[undone]; e != nil; e = e.takenBy { // also what took it over
			e.gone = true
		}
	}
	all.dropInside(path)
}

// leftBy returns the effects that are left in earlier attempts of the call that rec ends.
func (all *effects) leftBy(rec *record.Record) []*effect {
	if rec.Attempt == 0 || !rec.IsOutcome() || len(all.at) == 0 {
		return nil
	}
	path := rec.Address.String()
	var left []*effect
	for e := range all.inAttempts(path, rec.Attempt) {
		if e.isLeft() && !e.reported {
			e.reported = true
			left = append(left, e)
		}
	}
	all.over = append(all.over, left...)
	return left
}

// attemptNumber returns the attempt, from 0, whose scope has the path; 0 also for a scope that
// is not that of an attempt.
func attemptNumber(scope string) int {
	var n int
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		if _, err := fmt.Sscanf(scope[at:], "@%d", &n); err == nil {
			return n - 1
		}
	}
	return 0
}

// Effect implements engine.Run.
func (r *run) Effect(s *engine.Scope, q engine.EffectQuery) (*engine.FoundEffect, error) {
	r.mu.Lock()
	if q.Take != nil {
		e := r.effects.find(q.Take)
		if e == nil || !r.effects.take(q.Take) {
			r.mu.Unlock()
			return nil, nil
		}
		found := &engine.FoundEffect{Effect: e.known()}
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

// findEffect returns the effect that a call comes closest to, as the documentation of
// actors.WithIrreversible has it. r.mu must be held.
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
		Effect: closest.known(), Here: outer(closest.call()) == outer(call), Same: closest.Input == q.Identity,
		TakeOver: nearest >= equalHere || nearest == equalElsewhere && q.Declared,
	}
}

// call is the address without attempts.
func (e *effect) call() string {
	if e.withoutAttempts == "" {
		e.withoutAttempts = e.Address.WithoutAttempts()
	}
	return e.withoutAttempts
}

// closeness is how close an effect comes to what a call would do; 0 for not at all.
type closeness uint8

const (
	otherHere      closeness = iota + 1 // at the same place, with another input
	equalElsewhere                      // completed with the same input, at another place
	equalInDoubt                        // with the same input, and in doubt
	equalHere                           // completed with the same input, at the same place
	equalCall                           // and with the same number
)

// closenessTo returns how close the effect comes to a call with the input, at an address
// without attempts. Calls in one scope are at the same place.
func (e *effect) closenessTo(identity record.Hash, call string) closeness {
	equal, own := e.Input == identity, e.call()
	switch here := outer(own) == outer(call); {
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

// repeatable returns the effects that a call with the scope s might repeat: those in
// earlier attempts of the calls around it, those that a fork has from its parents, and
// those that calls had done which are made anew. r.mu must be held.
func (r *run) repeatable(s *engine.Scope) iter.Seq[*effect] {
	return func(yield func(*effect) bool) {
		all := &r.effects
		if !each(all.inherited, yield) {
			return
		}
		for in := all.scope(s.Address().Scope()); in != nil; in = in.around {
			for _, earlier := range in.of.scopes {
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

// each reports whether yield has returned true for each effect.
func each(all []*effect, yield func(*effect) bool) bool {
	for _, e := range all {
		if !yield(e) {
			return false
		}
	}
	return true
}

// withoutGone returns the effects without those at the beginning that are gone: calls take
// them mostly in order.
func withoutGone(all []*effect) []*effect {
	for len(all) > 0 && all[0].gone {
		all = all[1:]
	}
	return all
}

// madeAnew returns the effects of calls that no longer count, since a divergence was
// recorded after them. r.mu must be held.
func (r *run) madeAnew(s *engine.Scope) (all []*effect) {
	if r.rerun.at(s.Parent()) == 0 {
		return nil
	}
	for _, e := range r.effects.at {
		if r.isMadeAnew(e, s) {
			all = append(all, e)
		}
	}
	for _, older := range r.effects.before {
		for _, e := range older {
			if r.isMadeAnew(e, s) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(x, y *effect) int { return int(x.first) - int(y.first) })
	return all
}

// isMadeAnew reports whether a divergence comes between the effect and the call that the
// program makes, or will make, in its place. The scopes of s are those in which the
// program is.
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
			since = r.rerun.at(scope) // it is claimed after the divergence, if at all
		}
		return e.first <= since
	}
	return false
}

// loadEffect reads the output of an effect. Without one that can be read, the effect has
// no output.
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

// leftOver returns the effects that nobody took over: those of earlier attempts of calls
// that have ended, and, once the run has, those of the parents of a fork. r.mu must be held.
func (r *run) leftOver() (left []record.Effect) {
	for _, e := range r.effects.over {
		if e.isLeft() {
			left = append(left, e.known())
		}
	}
	if status := r.status(); status == StatusCompleted || status == StatusFailed {
		for _, e := range r.effects.inherited {
			if e.isLeft() {
				left = append(left, e.known())
			}
		}
	}
	return left
}

// warnLeftOver records that effects were left over.
func (r *run) warnLeftOver(s *engine.Scope, rec *record.Record, left []*effect) {
	for _, e := range left {
		_ = r.Append(s, record.Record{ // the warning is lost if that attempt is over
			Time: now(), Address: rec.Address, Kind: record.KindLog, Status: record.StatusRecorded,
			Detail: &record.Detail{Severity: slog.LevelWarn, Message: leftOverMessage(e), Effect: e.Place()},
		})
	}
}

// warnInherited records the effects of the parents of a fork that are left over when the
// fork ends. r.mu must be held.
func (r *run) warnInherited() {
	if status := r.status(); status != StatusCompleted && status != StatusFailed || !r.rootCalls.begun {
		return
	}
	for _, e := range r.effects.inherited {
		if e.isLeft() {
			r.keep(&record.Record{
				Time: now(), Kind: record.KindLog, Status: record.StatusRecorded,
				Detail: &record.Detail{Severity: slog.LevelWarn, Message: leftOverMessage(e), Effect: e.Place()},
			})
		}
	}
}

func leftOverMessage(e *effect) string {
	what := "it stands, and no call of the program has taken it over"
	if !e.hasCompleted() {
		what = "it may have taken effect, and no call of the program has taken it over"
	}
	return fmt.Sprintf("the effect of %s is left over: %s", &e.Effect, what)
}
