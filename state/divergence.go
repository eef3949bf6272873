package state

import (
	"fmt"
	"log/slog"
	"maps"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// DivergencePolicy specifies how to handle a run whose program does not make the recorded calls.
// The program may make a different call in place of a recorded one, make a recorded call with a
// different input, or end before it has made all recorded calls.
type DivergencePolicy uint8

const (
	// DivergenceFail stops the run before any part of the differing call runs. The run is
	// interrupted, and the error is a *core.InterruptedError that wraps a *core.DivergenceError.
	// The run can continue with the previous program, or with a corrected one. This is the default.
	DivergenceFail DivergencePolicy = iota
	// DivergenceTrust uses the outcome that was recorded at the call's address. A warning is
	// recorded, the [Report] lists the call, and the metadata of the call's recovered record
	// contains "diverged". If the recorded output does not fit its type, it cannot be used and the
	// run stops. A call that had begun, but has no outcome, continues with the new input, and its
	// preconditions do not run again.
	DivergenceTrust
	// DivergenceRerun makes the differing call again, and then every later call in its scope and in
	// the scopes around it. The same applies to a call whose recorded output does not fit its type.
	// Calls that were made or prepared earlier, and calls in other branches of a group, keep their
	// recorded outcomes. If a call that is made again has a compensation, both of its effects are
	// compensated. A warning is recorded, and the [Report] lists the call. If the program ends
	// before it has made all recorded calls, DivergenceRerun acts like DivergenceTrust.
	DivergenceRerun
)

// WithDivergence specifies how to handle a run whose program differs from its records. It applies
// to [Open] and [Replay]; [Validate] returns all differences instead.
func WithDivergence(policy DivergencePolicy) Option {
	return func(c *config) {
		if policy > DivergenceRerun {
			c.refuse(fmt.Errorf("state: WithDivergence(%d): want DivergenceFail, DivergenceTrust or DivergenceRerun", policy))
		}
		c.divergence = policy
		c.limitTo("WithDivergence", inOpen|inReplay)
	}
}

// rerun determines which recorded calls are made again. A differing call is recorded as a
// divergence. For every later claim in its scope and in the scopes around it, only records after
// the divergence count. Because the divergence is recorded, this also holds if the run is stopped
// and resumed before all of these calls have been made again.
//
// A divergence is identified by the number of its record; 0 means none.
type rerun struct {
	after     map[*engine.Scope]uint64    // the latest divergence before the next claim, by scope
	since     map[record.Address]uint64   // the latest divergence before each call or group that was claimed
	discarded map[record.Address]struct{} // calls whose records no longer count
}

// watchDivergence starts tracking claims if a claim may differ from the call that was recorded at the
// same address.
func (r *run) watchDivergence() {
	if r.config.divergence != DivergenceRerun && !r.restored.diverged && !r.restored.unclaimed {
		return
	}
	r.rerun = rerun{make(map[*engine.Scope]uint64), make(map[record.Address]uint64), make(map[record.Address]struct{})}
}

// followClaim processes the claim of a call. r.mu must be held.
func (r *run) followClaim(s *engine.Scope, c record.Claim) {
	since, t := r.rerun.at(s), r.restored.calls[c.Address]
	if t != nil && t.diverged > since {
		since = t.diverged
		r.rerun.divergeFrom(s, since)
	}
	if r.config.divergence == DivergenceRerun {
		if d := r.divergesNow(s, c, t, since); d != nil {
			since = r.diverge(c, d)
			r.rerun.divergeFrom(s, since)
		}
	}
	if t.isReplacedBy(c) {
		since = uint64(r.keeper.len())
	}
	if since > 0 {
		r.rerun.since[c.Address] = since
	}
	if t != nil && !t.isMadeAfter(since) {
		r.rerun.discarded[c.Address] = struct{}{}
	}
	_ = r.write() // an error is returned again when the call begins
}

// divergesNow compares a claim with the records made after since, the latest divergence before the
// claim. It returns the difference, or nil if there is none. r.mu must be held.
func (r *run) divergesNow(s *engine.Scope, c record.Claim, t *track, since uint64) *core.DivergenceError {
	anew := t != nil && !t.isMadeAfter(since)
	if r.rerun.within(s) > 0 && (t == nil || anew) {
		return nil // the surrounding call is made again in any case
	}
	return r.restored.divergenceOf(r.settings.RunID, s.Path(), r.restored.ordinals[s.Path()], t, c, anew)
}

// diverge records that the differing call and the calls after it are to be made again. It returns
// the number of that record. r.mu must be held.
func (r *run) diverge(c record.Claim, d *core.DivergenceError) uint64 {
	message := "the input of the call differs from the recorded one: the call is made again, and so are the calls after it"
	if d.How == "output" || d.How == "swap" {
		message = d.Difference() + ": the call is made again, and so are the calls after it"
	}
	rec := record.Record{Time: now(), Address: c.Address, Kind: record.KindLog, Status: record.StatusRecorded, Reason: record.ReasonDivergence}
	if d.How != "input" && d.How != "output" && d.How != "swap" {
		message = d.Difference() + ": the call is made, and the calls after it are made again"
		rec.Ordinal, rec.Name = c.Ordinal, d.Scope
		r.restored.ordinals.at(d.Scope).uncheck(c.Ordinal)
	}
	r.restored.ordinals.uncheckAfterScope(d.Scope, r.restored.calls)
	r.restored.ordinals.uncheckAfter(c.Address, r.restored.calls)
	r.report.Diverged = append(r.report.Diverged, c.Address)
	rec.Detail = &record.Detail{Severity: slog.LevelWarn, InputHash: c.Input, Message: message}
	r.keep(&rec)
	return uint64(r.keeper.len())
}

// makeAgain causes a claimed call, and all calls that are claimed after it, to be made again. r.mu
// must be held.
func (r *run) makeAgain(s *engine.Scope, c record.Claim, d *core.DivergenceError) {
	since := r.diverge(c, d)
	r.rerun.divergeFrom(s, since)
	r.rerun.since[c.Address] = since
	r.rerun.discarded[c.Address] = struct{}{}
	_ = r.write() // an error is returned again when the call begins
}

// mark sets a key in the metadata of a recalled call's record. The key indicates that the call's
// input or request has changed.
func mark(rec *record.Record, key string) {
	detail := record.Detail{}
	if rec.Detail != nil {
		detail = *rec.Detail
	}
	detail.Metadata = maps.Clone(detail.Metadata)
	if detail.Metadata == nil {
		detail.Metadata = make(map[string]any)
	}
	detail.Metadata[key] = true
	rec.Detail = &detail
}

// key returns the key of s in the map r.after. All root scopes have the key nil, because the root
// calls of all contexts are numbered together.
func (*rerun) key(s *engine.Scope) *engine.Scope {
	if s.Parent() == nil {
		return nil
	}
	return s
}

// at returns the latest divergence before the next call that is claimed in s.
func (r *rerun) at(s *engine.Scope) uint64 { return max(r.after[r.key(s)], r.within(s)) }

// within returns the latest divergence before the call that s is an attempt of, and therefore
// before everything in s.
func (r *rerun) within(s *engine.Scope) uint64 { return r.since[s.Address()] }

// divergeFrom places the divergence before everything that is claimed from now on in s and in the
// scopes around s.
func (r *rerun) divergeFrom(s *engine.Scope, divergence uint64) {
	for ; s != nil; s = s.Parent() {
		r.after[r.key(s)] = max(r.after[r.key(s)], divergence)
	}
}

// isDiscarded reports whether the records of the call no longer count.
func (r *rerun) isDiscarded(a record.Address) bool {
	_, anew := r.discarded[a]
	return anew
}

// beginsAnew reports whether rec may be the first record of a call that is made again: a record
// that starts an attempt or takes over another call's effect.
func beginsAnew(rec *record.Record) bool {
	return rec.Status == record.StatusStarted || rec.Kind.IsCall() && rec.Status == record.StatusCompleted && rec.Detail != nil && rec.Detail.Effect != nil
}

// beginAnew marks the first record of a call that begins again. r.mu must be held.
func (r *run) beginAnew(rec *record.Record) {
	if r.rerun.isDiscarded(rec.Address) {
		rec.Reason = record.ReasonDivergence
		delete(r.rerun.discarded, rec.Address)
		delete(r.restored.preconditions, rec.Address) // the preconditions have run again
	}
}

// isMadeAfter reports whether the call was made after the divergence.
func (t *track) isMadeAfter(divergence uint64) bool {
	switch {
	case t == nil:
		return false
	case t.first > 0:
		return t.first > divergence
	}
	return t.Last > divergence
}

// isReplacedBy reports whether the claim differs from the recorded call, which was made only in a
// refused opening. In that case, the call begins again.
func (t *track) isReplacedBy(c record.Claim) bool {
	return t != nil && t.Last > 0 && !t.claimed && (t.kind != c.Kind || t.differs(c.Input))
}

// differs reports whether the call was recorded with a different input.
func (t *track) differs(input record.Hash) bool {
	return !t.Input.IsZero() && !input.IsZero() && t.Input != input
}

// followDivergence processes the record of a divergence: earlier records of the call, and of the
// calls inside it, no longer count.
func (r *restoredRun) followDivergence(rec *record.Record) {
	t := r.track(rec.Address)
	r.beginAnew(rec, t)
	if rec.Ordinal > 0 { // the program makes a different call than the recorded one
		r.ordinals.at(rec.Name).uncheck(rec.Ordinal)
		r.ordinals.uncheckAfterScope(rec.Name, r.calls)
	}
	r.ordinals.uncheckAfter(rec.Address, r.calls)
	t.Input, t.diverged = rec.Detail.InputHash, rec.Seq
	r.diverged = true
}

// beginAnew discards what the call did before rec was written, and the values written inside the
// call, except those that the call's preconditions have just written.
func (r *restoredRun) beginAnew(rec *record.Record, t *track) {
	r.dropPreconditions(rec.Address, t.Last)
	r.restartsAfterDivergence.add(rec)
	r.keepDoubt(rec.Address)
	*t = track{Progress: record.Progress{Starts: t.Starts}, diverged: t.diverged, outcome: t.outcome, failed: t.failed, attempts: t.attempts}
}
