package state

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// ordinals holds the recorded claims by scope path, in claim order. They show whether a program
// that resumes the run makes the same calls.
type ordinals map[string]*scopeClaims

// scopeClaims holds the recorded claims of one scope.
type scopeClaims struct {
	claims []*recordedClaim // by ordinal, from 1; nil where the claim is not known
	spare  []recordedClaim  // preallocated claims

	// unchecked is the first ordinal at which the program may differ, because a call
	// with an outcome was made again, or because the records were trusted. 0 means
	// that all claims are checked.
	unchecked int

	// loosened is the first ordinal at which the program may make other calls. It is set when an
	// earlier call whose output is not kept was made again and returned a different output. The
	// program must still make every recorded call with an outcome. 0 means that there is no such
	// ordinal.
	loosened int
}

// recordedClaim is a claim as it was recorded.
type recordedClaim struct {
	address record.Address
	kind    record.Kind
	name    string // the actor's name, or the text of the question
	input   record.Hash

	generation uint64 // the generation that recorded the claim
}

func (o ordinals) at(scope string) *scopeClaims {
	c := o[scope]
	if c == nil {
		c = new(scopeClaims)
		o[scope] = c
	}
	return c
}

// add adds the claim of a call. rec is the call's first record that contains the claim.
func (o ordinals) add(rec *record.Record) {
	c := recordedClaim{address: rec.Address, kind: rec.Kind, name: rec.Name, generation: rec.Generation}
	if rec.Detail != nil {
		c.input = rec.Detail.InputHash
	}
	o.at(rec.Address.Scope()).set(rec.Ordinal, c)
}

// addListed adds the claims that the record lists and that have no earlier records of their own.
func (o ordinals) addListed(rec *record.Record) {
	if rec.Detail == nil {
		return
	}
	for _, c := range rec.Detail.Unrecorded {
		name := c.Name
		if c.Kind == record.KindQuestion && rec.Kind == record.KindQuestion { // the claim of this question
			name = rec.Message()
		}
		o.at(c.Address.Scope()).set(c.Ordinal, recordedClaim{c.Address, c.Kind, name, c.Input, rec.Generation})
	}
}

// voidRefused removes the claims of a generation that was refused because the program differed.
// They may be the differing program's claims, since other branches may have gone further than the
// branch in which the difference was found. The next opening can then claim the same ordinals. The
// calls themselves stay recorded, and may appear anywhere in their scope. A branch has no input to
// compare, so its result may come from the differing program. Branches therefore run again.
func (r *restoredRun) voidRefused(generation uint64) {
	if !r.refused[generation] {
		return
	}
	r.unclaimed = true
	for _, s := range r.ordinals {
		for i, c := range s.claims {
			if c != nil && c.generation == generation {
				s.claims[i] = nil
				if t := r.calls[c.address]; t != nil {
					t.claimed = false
				}
			}
		}
		for len(s.claims) > 0 && s.claims[len(s.claims)-1] == nil {
			s.claims = s.claims[:len(s.claims)-1]
		}
	}
	for a, t := range r.calls {
		if t.claimed && t.first > r.began { // the call may be in the place of a recorded claim
			was := r.ordinals[a.Scope()].recorded(int(t.Ordinal))
			t.claimed = was != nil && was.address == a
		}
		if t.kind == record.KindBranch && t.Last > r.began {
			t.HasOutput = false
		}
	}
}

func (s *scopeClaims) set(ordinal int, c recordedClaim) {
	for len(s.claims) < ordinal {
		s.claims = append(s.claims, nil)
	}
	if s.claims[ordinal-1] != nil {
		return
	}
	if len(s.spare) == 0 {
		s.spare = make([]recordedClaim, min(max(len(s.claims), 4), chunkSize))
	}
	s.spare[0] = c
	s.claims[ordinal-1], s.spare = &s.spare[0], s.spare[1:]
}

// recorded returns the claim with the given ordinal, or nil if there is none.
func (s *scopeClaims) recorded(ordinal int) *recordedClaim {
	if s == nil || ordinal > len(s.claims) {
		return nil
	}
	return s.claims[ordinal-1]
}

// byAddress returns the ordinals of all claims. If an address was claimed twice, the ordinal is
// that of the first claim.
func (o ordinals) byAddress() map[record.Address]int {
	all := make(map[record.Address]int)
	for _, s := range o {
		for i, c := range slices.Backward(s.claims) {
			if c != nil {
				all[c.address] = i + 1
			}
		}
	}
	return all
}

// uncheckAfter marks everything after the call at a as unchecked, both in the call's scope and in
// the scopes around it.
func (o ordinals) uncheckAfter(a record.Address, calls map[record.Address]*track) {
	scope := a.Scope()
	if t := calls[a]; t != nil && t.Ordinal > 0 {
		o.at(scope).uncheck(int(t.Ordinal) + 1)
	}
	o.uncheckAfterScope(scope, calls)
}

// uncheckAfterScope marks everything after the call to which the scope belongs as unchecked, in the
// scopes around that call.
func (o ordinals) uncheckAfterScope(scope string, calls map[record.Address]*track) {
	if scope == "" {
		return
	}
	if around, err := record.ParseAddress(callOf(scope)); err == nil {
		o.uncheckAfter(around, calls)
	}
}

