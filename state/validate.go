package state

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A Difference describes one way in which a program differs from the records of a run.
type Difference struct {
	Address  record.Address
	Field    string // "call", "order", "question", "input", "request", "swap", "output", "value", "error", "status" or "version"
	Recorded string
	Now      string
}

// String returns a line such as `agent/fetch: output: recorded "4 °C", now "5 °C"`.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: recorded %s, now %s", d.Address, d.Field, d.Recorded, d.Now)
}

// Validate runs a program against a stored run and returns the differences. Every agent is entered,
// even if it has completed; every tool, LLM and step is recalled and not executed. Validate
// compares addresses, the order of calls, questions, inputs, and the outputs and errors of agents.
// A difference in "request" concerns the instructions, tool descriptions, tools or options that are
// sent to a model, and does not prevent the use of the recorded answer. A difference in "swap"
// means that the request is recorded as that of another call, and would stop the run; see
// [core.DivergenceError]. If a recorded output does not fit its type, the program is stopped there.
// If the run has not ended, the program is interrupted at the calls with which the run would
// continue. Nothing is written, so Validate is safe to use anywhere. The program receives the run's
// context and makes the root calls. Its error is not returned, because the recorded run may also
// have ended with an error.
func Validate(ctx context.Context, store snapshot.Store, runID string, program func(context.Context) error, options ...Option) ([]Difference, error) {
	return validate(ctx, store, runID, program, false, options)
}

// ValidateExecute is like [Validate], but also executes tools, LLMs and steps, with their
// preconditions, retries and waits, and compares their outputs and errors. It is for tests in which
// the effects of these calls do not matter. Nothing is written to the run, and no artifact is
// stored. Questions receive their recorded answers. Outputs of calls marked NoStore were not
// recorded and are not compared. A step that returns the time or a random number differs each time.
func ValidateExecute(ctx context.Context, store snapshot.Store, runID string, program func(context.Context) error, options ...Option) ([]Difference, error) {
	return validate(ctx, store, runID, program, true, options)
}

func validate(ctx context.Context, store snapshot.Store, runID string, program func(context.Context) error, executes bool, options []Option) ([]Difference, error) {
	if err := checkArguments(store, runID); err != nil {
		return nil, err
	}
	c, err := configure(options, inValidate)
	if err != nil {
		return nil, err
	}
	c.divergence = DivergenceTrust
	st, err := replay(ctx, store, runID, c)
	if err != nil {
		return nil, err
	}
	v := &validation{
		run: st.run, executes: executes,
		seen: make(map[record.Address]bool), made: make(map[record.Address]bool),
		ordinals: st.run.restored.ordinals.byAddress(), furthest: make(map[string]int), stopped: make(map[string]bool),
	}
	v.root, v.settings.History = engine.NewRoot(v, v.settings), v
	v.settings.Strict = !executes
	_ = program(st.Context(ctx))
	if err := st.Close(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.end()
	return v.differences, nil
}

// validation is a replay that compares what the program does with what was recorded. It intercepts
// the calls' requests to the run. The run's lock guards the fields below.
type validation struct {
	*run
	executes    bool                    // tools, LLMs and steps are executed
	seen        map[record.Address]bool // the calls that were claimed
	made        map[record.Address]bool // calls whose handlers ran or that recorded something
	ordinals    map[record.Address]int  // the recorded ordinals of the claims
	furthest    map[string]int          // the highest recorded ordinal claimed, by scope path
	stopped     map[string]bool         // paths of the scopes in which the run had gone no further
	differences []Difference
	cut         bool // the program was stopped, so calls that it did not make are not differences
}

// Append implements engine.Run.
func (v *validation) Append(s *engine.Scope, rec record.Record) error {
	err := v.run.Append(s, rec)
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.compare(&rec)
	}
	return err
}

