package engine

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
)

// claims numbers the calls, groups, steps and questions in one scope. Calls are numbered separately
// for each name; this number is part of the address. In addition, an ordinal numbers all claims in
// the scope together.
type claims struct {
	mu      sync.Mutex
	ordinal int
	sites   map[string]*siteCounter // by escaped segment

	// unrecorded holds the claims, including questions, that are not yet in any record, in the
	// order of their ordinals. It is used only if the run can be resumed. Branches of groups are
	// not included, because the number of a branch determines its position.
	unrecorded []record.Claim

	branches []bool // if this is a group, which branches have been made; otherwise nil

	// direct counts the calls in progress that were claimed only when they were
	// executed. If there are several such calls, their order is not deterministic.
	direct     atomic.Int32
	overlapped bool             // overlapping calls were reported
	inProgress map[sameCall]int // the calls in progress, except recalled ones
}

// take keeps the claim until it is in a record. The caller holds in.mu.
func (in *claims) take(c record.Claim) { in.unrecorded = append(in.unrecorded, c) }

// upTo returns the unrecorded claims up to and including the ordinal.
func (in *claims) upTo(ordinal int) []record.Claim {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]record.Claim(nil), in.unrecorded[:in.count(ordinal)]...) // nil if there are none
}

// drop removes the claims up to and including the ordinal, which are now in a record.
func (in *claims) drop(ordinal int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unrecorded = in.unrecorded[in.count(ordinal):]
}

// count returns the number of unrecorded claims up to and including the ordinal. The caller must
// hold in.mu.
func (in *claims) count(ordinal int) int {
	n, _ := slices.BinarySearchFunc(in.unrecorded, ordinal+1, func(c record.Claim, ordinal int) int { return c.Ordinal - ordinal })
	return n
}

// siteCounter counts the calls with one name in one scope.
type siteCounter struct {
	site callsite.Site
	n    int
}

// claims returns the counters that number the calls made in the scope. Root calls are numbered
// together across all contexts of a run.
func (s *Scope) claims() *claims {
	if s.call == nil {
		return &s.root.claims
	}
	return &s.ensureState().claims
}

// claim gives the call the next address in the surrounding scope. The segment is escaped. branch is
// the number of the branch, or 0 if the call is not a branch. In a restored run, claim also looks
// up the recorded progress of the call.
func (c *Call) claim(segment string, branch int) {
	c.scope = c.parent
	if c.parent.Closed() { // it will not begin
		c.direct = false
		return
	}
	if c.direct = c.direct && c.root.settings.Outputs && c.parent.call != nil; c.direct {
		defer c.checkOverlap()
	}
	if c.root.isOutside() {
		return
	}
	settings := c.root.settings
	keeps := settings.Outputs || settings.Payloads
	if keeps || c.spec.Irreversible {
		c.recall = new(recall)
		c.recall.input, c.recall.inputErr = c.typed.Identity()
	}
	in := c.parent.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if c.blockedBy = c.parent.blockedBy(); c.blockedBy != nil {
		return
	}
	in.ordinal++
	if branch > 0 {
		c.address = record.Address(callsite.Of(c.parent.Path(), strconv.Itoa(branch)).Call(1))
	} else {
		c.address = in.next(c.parent, segment)
	}
	c.ordinal = in.ordinal
	if !keeps {
		return
	}
	claim := record.Claim{Address: c.address, Ordinal: c.ordinal, Kind: c.spec.Kind, Name: c.spec.Name, Input: c.recall.input}
	c.claimed = true
	onRecord := false
	if settings.History != nil {
		c.recall.found, onRecord, c.recall.refused = settings.History.Claim(c.parent, claim, (*claimedInput)(c))
		if c.hasOldHash() {
			c.recall.input, claim.Input = c.recall.oldInput, c.recall.oldInput
		}
		if c.recall.refused != nil {
			c.parent.stop(c.parent.InterruptionBy(c.recall.refused))
		}
	}
	if !onRecord && branch == 0 {
		in.take(claim)
	}
}

