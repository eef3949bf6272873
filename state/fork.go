package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ForkOptions configure a [Fork]. The zero value is ready to use.
type ForkOptions struct {
	// NewKeys gives the fork's calls their own idempotency keys. By default, a call with the same
	// address and input as in the parent also has the same key, so a service that knows the key
	// does not repeat the effect. If both runs continue with the same keys, they share their
	// effects.
	NewKeys bool

	// Effects specifies how to handle calls of the parent that have had effects but that the fork
	// does not keep. By default, the fork is refused if there are any. See [EffectsAfter].
	Effects ForkEffects

	// Outputs holds values to continue with instead of the recorded ones: outputs of calls, keyed by
	// address, and answers to questions, keyed by ID. An output can be set for a call that the fork
	// keeps, and for the call at which the fork begins, which is then not made again. An answer can
	// be set if the call that asked the question is made again. If the question is about a call in
	// doubt, the fork must also keep the attempt that is in doubt, as it does if it begins inside
	// that attempt. Values are as for [Answer]; the records show that they were set in a fork.
	Outputs map[string]any
}

// ErrCompensated is wrapped by the error from [Fork] if the fork would keep calls that the old run
// has compensated or is compensating. The effects of these calls no longer exist, or may no longer
// exist.
var ErrCompensated = errors.New("state: the fork would keep calls that were compensated")

// Fork begins a new run with the records that an old run had before the first record of the call
// at address. Calls that already had an outcome are kept, with the answers to their questions, and
// the calls around the address are entered again. When the new run is opened with [Open], it makes
// the call at the address and all later calls again. To have a question asked again, fork at the
// call that asked it; a fork at a call inside that call keeps the answer. Fork does not write to
// the old run, which may be open, and creates either the whole new run or nothing. The new run is
// interrupted with the reason fork; if a runner has started the old run, [Resume] makes a runner
// continue the new one. If a run with the ID newID exists, the error is snapshot.ErrExists.
//
// If the fork fails or is cancelled, it compensates only the calls that it made itself. It does
// not compensate a call that the old run had made with the same idempotency key. It also does not
// compensate a call in doubt that the old run had made, whatever the keys of the call are. A call
// that the old run has compensated is never kept: if the fork would keep such calls, the error is
// [ErrCompensated] and names them. Fork at or before them instead; when they are made again, they
// have new idempotency keys. A call whose compensation failed still has its effect and can be
// kept; the fork does not undo it. If there is no call at the address, the error lists the run's
// calls.
func Fork(ctx context.Context, store snapshot.Store, runID string, address record.Address, newID string, o ForkOptions) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := snapshot.CheckRunID(newID); err != nil {
		return err
	}
	forked, err := forkOf(ctx, store, runID, address, newID, o)
	if err == nil {
		_, err = store.Create(ctx, forked)
	}
	if errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("state: fork run %s: run %s already exists; choose another ID: %w", runID, newID, err)
	} else if err != nil {
		return fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	return nil
}

// fork is a run that is forked at an address.
type fork struct {
	old     *snapshot.Snapshot
	parent  *restoredRun
	address record.Address
	kept    []record.Record   // the kept records, with new numbers
	numbers map[uint64]uint64 // the new numbers of the kept records, by the old ones
	first   uint64            // the old number of the first record of the call at the address
	whole   bool              // the call at the address is kept, with another output
}

func loadFork(ctx context.Context, store snapshot.Store, runID string, address record.Address) (f fork, err error) {
	run, err := store.Load(ctx, runID)
	if err != nil {
		return f, err
	}
	if f.parent, err = newRestoredRun(run); err != nil {
		return f, err
	}
	if f.old, err = run.Snapshot(); err != nil {
		return f, err
	}
	f.address = address
	f.kept, f.numbers, f.first, err = recordsBefore(f.old.Records, address)
	return f, err
}

