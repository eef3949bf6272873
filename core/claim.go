package core

import (
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// claims numbers what one scope is asked for: calls, groups, steps and
// questions. The calls of each name have a number among themselves, which is a
// part of their address, and all together have an ordinal.
type claims struct {
	mu      sync.Mutex
	ordinal int
	sites   map[string]*siteCounter // by the escaped segment

	// unrecorded are those that are in no record yet, in the order of their ordinals,
	// questions included. It is kept where what is recorded is to be
	// resumed. Branches of groups are not among them: the number of a branch says
	// where it belongs.
	unrecorded []record.Claim

	branches []bool // of a group: those that were made; nil for none

	// direct is how many calls are under way that were claimed when they were
	// executed, and so in no order if there is more than one.
	direct     atomic.Int32
	overlapped bool // it was reported
}

// take keeps the claim until it is in a record. The lock is held.
func (in *claims) take(c record.Claim) { in.unrecorded = append(in.unrecorded, c) }

// upTo returns those up to the ordinal that are in no record yet.
func (in *claims) upTo(ordinal int) []record.Claim {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]record.Claim(nil), in.unrecorded[:in.count(ordinal)]...) // nil for none
}

// drop forgets those up to the ordinal: they are in a record.
func (in *claims) drop(ordinal int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unrecorded = in.unrecorded[in.count(ordinal):]
}

// count is the number of those up to the ordinal. The lock is held.
func (in *claims) count(ordinal int) int {
	n, _ := slices.BinarySearchFunc(in.unrecorded, ordinal+1, func(c record.Claim, ordinal int) int { return c.Ordinal - ordinal })
	return n
}

// siteCounter counts the calls of one name in one scope.
type siteCounter struct {
	site record.CallSite
	n    int
}

// claims numbers the calls made in the scope: those of all contexts of a run
// are numbered together.
func (s *Scope) claims() *claims {
	if s.call == nil {
		return &s.root.claims
	}
	return &s.inner().claims
}

// claim gives the call the next address in the scope around it. A segment is
// escaped; branch is the number of the branch that the call is, 0 for none. In
// a run that was restored it returns what is recorded of the call.
func (c *call) claim(segment string, branch int) {
	c.scope = c.parent
	if c.direct = c.direct && c.root.settings.Outputs && c.parent.call != nil; c.direct {
		defer c.checkOverlap()
	}
	if c.root.isOutside() {
		return
	}
	settings := c.root.settings
	keeps := settings.Outputs || settings.Payloads
	if keeps {
		c.recall = new(recall)
		c.recall.input, c.recall.inputErr = c.typed.identity()
	}
	in := c.parent.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if c.off = c.parent.offPath(); c.off != nil {
		return
	}
	in.ordinal++
	if branch > 0 {
		c.address = record.Site(c.parent.Path(), strconv.Itoa(branch)).Address(1)
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
	if settings.Restored {
		c.recall.found, onRecord, c.recall.refused = c.root.run.Claim(c.parent, claim, c.typed.encodeInput)
		if c.recall.refused != nil {
			c.parent.stop(c.parent.interruptionBy(c.recall.refused))
		}
	}
	if !onRecord && branch == 0 {
		in.take(claim)
	}
}

// next is the address of the next call of the segment.
func (in *claims) next(s *Scope, segment string) record.Address {
	counter := in.sites[segment]
	if counter == nil {
		if in.sites == nil {
			in.sites = make(map[string]*siteCounter)
		}
		counter = &siteCounter{site: record.Site(s.Path(), segment)}
		in.sites[segment] = counter
	}
	counter.n++
	return counter.site.Address(counter.n)
}

// unrecordedBelow returns the claims with lower ordinals that are in no record,
// and those around the scope where the call whose preconditions it is of has no
// record itself.
func (c *call) unrecordedBelow() []record.Claim {
	all := c.scope.claims().upTo(c.ordinal - 1)
	for claimed := c; claimed.scope.attempt == beforeFirst; {
		claimed = claimed.scope.call
		all = append(all, claimed.scope.claims().upTo(claimed.ordinal)...)
	}
	return all
}

// recorded says that the first record of the claim was appended, with all that
// were unrecorded below. It comes after that: if another record lists one of
// them meanwhile, it says nothing wrong.
func (c *call) recorded() {
	c.claimed = false
	for claimed := c; claimed != nil; claimed = claimed.scope.call {
		claimed.scope.claims().drop(claimed.ordinal)
		if claimed.scope.attempt != beforeFirst {
			return
		}
	}
}

// checkOverlap counts a call that is claimed and made at once. Another one that
// is under way in the same scope is made by another goroutine. What they claim
// comes in an order that no resumed run can be held to, so that is recorded as a
// warning, once for each scope. Calls that are recalled are not made: whether they
// overlap is chance, and it was recorded when they were made.
func (c *call) checkOverlap() {
	in := c.scope.claims()
	if in.direct.Add(1) == 1 || c.off != nil || c.recall.found != nil && c.recall.found.HasOutcome() {
		return
	}
	in.mu.Lock()
	reported := in.overlapped
	in.overlapped = true
	in.mu.Unlock()
	if reported {
		return
	}
	rec := record.Record{
		Time: time.Now().Round(0).UTC(), Address: c.scope.Address(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "calls overlap: " + c.address.String() + " began while another call of the same " +
			"attempt was under way. Goroutines of the program's own make calls in no certain order: a run that is resumed can refuse them, or give " +
			"one the result of another. Use actors.Map or actors.Parallel for calls in parallel, or Prepare each call before its goroutine begins; " +
			"core.Step is for what is not a call"},
	}
	_ = c.root.run.Append(c.scope, rec) // a warning that comes too late has nobody to read it
}

// leaveDirect takes back what checkOverlap counted.
func (c *call) leaveDirect() {
	if c.direct {
		c.scope.claims().direct.Add(-1)
	}
}

// questionMark stands before the number of a question in its ID, sleepMark before
// that of a sleep, which is a question that time answers.
const (
	questionMark = "?"
	sleepMark    = "?sleep"
)

// claimQuestion gives a question of the attempt its ID and the next ordinal. It
// returns the suspension to stop with where no question is asked any more: the
// attempt has stopped, or was recorded with something else in this place.
func (s *Scope) claimQuestion(mark string) (id string, claimed *record.Claim, stopped *InterruptedError) {
	inside := s.inner()
	in := &inside.claims
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := s.offPath(); e != nil {
		s.stop(e)
		return "", nil, e
	}
	inside.questions++
	in.ordinal++
	segment := record.QuestionSegment(inside.questions)
	if s.attempt == beforeFirst {
		mark += "pre"
	}
	id = s.call.address.String() + mark + strconv.Itoa(inside.questions)
	if settings := s.root.settings; !settings.Outputs && !settings.Payloads {
		return id, nil, nil
	}
	claimed = &record.Claim{Address: record.Site(s.Path(), segment).Address(1), Ordinal: in.ordinal, Kind: record.KindQuestion}
	if s.root.settings.Restored {
		_, onRecord, err := s.root.run.Claim(s, *claimed, nil)
		if err != nil {
			e := s.interruptionBy(err)
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
