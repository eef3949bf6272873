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

// Fork begins a new run with the records of an old run before the first record of the call
// at the address: calls that had an outcome by then are kept, with the answers to their
// questions, and the calls around the address are entered again. When the new run is
// opened with [Open], it makes the call at the address and all later calls again; it has
// its own idempotency keys. To have a question asked again, fork at the call that asked
// it: calls inside that call keep their answers. Fork does not write to the old run, and
// creates the whole new run or nothing.
func Fork(ctx context.Context, store snapshot.Store, runID string, address record.Address, newID string) error {
	if err := CheckRunID(newID); err != nil {
		return err
	}
	old, err := load(ctx, store, runID)
	if err != nil {
		return fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	kept, err := before(old.Records, address)
	if err != nil {
		return fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	forked, err := (&snapshot.Snapshot{Info: snapshot.Info{
		RunID: newID, ParentID: runID, Status: StatusInterrupted, Metadata: old.Metadata, Retry: old.Retry,
		Generation: old.Generation, Program: old.Program, Version: old.Version, Usage: consumed(kept),
	}, Records: kept}).Run()
	if err != nil {
		return fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	_, err = store.Create(ctx, forked)
	if errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("state: fork run %s: run %s exists already; choose another ID: %w", runID, newID, err)
	} else if err != nil {
		return fmt.Errorf("state: fork run %s: %w", runID, err)
	}
	return nil
}

// load reads a run and decodes its records.
func load(ctx context.Context, store snapshot.Reader, runID string) (*snapshot.Snapshot, error) {
	run, err := store.Load(ctx, runID)
	if err != nil {
		return nil, err
	}
	return run.Snapshot()
}

// before returns the records of a run that is forked at the address, with new numbers.
func before(records []record.Record, address record.Address) ([]record.Record, error) {
	first := uint64(0)
	for i := range records {
		if r := &records[i]; r.Address == address && r.Kind.IsCall() {
			first = r.Seq
			break
		}
	}
	if first == 0 {
		return nil, fmt.Errorf("it has no call at %q", address)
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
	var kept []record.Record
	left := make(map[record.Address]record.Claim) // claimed before, and not kept
	for i := range records {
		r := records[i]
		if refused[r.Generation] {
			withdrawClaims(&r)
		}
		switch {
		case r.Seq >= first || r.Kind == record.KindRun && !isInput(&r) || isRefusal(&r):
			continue
		case !ended[r.Address] && !isAround(r.Address, address):
			leave(left, &r)
			continue
		}
		list(left, &r)
		r.Seq, r.Generation = uint64(len(kept))+1, 1
		kept = append(kept, r)
	}
	return kept, nil
}

// isInput reports whether r holds the input with which a runner started the run.
// The fork is of the same program, and a runner reads its input there.
func isInput(r *record.Record) bool {
	return r.Seq == 1 && r.Kind == record.KindRun && r.Status == record.StatusRecorded && r.Detail != nil && len(r.Detail.Input) > 0
}

// isRefusal reports whether r says that its opening of the run was refused
// because the program differed. A fork leaves out such an opening.
func isRefusal(r *record.Record) bool {
	e := r.Interrupt()
	return e != nil && e.Reason == record.InterruptDiverge && e.Cause != nil // else a user gave that reason
}

// withdrawClaims removes the order of claiming from a record: its opening was
// refused, and no other has to keep to that order.
func withdrawClaims(r *record.Record) {
	r.Ordinal = 0
	if r.Detail != nil && len(r.Detail.Unrecorded) > 0 {
		detail := *r.Detail
		detail.Unrecorded = nil
		r.Detail = &detail
	}
}

// leave adds the claims of a record that is not kept: the claim of its call, and the claims
// that it lists, such as that of a question.
func leave(left map[record.Address]record.Claim, r *record.Record) {
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

// list adds to r, which is kept, the claims of its scope that came before it
// and are not kept, so that the order of claiming stays known.
func list(left map[record.Address]record.Claim, r *record.Record) {
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

// isAround reports whether the call at a is around the call at inner, or a is
// the run itself.
func isAround(a, inner record.Address) bool {
	rest, ok := strings.CutPrefix(inner.String(), a.String())
	return a.IsZero() || ok && rest != "" && (rest[0] == '/' || rest[0] == '@')
}