// uncheck marks the claims from the given ordinal on as unchecked.
func (s *scopeClaims) uncheck(ordinal int) {
	if s.unchecked == 0 || ordinal < s.unchecked {
		s.unchecked = ordinal
	}
}

// divergenceOf returns how the claim c differs from the recorded claim in its place, or nil if it
// does not differ. s holds the recorded claims of the scope, and t is the state of the recorded
// call at c's address; both may be nil. If anew is true, the call begins again, and its recorded
// input is not compared.
func (r *restoredRun) divergenceOf(runID, scope string, s *scopeClaims, t *track, c record.Claim, anew bool) *core.DivergenceError {
	asked := func() *core.DivergenceError {
		return &core.DivergenceError{RunID: runID, Address: c.Address, Scope: scope, Ordinal: c.Ordinal, Asked: describe(c.Kind, c.Address, c.Name)}
	}
	checked, was := r.checks(s, scope, c.Ordinal), s.recorded(c.Ordinal)
	if checked && was != nil && !was.matches(c) {
		d := asked()
		d.How, d.Was, d.Recorded = "order", was.call(scope), describe(was.kind, was.address, was.name)
		if was.address == c.Address {
			d.How = "kind"
		}
		d.Hint = r.likelyEdit(s, was, c)
		if was.isAskedFor(c) {
			d.Fork = s.askedBefore(c.Ordinal)
		}
		return d
	}
	if d := r.checkSwap(c); d != nil && checked && !anew {
		with := asked()
		with.How, with.Recorded, with.Asked = d.How, d.Recorded, d.Asked
		return with
	}
	if !anew && s.isOtherKind(c, t) {
		d := asked()
		d.How, d.Recorded = "kind", describe(t.kind, c.Address, "")
		return d
	}
	if t != nil && !anew && t.differs(c.Input) {
		d := asked()
		d.How, d.Recorded, d.Asked = "input", t.Input.String(), c.Input.String()
		return d
	}
	if checked && was != nil && was.differs(c.Input) && t == nil {
		d := asked() // the recorded call was prepared but has no record of its own
		d.How, d.Recorded, d.Asked = "input", was.input.String(), c.Input.String()
		return d
	}
	if !checked || was != nil {
		return nil
	}
	if c.Ordinal <= len(s.claims) && !c.Address.IsBranch() || t.isClaimed() {
		d := asked()
		d.How, d.Recorded = "order", "another call"
		d.Hint = r.likelyEdit(s, nil, c)
		return d
	}
	return nil
}

// hashAsRecorded returns the hash of a claimed input, computed in the same way as the recorded
// hash. Earlier versions of Reprise computed different hashes, because they did not keep certain
// values as JSON. t describes the recorded call; it is nil if the call was not recorded. The caller
// must hold r.mu. hashAsRecorded unlocks r.mu while it encodes the input, because encoding calls
// methods of the input's type.
func (r *run) hashAsRecorded(t *track, c record.Claim, input engine.ClaimedInput) record.Hash {
	if t == nil || !t.differs(c.Input) {
		return c.Input
	}
	recorded := t.Input
	r.mu.Unlock()
	before, err := input.HashBefore()
	r.mu.Lock()
	if err == nil && before == recorded {
		return recorded
	}
	return c.Input
}

// inputDifferences returns a few of the parts in which an input differs from the recorded input, or
// nil if the recorded input was not kept. r.mu must not be held, because encoding the input calls
// methods of the input's type.
func (r *restoredRun) inputDifferences(first uint64, input engine.ClaimedInput) []codec.Difference {
	if first == 0 {
		return nil
	}
	rec, err := r.found.Record(first)
	if err != nil || rec.Detail == nil || len(rec.Detail.Input) == 0 {
		return nil
	}
	now, err := input.Encode()
	if err != nil {
		return nil
	}
	const few = 5
	differences, err := codec.Differences(rec.Detail.Input, now, few)
	if err != nil {
		return nil // the hashes show that the input differs
	}
	return differences
}

// changedInput returns a few of the parts in which a call's input differs from the recorded input.
// See inputDifferences.
func (r *run) changedInput(a record.Address, input engine.ClaimedInput) (parts []string) {
	r.mu.Lock()
	first := uint64(0)
	if t := r.restored.calls[a]; t != nil {
		first = t.first
	}
	r.mu.Unlock()
	for _, part := range r.restored.inputDifferences(first, input) {
		parts = append(parts, part.String())
	}
	return parts
}

// matches reports whether c equals the recorded claim. The inputs may differ.
func (r *recordedClaim) matches(c record.Claim) bool {
	return r.address == c.Address && r.kind == c.Kind && (r.name == c.Name || !c.Address.IsBranch())
}

// differs reports whether the recorded claim has a different input.
func (r *recordedClaim) differs(input record.Hash) bool {
	return !r.input.IsZero() && !input.IsZero() && r.input != input
}

