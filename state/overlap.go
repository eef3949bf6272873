package state

import (
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

// If goroutines call the same actor with the same input at the same time, they claim their calls in
// an unpredictable order. When the run is resumed, one goroutine may get the result of another.
// This is harmless if all outcomes are equal. Otherwise the calls are refused.

// overlaps holds, for each call site and input, whether overlapping calls can be swapped.
type overlaps map[overlap]*swap

type overlap struct {
	site  callsite.Site
	input record.Hash
}

func overlapOf(c record.Claim) overlap { return overlap{callsite.Call(c.Address).Site(), c.Input} }

// A swap records whether calls can be swapped, once this is known.
type swap struct {
	known bool
	harm  string // the difference that matters between the calls; empty if there is none
}

// add adds the call whose first record is rec.
func (o *overlaps) add(rec *record.Record) {
	if *o == nil {
		*o = make(overlaps)
	}
	(*o)[overlap{callsite.Call(rec.Address).Site(), rec.Detail.InputHash}] = new(swap)
}

// checkSwap returns an error if the claim might receive the outcome of another call, and nil
// otherwise.
func (r *restoredRun) checkSwap(c record.Claim) *core.DivergenceError {
	if len(r.overlaps) == 0 || c.Kind == record.KindQuestion {
		return nil
	}
	s := r.overlaps[overlapOf(c)]
	if s == nil {
		return nil
	}
	if !s.known {
		s.known, s.harm = true, r.harmOfSwap(callsite.Call(c.Address).Site(), c.Input)
	}
	if s.harm == "" {
		return nil
	}
	return &core.DivergenceError{How: "overlap", Recorded: s.harm, Asked: "the calls of goroutines, in any order"}
}

// harmOfSwap returns what distinguishes the calls made at the site with the given input. The result
// is empty if nothing does.
func (r *restoredRun) harmOfSwap(site callsite.Site, input record.Hash) string {
	var first *record.Record
	without := 0
	for nth := 1; ; nth++ {
		t := r.calls[record.Address(site.Call(nth))]
		switch {
		case t == nil && first == nil && without == 0 && nth == 1:
			continue // the call was made by a refused opening
		case t == nil:
			if first != nil && without > 0 {
				return "only some of them have an outcome"
			}
			return ""
		case t.Input != input:
			continue
		case !t.HasOutcome():
			without++
			continue
		}
		outcome, err := r.found.Record(t.Last)
		switch {
		case err != nil:
			return err.Error()
		case first == nil:
			first = &outcome
		case first.Status != outcome.Status || first.Artifact() != outcome.Artifact() || !sameValue(first.Encoded(), outcome.Encoded()) ||
			fmt.Sprint(first.Err) != fmt.Sprint(outcome.Err):
			return "their outcomes differ"
		}
	}
}