// Claim implements engine.History. No claim is refused.
func (v *validation) Claim(s *engine.Scope, c record.Claim, input engine.ClaimedInput) (found *record.Progress, onRecord bool, err error) {
	v.mu.Lock()
	c.Input = v.hashAsRecorded(v.restored.calls[c.Address], c, input)
	if s.Closed() || v.life.closed {
		v.mu.Unlock()
		return nil, false, nil
	}
	if c.Kind == record.KindQuestion {
		defer v.mu.Unlock()
		v.seen[c.Address] = true
		v.compareClaim(s.Path(), c)
		return nil, false, nil
	}
	if v.rerun.since != nil {
		v.followClaim(s, c)
	}
	if !v.rerun.isDiscarded(c.Address) {
		found = v.restored.progress(c.Address)
	}
	v.compareClaim(s.Path(), c)
	stop := v.stopAtEnd(s, c, found)
	if stop != nil {
		v.stopped[s.Path()] = true
	}
	found = v.claim(s, c, found)
	v.mu.Unlock()
	v.compareInput(c, found, input)
	m := v.compareRequest(c, true, input)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !m.recordedAs.IsZero():
		v.addDifference(c.Address, "swap", "another request", "that of "+m.recordedAs.String())
	case m.isReworded:
		v.reworded.add(c)
		v.addDifference(c.Address, "request", "other instructions, descriptions of tools, tools or options", "these")
	}
	return found, false, stop
}

// Replay implements engine.History.
func (v *validation) Replay(s *engine.Scope, traced *record.Record) error {
	err := v.run.Replay(s, traced)
	if err != nil || traced == nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	outcome, err := v.restored.found.Record(v.restored.calls[s.Address()].Last)
	if err == nil {
		v.compareTraced(&outcome, traced)
	}
	return err
}

// Ended implements engine.History. Missing calls are not detected until the program has returned.
func (*validation) Ended(*engine.Scope, int) error { return nil }

// Differs implements engine.History.
func (v *validation) Differs(_ *engine.Scope, d *core.DivergenceError) (again bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return false, v.addTypeDifference(d)
}

// Ask implements engine.Run.
func (v *validation) Ask(s *engine.Scope, q engine.Question, def engine.DefaultAnswer, claims []record.Claim) (engine.Asked, error) {
	v.mu.Lock()
	before, asked := v.askedBefore(s, q)
	if asked || !slices.ContainsFunc(claims, func(c record.Claim) bool { return v.isAtEnd(s, c) }) {
		v.compareQuestion(s.Address(), asked, before.text, &q)
	}
	v.mu.Unlock()
	answer, err := v.run.Ask(s, q, def, claims)
	if answer.Recorded {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.made[s.Address()] = true
	}
	return answer, err
}

// Version implements engine.Run.
func (v *validation) Version(s *engine.Scope, q engine.VersionQuestion) (int, error) {
	v.mu.Lock()
	was, known := v.version(s, q.Name)
	if known && was.err == nil && was.version > q.Highest && q.Check() == nil && !s.Closed() && !v.life.closed {
		defer v.mu.Unlock()
		v.addDifference(s.Address(), "version", fmt.Sprintf("%d of %q", was.version, q.Name), fmt.Sprintf("%d at most", q.Highest))
		return was.version, nil
	}
	v.mu.Unlock()
	return v.run.Version(s, q)
}

func (v *validation) addDifference(a record.Address, field, recorded, now string) {
	v.differences = append(v.differences, Difference{a, field, recorded, now})
}

// addTypeDifference adds a difference for a recorded output or value that does not fit its type in
// the program. If no part of the output or value can be read, addTypeDifference returns an error,
// and the program is stopped there.
func (v *validation) addTypeDifference(d *core.DivergenceError) error {
	if len(d.Fields) > 0 {
		v.addDifference(d.Address, d.How, d.Recorded, d.Asked+": "+strings.Join(d.Fields, "; "))
		return nil
	}
	v.cut = true
	if !slices.ContainsFunc(v.differences, func(known Difference) bool { return known.Address == d.Address && known.Field == d.How }) {
		v.addDifference(d.Address, d.How, d.Recorded, d.Asked)
	}
	return d
}

// claim makes calls run again, and adds a difference for a call that is not on record.
func (v *validation) claim(s *engine.Scope, c record.Claim, found *record.Progress) *record.Progress {
	v.seen[c.Address] = true
	if found == nil {
		if !v.isNotBegun(c) && !v.isAtEnd(s, c) {
			v.addDifference(c.Address, "call", "none", c.Kind.String())
		}
		return nil
	}
	switch {
	case v.executes && !c.Kind.IsEntered() && !v.isChoice(c):
		delete(v.restored.preconditions, c.Address) // the preconditions run again
		if !found.HasOutcome() {
			return nil
		}
		return &record.Progress{Phase: found.Phase, Repeat: true}
	case found.NoStore && !c.Kind.IsEntered():
		v.addDifference(c.Address, "output", "none (NoStore)", "none: it is not executed")
	case found.HasOutcome() && found.Starts > 0 && c.Kind.IsEntered():
		again := *found
		again.Retrace = true
		return &again
	}
	return found
}