// claimedInput gives a run access to the input of a call.
type claimedInput Call

func (c *claimedInput) Encode() ([]byte, error)       { return c.typed.EncodeInput() }
func (c *claimedInput) EncodeBefore() ([]byte, error) { return c.typed.EncodeInputBefore() }

func (c *claimedInput) Whole() (record.Hash, error) {
	hash, _, err := c.typed.WholeInput()
	return hash, err
}

func (c *claimedInput) HashBefore() (record.Hash, error) {
	hash, err := c.typed.IdentityBefore()
	if err == nil {
		c.recall.oldInput = hash
	}
	return hash, err
}

// hasOldHash reports whether the call was recorded with the old hash of its input, from before some
// values were encoded as JSON. Such a call keeps that hash, and therefore its idempotency key.
func (c *Call) hasOldHash() bool {
	r := c.recall
	return r != nil && r.found != nil && !r.oldInput.IsZero() && r.found.Input == r.oldInput
}

// next returns the address of the next call with the given segment.
func (in *claims) next(s *Scope, segment string) record.Address {
	counter := in.sites[segment]
	if counter == nil {
		if in.sites == nil {
			in.sites = make(map[string]*siteCounter)
		}
		counter = &siteCounter{site: callsite.Of(s.Path(), segment)}
		in.sites[segment] = counter
	}
	counter.n++
	return record.Address(counter.site.Call(counter.n))
}

// unrecordedBelow returns the claims with lower ordinals that are not in any record. If the
// preconditions of another call make this call, the unrecorded claims up to that other call are
// included, too.
func (c *Call) unrecordedBelow() []record.Claim {
	all := c.scope.claims().upTo(c.ordinal - 1)
	for claimed := c; claimed.scope.attempt == preconditionsAttempt; {
		claimed = claimed.scope.call
		all = append(all, claimed.scope.claims().upTo(claimed.ordinal)...)
	}
	return all
}

// dropListedClaims drops the claims that the call's first record lists. It is called after that
// record has been appended. It does no harm if another record lists some of these claims in the
// meantime.
func (c *Call) dropListedClaims() {
	c.claimed = false
	for claimed := c; claimed != nil; claimed = claimed.scope.call {
		claimed.scope.claims().drop(claimed.ordinal)
		if claimed.scope.attempt != preconditionsAttempt {
			return
		}
	}
}

// claimQuestion gives a question or a sleep of the attempt its ID and the next ordinal. Questions
// and sleeps are numbered separately, so that they cannot be confused. claimQuestion returns a
// suspension if the question must not be asked, because the attempt has stopped or something else
// was recorded at this point.
func (s *Scope) claimQuestion(mark string) (id string, claimed *record.Claim, stopped *InterruptedError) {
	inside := s.ensureState()
	in := &inside.claims
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := s.blockedBy(); e != nil {
		s.stop(e)
		return "", nil, e
	}
	number, name := &inside.questions, segment.OfQuestion
	if mark == segment.SleepMark {
		number, name = &inside.sleeps, segment.OfSleep
	}
	*number++
	in.ordinal++
	if s.attempt == preconditionsAttempt {
		mark += "pre"
	}
	id = s.call.address.String() + mark + strconv.Itoa(*number)
	if settings := s.root.settings; !settings.Outputs && !settings.Payloads {
		return id, nil, nil
	}
	claimed = &record.Claim{Address: record.Address(callsite.Of(s.Path(), name(*number)).Call(1)), Ordinal: in.ordinal, Kind: record.KindQuestion}
	if history := s.root.settings.History; history != nil {
		_, onRecord, err := history.Claim(s, *claimed, nil)
		if err != nil {
			e := s.InterruptionBy(err)
			s.Suspend(e)
			return id, nil, e
		}
		if onRecord {
			return id, nil, nil
		}
	}
	in.take(*claimed)
	return id, claimed, nil
}
