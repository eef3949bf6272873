package core

import (
	"slices"
	"strconv"
	"sync"
	"unique"
)

// claims numbers what one scope is asked for: calls, groups, steps and
// questions. The calls of each name have a number among themselves, which is a
// part of their address, and all together have an ordinal.
type claims struct {
	mu      sync.Mutex
	ordinal int
	sites   map[string]*siteCounter // by the escaped segment

	// unrecorded are those that have no record yet, in the order of claiming.
	// It is kept where what is recorded is to be resumed.
	unrecorded []*Claim
}

// siteCounter counts the calls of one name in one scope.
type siteCounter struct {
	site unique.Handle[site]
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
	if c.root.isOutside() {
		return
	}
	settings := c.root.settings
	keeps := settings.Outputs || settings.Payloads
	if keeps {
		c.input, c.inputErr = c.typed.identity()
	}
	in := c.parent.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := c.parent.stopped.Load(); e != nil && c.parent.call != nil {
		c.off = e
		return
	}
	in.ordinal++
	if branch > 0 {
		c.address = newAddress(c.parent.Path(), strconv.Itoa(branch), 1)
	} else {
		c.address = in.next(c.parent, segment)
	}
	c.ordinal = in.ordinal
	if !keeps {
		return
	}
	claim := &Claim{Address: c.address, Ordinal: c.ordinal, Kind: c.spec.Kind, Name: c.spec.Name, Input: c.input}
	in.unrecorded = append(in.unrecorded, claim)
	c.claimed = claim
	if settings.Restored {
		c.found, c.refused = c.root.run.Claim(c.parent, *claim, c.typed.encodeInput)
		if c.refused != nil {
			c.stopParent(c.interruptionBy(c.refused))
		}
	}
}

// next is the address of the next call of the segment.
func (in *claims) next(s *Scope, segment string) Address {
	counter := in.sites[segment]
	if counter == nil {
		if in.sites == nil {
			in.sites = make(map[string]*siteCounter)
		}
		counter = &siteCounter{site: unique.Make(site{s.Path(), segment})}
		in.sites[segment] = counter
	}
	counter.n++
	return Address{counter.site, counter.n}
}

// unrecordedBelow returns the claims with lower ordinals that have no record,
// those around the scope included where the call whose preconditions it is of
// has none itself.
func (c *call) unrecordedBelow() []Claim {
	var all []Claim
	for claimed := c; claimed != nil; claimed = claimed.scope.call {
		in := claimed.scope.claims()
		in.mu.Lock()
		for _, claim := range in.unrecorded {
			if claim.Ordinal < claimed.ordinal || claimed != c && claim == claimed.claimed {
				all = append(all, *claim)
			}
		}
		in.mu.Unlock()
		if claimed.scope.attempt != beforeFirst {
			break
		}
	}
	return all
}

// recorded says that the first record of the claim was appended. It comes
// after that: whoever lists it meanwhile says nothing wrong.
func (c *call) recorded() {
	in := c.scope.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unrecorded = slices.DeleteFunc(in.unrecorded, func(claim *Claim) bool { return claim == c.claimed })
	c.claimed = nil
}