// isAskedFor reports whether the recorded call, which is now missing because the program changed,
// may have been requested by a model. This is the case if the claim c in its place calls a model
// again, or refuses a call that a model asked for.
func (r *recordedClaim) isAskedFor(c record.Claim) bool {
	other := c.Kind == record.KindLLM || c.Kind == record.KindTool && strings.HasPrefix(c.Name, engine.Refused)
	return r != nil && other && (r.kind == record.KindTool || r.kind == record.KindAgent)
}

// askedBefore returns the last LLM call before the ordinal. Its answer requested the calls that
// follow. If there is no such call, askedBefore returns the zero Address.
func (s *scopeClaims) askedBefore(ordinal int) record.Address {
	for i := ordinal - 2; i >= 0; i-- {
		if c := s.claims[i]; c != nil && c.kind == record.KindLLM {
			return c.address
		}
	}
	return record.Address{}
}

// call returns the address of the claimed call or, if the claim is a question, of the call that
// asks it.
func (r *recordedClaim) call(scope string) record.Address {
	if r.kind != record.KindQuestion {
		return r.address
	}
	asked, err := record.ParseAddress(callOf(scope))
	if err != nil {
		return record.Address{}
	}
	return asked
}

// likelyEdit guesses how the program was edited. was is the recorded claim in the place of c, or
// nil if that claim is not known.
func (r *restoredRun) likelyEdit(s *scopeClaims, was *recordedClaim, c record.Claim) string {
	if was.isAskedFor(c) {
		return "if a model called " + was.name + ": it was renamed, was removed from the agent, or refuses the recorded arguments now"
	}
	for _, recorded := range s.claims {
		if recorded != nil && recorded.matches(c) {
			return "recorded later: an earlier call was removed, the two were swapped, or " +
				"goroutines made them: see actors.Parallel and Prepare"
		}
	}
	return "the call is not on record: it was inserted or renamed"
}

func describe(kind record.Kind, a record.Address, name string) string {
	text := a.String() + " (" + strings.TrimSuffix(kind.String(), "_call")
	if a.IsBranch() {
		text += " " + name
	}
	return text + ")"
}

// Ended implements engine.History.
func (r *run) Ended(s *engine.Scope, claimed int) error {
	r.mu.Lock()
	if r.life.closed || r.rerun.isDiscarded(s.Address()) {
		r.mu.Unlock()
		return nil
	}
	ordinal, missing, ok := r.restored.passedOver(s.Path(), claimed)
	if !ok {
		if calls := r.restored.unrepeatedCalls(s.Path()); calls != nil {
			r.reportUnrepeated(s, calls)
		}
		r.mu.Unlock()
		return nil
	}
	d := &core.DivergenceError{
		RunID: r.settings.RunID, How: "end", Address: s.Address(), Was: missing.call(s.Path()), Scope: s.Path(), Ordinal: ordinal,
		Recorded: describe(missing.kind, missing.address, missing.name), Asked: "its end",
	}
	r.mu.Unlock()
	return r.handleDivergence(d)
}

// Differs implements engine.History. If d has no Fields, no part of the output can be read.
func (r *run) Differs(s *engine.Scope, d *core.DivergenceError) (again bool, err error) {
	if len(d.Fields) > 0 {
		return false, r.handleDivergence(d)
	}
	r.mu.Lock()
	t := r.restored.calls[d.Address]
	if r.config.divergence == DivergenceRerun && !r.settings.Strict && !t.Input.IsZero() {
		defer r.mu.Unlock()
		r.makeAgain(s, record.Claim{Address: d.Address, Ordinal: d.Ordinal, Input: t.Input}, d)
		return true, nil
	}
	r.report.Diverged = append(r.report.Diverged, d.Address)
	r.mu.Unlock()
	return false, r.refuse(d)
}

// handleDivergence applies the policy to a program that differs: it stops the run, or trusts the
// records from that point on.
func (r *run) handleDivergence(d *core.DivergenceError) error {
	if r.trustsRecords(d) {
		return nil
	}
	return r.refuse(d)
}

// trustsRecords adds the call to the run's Report, and reports whether the records are trusted even
// though the program differs. If so, it also records a warning. The warning is published with the
// next record, because nothing is published while a call is being claimed.
func (r *run) trustsRecords(d *core.DivergenceError) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isReported(d.Address) {
		r.report.Diverged = append(r.report.Diverged, d.Address)
	}
	if r.config.divergence == DivergenceFail {
		return false
	}
	if r.life.closed {
		return true // no record may follow the run's last record
	}
	if d.Ordinal > 0 {
		if at := r.restored.ordinals[d.Scope]; at != nil && at.unchecked == 0 {
			at.uncheck(d.Ordinal)
		}
	}
	r.keep(&record.Record{
		Time: now(), Address: d.Address, Ordinal: d.Ordinal, Name: d.Scope, Kind: record.KindLog, Status: record.StatusRecorded, Reason: record.ReasonDivergence,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "the records are trusted, although the program differs: " + d.Difference()},
	})
	_ = r.write() // if it fails, the error is returned again when the next call begins
	return true
}

func (r *run) isReported(a record.Address) bool { return slices.Contains(r.report.Diverged, a) }