// forkOf returns the new run.
func forkOf(ctx context.Context, store snapshot.Store, runID string, address record.Address, newID string, o ForkOptions) (*snapshot.Run, error) {
	f, err := loadFork(ctx, store, runID, address)
	if err != nil {
		return nil, err
	}
	if err := f.set(o.Outputs); err != nil {
		return nil, err
	}
	old, kept := f.old, f.kept
	if err := f.parent.refuseCompensated(kept, address, f.first); err != nil {
		return nil, err
	}
	effects, err := o.Effects.decide(runID, f.effectsAfter())
	if err != nil {
		return nil, err
	}
	end := endOfParent(runID, address, len(kept))
	if !o.NewKeys {
		end.Detail = &record.Detail{Fork: f.parent.keysOfForks(runID)}
	}
	if len(effects) > 0 {
		if end.Detail == nil {
			end.Detail = &record.Detail{Fork: new(record.Fork)}
		}
		end.Detail.Fork.Effects = effects
	}
	return (&snapshot.Snapshot{Info: snapshot.Info{
		RunID: newID, ParentID: runID, Status: snapshot.StatusInterrupted, Stop: stopOf(end.Interrupt()), Metadata: old.Metadata, Retry: old.Retry,
		Generation: old.Generation, Program: old.Program, Version: old.Version, Usage: ledgerOf(kept).Counts().Usage,
	}, Records: append(kept, end)}).Run()
}

// endOfParent returns the record that follows the records that a fork keeps. With it, the kept
// records end like an opening that was closed normally, so that calls that are entered again do not
// count as lost.
func endOfParent(runID string, address record.Address, kept int) record.Record {
	return record.Record{
		Seq: uint64(kept) + 1, Generation: 1, Time: now(), Kind: record.KindRun, Status: record.StatusInterrupted,
		Err: &record.InterruptedError{Reason: record.InterruptFork, Message: fmt.Sprintf("this run was forked from run %s at %s", runID, address)},
	}
}

// load reads a run and decodes its records.
func load(ctx context.Context, store snapshot.Reader, runID string) (*snapshot.Snapshot, error) {
	run, err := store.Load(ctx, runID)
	if err != nil {
		return nil, err
	}
	return run.Snapshot()
}

// recordsBefore returns the records that a fork at the address keeps, with new numbers; a map from
// their old numbers to the new ones; and the old number of the first record of the call at the
// address.
func recordsBefore(records []record.Record, address record.Address) (kept []record.Record, numbers map[uint64]uint64, first uint64, err error) {
	for i := range records {
		if r := &records[i]; r.Address == address && r.Kind.IsCall() {
			first = r.Seq
			break
		}
	}
	if first == 0 {
		return nil, nil, 0, errNoCallAt(records, address)
	}
	ended := make(map[record.Address]bool)
	refused := make(map[uint64]bool)
	for i := range records {
		r := &records[i]
		if r.Seq < first && r.IsOutcome() {
			ended[r.Address] = true
		}
		if isRefusal(r) {
			refused[r.Generation] = true
		}
	}
	left := make(map[record.Address]record.Claim) // claims from before the fork that are not kept
	numbers = make(map[uint64]uint64)
	for i := range records {
		r := records[i]
		if refused[r.Generation] {
			withdrawClaims(&r)
		}
		switch {
		case r.Seq >= first || r.Kind == record.KindRun && !isInput(&r) || isRefusal(&r):
			continue
		case !ended[r.Address] && !isAround(r.Address, address):
			addLeftClaims(left, &r)
			continue
		}
		listLeftClaims(left, &r)
		withdrawCompensation(&r)
		numbers[r.Seq] = uint64(len(kept)) + 1
		renumber(&r, numbers)
		r.Seq, r.Generation = uint64(len(kept))+1, 1
		kept = append(kept, r)
	}
	return kept, numbers, first, nil
}

// maxListed is how many calls an error lists.
const maxListed = 10

// errNoCallAt returns the error for a fork at an address that has no call. It names the run's
// calls, or only the first few if there are many.
func errNoCallAt(records []record.Record, address record.Address) error {
	var calls []string
	seen := make(map[record.Address]bool)
	for i := range records {
		if r := &records[i]; r.Kind.IsCall() && !seen[r.Address] {
			seen[r.Address] = true
			calls = append(calls, r.Address.String())
		}
	}
	switch n := len(calls); {
	case n == 0:
		return fmt.Errorf("no call at %q; the run has no calls to fork at", address)
	case n > maxListed:
		return fmt.Errorf("no call at %q; want one of the run's %d calls; the first are %s", address, n, strings.Join(calls[:maxListed], ", "))
	}
	return fmt.Errorf("no call at %q; want one of %s", address, strings.Join(calls, ", "))
}

