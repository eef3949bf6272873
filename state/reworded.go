package state

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// rewordings holds the LLM calls that were answered from their records even though their requests
// have changed in parts that do not belong to a request's identity. It is guarded by run.mu.
type rewordings struct {
	calls  map[record.Address]bool
	sites  map[overlap]bool // the call sites and identities of these calls
	warned map[string]bool  // scopes with a recorded warning

	recorded map[overlap][]recordedRequest // requests that can be compared with others; nil until the first is needed
}

// A recordedRequest is the request of a recorded LLM call.
type recordedRequest struct {
	address record.Address
	number  uint64      // of the record
	hash    record.Hash // hash of the whole request; zero until needed, or if the record cannot be read
}

// A requestMatch describes how the request that a program now makes in an LLM call relates to the
// recorded requests with the same identity.
type requestMatch struct {
	isReworded bool           // the call is recalled, but its record has a different request
	recordedAs record.Address // another call that has this request on record; zero if there is none
}

// compareRequest compares the request of an LLM call with the recorded requests that have the same
// identity. isRecalled is true if the recorded outcome of the call may be used. r.mu must not be
// held, because encoding the input calls methods of the input's type.
func (r *run) compareRequest(c record.Claim, isRecalled bool, input engine.ClaimedInput) requestMatch {
	if c.Kind != record.KindLLM {
		return requestMatch{}
	}
	r.mu.Lock()
	was, recorded, isComparable := r.restored.calls[c.Address], record.Hash{}, r.reworded.sites[overlapOf(c)]
	if isRecalled = isRecalled && was != nil && was.HasOutcome() && !was.NoStore && !was.differs(c.Input); isRecalled {
		recorded, isComparable = r.wholeInput(was.whole), !was.afterReworded
	}
	r.mu.Unlock()
	if isRecalled && recorded.IsZero() || !isRecalled && !isComparable {
		return requestMatch{}
	}
	now, ok := allHashes(input, recorded)
	if !ok {
		return requestMatch{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isRecalled && slices.Contains(now, recorded) {
		was.unchanged = true
		return requestMatch{}
	}
	m := requestMatch{isReworded: isRecalled}
	if isComparable {
		m.recordedAs = r.recordedAs(c, now)
	}
	return m
}

// allHashes returns the hashes that the whole input may have on record. It stops when it reaches
// the wanted hash.
func allHashes(input engine.ClaimedInput, wanted record.Hash) (all []record.Hash, ok bool) {
	hash, err := input.Whole()
	if err != nil {
		return nil, false
	}
	all = append(all, hash)
	for _, encode := range []func() ([]byte, error){input.Encode, input.EncodeBefore} {
		if hash == wanted {
			break
		}
		encoded, err := encode()
		if err == nil {
			hash, err = codec.Hash(encoded)
		}
		if err != nil {
			return nil, false
		}
		all = append(all, hash)
	}
	return all, true
}

// wholeInput returns the hash of the whole input from the record with the given number. The hash is
// zero if the record has none or cannot be read.
func (r *run) wholeInput(number uint64) record.Hash {
	if number == 0 {
		return record.Hash{}
	}
	rec, err := r.restored.found.Record(number)
	if err != nil || rec.Detail == nil {
		return record.Hash{}
	}
	return rec.Detail.WholeInput
}

// recordedAs returns the address of another call that was made at the same site with the same
// identity, and whose recorded request has one of the hashes. The result is zero if there is no
// such call. It is also zero if that call was recalled for the same request in this opening,
// because then the program just makes the request twice. Without this check, if a program made two
// such calls in a different order than before, each would receive the other's answer. r.mu must be
// held.
func (r *run) recordedAs(c record.Claim, hashes []record.Hash) record.Address {
	all := r.recordedRequests(overlapOf(c))
	for i := range all {
		other := &all[i]
		if other.address == c.Address || r.restored.calls[other.address].unchanged {
			continue
		}
		if other.hash.IsZero() {
			other.hash = r.wholeInput(other.number)
		}
		if slices.Contains(hashes, other.hash) {
			return other.address
		}
	}
	return record.Address{}
}

// recordedRequests returns the recorded requests of the calls with the given site and identity, in
// call order. It leaves out requests that were made after a reworded one; see
// record.Detail.AfterReworded. r.mu must be held.
func (r *run) recordedRequests(of overlap) []recordedRequest {
	if r.reworded.recorded == nil {
		r.reworded.recorded = make(map[overlap][]recordedRequest)
		for a, t := range r.restored.calls {
			if t.whole > 0 && !t.afterReworded {
				at := overlap{callsite.Call(a).Site(), t.Input}
				r.reworded.recorded[at] = append(r.reworded.recorded[at], recordedRequest{address: a, number: t.whole})
			}
		}
		for _, all := range r.reworded.recorded {
			slices.SortFunc(all, func(a, b recordedRequest) int {
				return cmp.Compare(callsite.Call(a.address).Nth(), callsite.Call(b.address).Nth())
			})
		}
	}
	return r.reworded.recorded[of]
}

// claimSwapped completes the claim of a call whose request is on record as that of another call.
func (r *run) claimSwapped(s *engine.Scope, c record.Claim, found *record.Progress, onRecord bool, m requestMatch) (*record.Progress, bool, error) {
	d := r.swapped(s, c, m.recordedAs)
	if r.config.divergence == DivergenceRerun && !r.settings.Strict {
		if !m.isReworded {
			return found, onRecord, nil // the call is made in any case
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.life.closed { // no record may follow the run's last record
			r.makeAgain(s, c, d)
		}
		return nil, false, nil
	}
	return found, onRecord, r.handleDivergence(d)
}

// swapped returns the divergence of a call whose request is on record as that of another call.
func (r *run) swapped(s *engine.Scope, c record.Claim, other record.Address) *core.DivergenceError {
	first := c.Address
	if callsite.Call(other).Nth() < callsite.Call(first).Nth() {
		first = other
	}
	return &core.DivergenceError{
		RunID: r.settings.RunID, How: "swap", Address: c.Address, Scope: s.Path(),
		Recorded: other.String(), Asked: c.Address.String(), Fork: first,
	}
}

// add adds a call that is being answered from its records.
func (w *rewordings) add(c record.Claim) {
	if w.calls == nil {
		w.calls, w.sites, w.warned = make(map[record.Address]bool), make(map[overlap]bool), make(map[string]bool)
	}
	w.calls[c.Address], w.sites[overlapOf(c)] = true, true
}

// mark sets AfterReworded in the record of an LLM call that is starting. r.mu must be held.
func (w *rewordings) mark(rec *record.Record) {
	d := rec.Detail
	if d != nil && !d.WholeInput.IsZero() && w.sites[overlap{callsite.Call(rec.Address).Site(), d.InputHash}] {
		d.AfterReworded = true
	}
}

// reportReworded reports a call that is answered from its records even though it is reworded. It
// adds the call to the Report, and records a warning for the first such call in each attempt. The
// warning is published with the next record, because nothing is published while a call is being
// claimed.
func (r *run) reportReworded(s *engine.Scope, c record.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.closed {
		return // no record may follow the run's last record
	}
	r.reworded.add(c)
	a := c.Address
	r.report.Reworded = append(r.report.Reworded, a)
	scope := s.Path()
	if r.reworded.warned[scope] {
		return
	}
	r.reworded.warned[scope] = true
	r.keep(&record.Record{
		Time: now(), Address: s.Address(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: fmt.Sprintf("%s was answered from its record, although instructions, descriptions of tools, "+
			"tools or options have changed; to ask the model again: reprise --dir DIR fork %s '%s' NEW. Further calls of this attempt are only counted", a, r.settings.RunID, a)},
	})
	_ = r.write() // if it fails, the next call returns the error again when it begins
}