// isChoice reports whether the call is a step that a group itself made to record which of its
// branches came first. Such a step is not part of the program.
func (v *validation) isChoice(c record.Claim) bool {
	return c.Kind == record.KindStep && v.groupAround(c.Address) != nil
}

// isNotBegun reports whether the call is a branch that had not begun when its group ended. The
// program makes such a call, but the group does not begin it.
func (v *validation) isNotBegun(c record.Claim) bool {
	group := v.groupAround(c.Address)
	if group == nil || !group.HasOutcome() {
		return false
	}
	branch, err := strconv.Atoi(c.Address.String()[len(c.Address.Scope())+1:])
	if err != nil {
		return false
	}
	began, err := v.restored.found.Record(group.first)
	return err == nil && began.Detail != nil && branch <= began.Detail.Branches
}

// groupAround returns the recorded group that makes the call at the given address, or nil.
func (v *validation) groupAround(a record.Address) *track {
	around, err := record.ParseAddress(callOf(a.Scope()))
	if err != nil {
		return nil
	}
	if t := v.restored.calls[around]; t != nil && t.kind == record.KindGroup {
		return t
	}
	return nil
}

// compareClaim adds a difference if the call differs from the recorded call at its address, or if
// the calls were recorded in a different order.
func (v *validation) compareClaim(scope string, c record.Claim) {
	recorded, ordinal := v.restored.ordinals[scope], v.ordinals[c.Address]
	if recorded == nil || ordinal == 0 || ordinal > recorded.numChecked() {
		return
	}
	was := recorded.recorded(ordinal)
	if was == nil || was.address != c.Address { // the claim was made in another scope
		return
	}
	if !was.matches(c) {
		v.addDifference(c.Address, "call", strings.TrimSpace(was.kind.String()+" "+was.name), strings.TrimSpace(c.Kind.String()+" "+c.Name))
	}
	if before := v.furthest[scope]; ordinal < before {
		a := recorded.recorded(before).address.String()
		v.addDifference(c.Address, "order", "before "+a, "after "+a)
	}
	v.furthest[scope] = max(v.furthest[scope], ordinal)
}

// compareQuestion adds a difference if the question was not asked before or had a different text.
// The text of a sleep is not compared, because its duration may differ when the run is resumed.
func (v *validation) compareQuestion(asker record.Address, asked bool, was string, q *engine.Question) {
	switch {
	case !asked:
		v.addDifference(asker, "question", "none", strconv.Quote(q.Text))
	case was != q.Text && q.Awaits != record.AwaitTime:
		v.addDifference(asker, "question", strconv.Quote(was), strconv.Quote(q.Text))
	}
}

// compareInput adds a difference if a call's input differs from the recorded input. It shows the
// parts that differ, or both hashes if the recorded input was not kept. The run's lock must not be
// held, because encoding the input calls methods of the input's type.
func (v *validation) compareInput(c record.Claim, found *record.Progress, input engine.ClaimedInput) {
	v.mu.Lock()
	t := v.restored.calls[c.Address]
	if found == nil || t == nil || !t.differs(c.Input) {
		v.mu.Unlock()
		return
	}
	hash, first := t.Input, t.first
	v.mu.Unlock()
	var recorded, now []string
	for _, d := range v.restored.inputDifferences(first, input) {
		was, is := d.Values()
		recorded, now = append(recorded, was), append(now, is)
	}
	if len(recorded) == 0 {
		recorded, now = []string{hash.String()}, []string{c.Input.String()}
	}
	v.mu.Lock()
	v.addDifference(c.Address, "input", strings.Join(recorded, "; "), strings.Join(now, "; "))
	v.mu.Unlock()
}

// compares reports whether calls of the given kind are made again and compared.
func (v *validation) compares(kind record.Kind) bool { return v.executes || kind.IsEntered() }