// isInput reports whether r holds the input with which a runner started the run.
// The fork has the same program, and a runner reads the input from this record.
func isInput(r *record.Record) bool {
	return r.Seq == 1 && r.Kind == record.KindRun && r.Status == record.StatusRecorded && r.Detail != nil && len(r.Detail.Input) > 0
}

// isRefusal reports whether r records that an opening of the run was refused because the program
// differed. A fork leaves such a record out.
func isRefusal(r *record.Record) bool {
	e := r.Interrupt()
	return e != nil && e.Reason == record.InterruptDiverge && e.Cause != nil // otherwise a user gave that reason
}

// withdrawClaims removes the claim order, and a branch's result, from a record of a refused
// opening, because later openings need not follow them.
func withdrawClaims(r *record.Record) {
	r.Ordinal = 0
	if r.Detail != nil {
		detail := *r.Detail
		detail.Unrecorded = nil
		if r.Kind == record.KindBranch {
			detail.Output, detail.Artifact = nil, ""
		}
		r.Detail = &detail
	}
}

// withdrawCompensation marks a completed call as one that cannot be compensated, because its effect
// belongs to the old run.
func withdrawCompensation(r *record.Record) {
	if r.Detail != nil && r.Detail.Compensable {
		detail := *r.Detail
		detail.Compensable = false
		r.Detail = &detail
	}
}

// renumber replaces the record numbers that r refers to with the new numbers.
func renumber(r *record.Record, numbers map[uint64]uint64) {
	d := r.Detail
	if d == nil || d.Replaces == nil && (d.Effect == nil || d.Effect.RunID != "") {
		return
	}
	detail := *d
	if d.Replaces != nil {
		replaced := *d.Replaces
		replaced.Seq = numbers[replaced.Seq]
		detail.Replaces = &replaced
	}
	if d.Effect != nil && d.Effect.RunID == "" {
		effect := *d.Effect
		effect.Seq = numbers[effect.Seq]
		detail.Effect = &effect
	}
	r.Detail = &detail
}

// addLeftClaims adds the claims of a record that is not kept: the claim of its call, and the claims
// that the record lists, such as a question's claim.
func addLeftClaims(left map[record.Address]record.Claim, r *record.Record) {
	add := func(c record.Claim) {
		if _, known := left[c.Address]; !known {
			left[c.Address] = c
		}
	}
	if r.Kind.IsCall() && r.Ordinal > 0 {
		c := record.Claim{Address: r.Address, Ordinal: r.Ordinal, Kind: r.Kind, Name: r.Name}
		if r.Detail != nil {
			c.Input = r.Detail.InputHash
		}
		add(c)
	}
	if r.Detail != nil {
		for _, c := range r.Detail.Unrecorded {
			add(c)
		}
	}
}

// listLeftClaims adds to r, a record that the fork keeps, claims that the fork leaves out: those in
// the scope of r that have lower ordinals than r. The fork then still knows the order of claims.
func listLeftClaims(left map[record.Address]record.Claim, r *record.Record) {
	if r.Ordinal == 0 || !r.Kind.IsCall() || len(left) == 0 {
		return
	}
	var detail record.Detail
	if r.Detail != nil {
		detail = *r.Detail
	}
	before := len(detail.Unrecorded)
	for a, c := range left {
		if c.Ordinal < r.Ordinal && a.Scope() == r.Address.Scope() {
			detail.Unrecorded = append(slices.Clip(detail.Unrecorded), c)
		}
	}
	if len(detail.Unrecorded) > before {
		slices.SortFunc(detail.Unrecorded, func(a, b record.Claim) int { return a.Ordinal - b.Ordinal })
		r.Detail = &detail
	}
}

// isAround reports whether the call at a surrounds the call at inner, or a is the run itself.
func isAround(a, inner record.Address) bool {
	rest, ok := strings.CutPrefix(inner.String(), a.String())
	return a.IsZero() || ok && rest != "" && (rest[0] == '/' || rest[0] == '@')
}
