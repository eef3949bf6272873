package state

import (
	"bytes"
	"cmp"
	"log/slog"
	"slices"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// The output of a call marked NoStore is not recorded, so the call is made again when the run is
// resumed. If the fingerprint of the new output equals the recorded fingerprint, later calls are
// compared as usual. Otherwise the program may make other calls, since they may depend on the
// output. It must still make, before the scope ends, each call that has a recorded outcome.

// loosenAfter loosens the comparison after a call that has ended without keeping its output, unless
// the output is the same as before. It must be called before the record is added to the call's
// track.
func (r *restoredRun) loosenAfter(rec *record.Record, t *track) {
	if t == nil || !t.NoStore || !rec.IsOutcome() || t.isSameOutput(rec) {
		return
	}
	r.ordinals.loosen(rec.Address, r.calls)
}

// isSameOutput reports whether the record is a completion with the same output as before. It
// compares fingerprints, since the outputs are not kept.
func (t *track) isSameOutput(rec *record.Record) bool {
	return rec.Status == record.StatusCompleted && rec.Detail != nil && len(rec.Detail.Fingerprint) > 0 &&
		bytes.Equal(rec.Detail.Fingerprint, t.Fingerprint)
}

// loosen loosens the comparison after the call at a, both in its scope and in the scopes around it.
func (o ordinals) loosen(a record.Address, calls map[record.Address]*track) {
	for {
		scope := a.Scope()
		if t := calls[a]; t != nil && t.Ordinal > 0 {
			o.at(scope).loosen(int(t.Ordinal) + 1)
		}
		if scope == "" {
			return
		}
		around, err := record.ParseAddress(callOf(scope))
		if err != nil {
			return
		}
		a = around
	}
}

func (s *scopeClaims) loosen(ordinal int) {
	if s.loosened == 0 || ordinal < s.loosened {
		s.loosened = ordinal
	}
}

// checks reports whether the claim with the given ordinal must equal the recorded claim. s holds
// the scope's recorded claims and may be nil. In the scope of the run itself, claims with an
// outcome are still checked, because this scope has no end at which missing calls would be noticed.
func (r *restoredRun) checks(s *scopeClaims, scope string, ordinal int) bool {
	switch {
	case s == nil, s.unchecked > 0 && ordinal >= s.unchecked:
		return false
	case s.loosened == 0 || ordinal < s.loosened:
		return true
	}
	was := s.recorded(ordinal)
	return scope == "" && was != nil && r.hasOutcome(was.address)
}

func (r *restoredRun) hasOutcome(a record.Address) bool {
	t := r.calls[a]
	return t != nil && t.HasOutcome()
}

// isOtherKind reports whether an unchecked claim has the address of a recorded call of another
// kind.
func (s *scopeClaims) isOtherKind(c record.Claim, t *track) bool {
	return s != nil && s.loosened > 0 && (s.unchecked == 0 || c.Ordinal < s.unchecked) && t != nil && t.Last > 0 && t.kind != c.Kind
}

// passedOver is called when a scope ends after the given number of claims. It returns the ordinal
// and the claim of a recorded call that the program has not made. If no call is missing, ok is
// false.
func (r *restoredRun) passedOver(scope string, claimed int) (ordinal int, missing recordedClaim, ok bool) {
	s := r.ordinals[scope]
	switch {
	case s == nil || s.unchecked > 0:
		return 0, missing, false
	case s.loosened == 0 || claimed < s.loosened-1:
		if claimed >= len(s.claims) {
			return 0, missing, false
		}
		if was := s.claims[claimed]; was != nil {
			missing = *was
		}
		return claimed + 1, missing, true
	}
	for i, was := range s.claims {
		if was == nil {
			continue
		}
		if t := r.calls[was.address]; t != nil && t.isPassedOver() {
			return i + 1, *was, true
		}
	}
	return 0, missing, false
}

// isPassedOver reports whether the call has a recorded outcome, but the program has not made the
// call.
func (t *track) isPassedOver() bool { return t.claimed && !t.asked && t.HasOutcome() }

// unrepeatedCalls returns the recorded calls that have not been made when a scope ends, but need
// not be made because an earlier call returned a different output when they were recorded. They are
// reported, because a different program may have made them.
func (r *restoredRun) unrepeatedCalls(scope string) []record.Address {
	s := r.ordinals[scope]
	if s == nil || s.loosened == 0 || s.unchecked > 0 {
		return nil
	}
	var all []record.Address
	for _, a := range r.claimedIn(scope) {
		if t := r.calls[a]; t != nil && t.isPassedOver() {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b record.Address) int { return cmp.Compare(r.calls[a].first, r.calls[b].first) })
	return all
}

// claimedIn returns the recorded calls that were claimed in the scope. This includes calls that are
// missing from the scope's claims because another opening claimed another call with that ordinal.
func (r *restoredRun) claimedIn(scope string) []record.Address {
	if r.claimed == nil {
		r.claimed = make(map[string][]record.Address)
		for a, t := range r.calls {
			if t.claimed {
				r.claimed[a.Scope()] = append(r.claimed[a.Scope()], a)
			}
		}
	}
	return r.claimed[scope]
}

// reportUnrepeated records a warning for each of the given calls. r.mu must be held.
func (r *run) reportUnrepeated(scope *engine.Scope, calls []record.Address) {
	for _, a := range calls {
		if r.isReported(a) {
			continue
		}
		r.report.Diverged = append(r.report.Diverged, a)
		r.keep(&record.Record{
			Time: now(), Address: scope.Address(), Kind: record.KindLog, Status: record.StatusRecorded, Reason: record.ReasonDivergence,
			Detail: &record.Detail{Severity: slog.LevelWarn, Message: scope.Path() + " ended without its recorded call " + a.String() +
				": when that call was recorded, an earlier call, whose output is not kept, had returned a different output"},
		})
	}
	_ = r.write() // if it fails, the error is returned again when the next call begins
}