// compareTraced compares the new outcome of an agent with the recorded one.
func (v *validation) compareTraced(was, now *record.Record) {
	v.made[was.Address] = true
	if now.Kind == record.KindAgent {
		v.compareOutcomes(was, now)
	}
}

// compare compares the outcome of a call that was made again with the recorded outcome.
func (v *validation) compare(rec *record.Record) {
	v.made[rec.Address] = true
	if !rec.IsOutcome() || !v.compares(rec.Kind) {
		return
	}
	t := v.restored.calls[rec.Address]
	if t == nil || !t.HasOutcome() {
		return
	}
	was, err := v.restored.found.Record(t.Last)
	if err != nil {
		v.addDifference(rec.Address, "call", err.Error(), rec.Status.String())
		return
	}
	v.compareOutcomes(&was, rec)
}

func (v *validation) compareOutcomes(was, rec *record.Record) {
	switch {
	case was.Status != rec.Status:
		v.addDifference(rec.Address, "status", was.Status.String(), rec.Status.String())
	case was.Status == record.StatusFailed:
		if before, now := fmt.Sprint(was.Err), fmt.Sprint(rec.Err); before != now {
			v.addDifference(rec.Address, "error", before, now)
		}
	case isNoStore(was) || isNoStore(rec):
	case was.Artifact() != rec.Artifact() || !sameValue(was.Encoded(), rec.Encoded()):
		before, now := keptOutput(was), keptOutput(rec)
		if before == now {
			now += " (they differ after the end of the preview)"
		}
		v.addDifference(rec.Address, "output", before, now)
	}
}

// sameValue reports whether two encoded values are equal. The order of map entries does not matter.
func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var hashes [2]record.Hash
	for i, encoded := range [][]byte{a, b} {
		var value any
		if err := record.Decode(encoded, &value); err != nil {
			return false
		}
		hash, err := record.HashOf(value)
		if err != nil {
			return false
		}
		hashes[i] = hash
	}
	return hashes[0] == hashes[1]
}

func isNoStore(r *record.Record) bool { return r.Detail != nil && r.Detail.NoStore }

// keptOutput returns the output in a record, in the form used in a Difference.
func keptOutput(r *record.Record) string {
	if ref := r.Artifact(); ref != "" {
		return "artifact " + ref
	}
	return record.Preview(r.Encoded())
}

// end adds a difference for each call that was recorded but not made, and for each question that
// was recorded but not asked. It ignores calls and questions inside failed attempts and inside
// calls that were not made.
func (v *validation) end() {
	if v.cut {
		return
	}
	var missing []record.Address
	for a := range v.restored.calls {
		if !v.seen[a] && v.isExpected(a) {
			missing = append(missing, a)
		}
	}
	slices.SortFunc(missing, func(a, b record.Address) int { return strings.Compare(a.String(), b.String()) })
	for _, a := range missing {
		v.addDifference(a, "call", v.restored.calls[a].kind.String(), "none")
	}
	for _, scope := range slices.Sorted(maps.Keys(v.restored.ordinals)) {
		for _, c := range v.restored.ordinals[scope].claims {
			if c != nil && c.kind == record.KindQuestion && !v.seen[c.address] && v.isExpected(c.address) {
				v.addDifference(c.call(scope), "question", strconv.Quote(c.name), "none")
			}
		}
	}
}

// isExpected reports whether the program must make the call at a, that is, whether the calls around
// a were entered and a belongs to their last attempts. At the point where the run stopped, the
// program need not repeat what the run did concurrently.
func (v *validation) isExpected(a record.Address) bool {
	if v.stopped[a.Scope()] && v.ordinals[a] > v.furthest[a.Scope()] {
		return false
	}
	inside := a
	for scope := a.Scope(); scope != ""; scope = outerScope(scope) {
		around, err := record.ParseAddress(callOf(scope))
		t := v.restored.calls[around]
		if t != nil && t.kind == record.KindGroup && !t.HasOutcome() && !v.restored.hasOutcome(inside) {
			return false // another branch may end the group first
		}
		inside = around
		if err != nil || t == nil && v.made[around] {
			continue // made by a call's preconditions
		}
		if t == nil || !v.made[around] || !v.compares(t.kind) || scope != scopePath(around, int(t.Attempt)) {
			return false // t is nil if a fork omitted the call
		}
	}
	return true
}
