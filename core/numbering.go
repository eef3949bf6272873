package core

import (
	"sync"
	"sync/atomic"
	"unique"
)

// numbering counts the calls of each name that one scope numbers.
type numbering struct {
	latest atomic.Pointer[counter] // of the name that was claimed last: in a loop it is the next again

	mu     sync.Mutex // guards byName
	byName map[string]*counter
}

// counter counts the calls of one name.
type counter struct {
	name string // an escaped segment
	site unique.Handle[site]
	n    atomic.Int64
}

func (c *counter) next() Address { return Address{c.site, int(c.n.Add(1))} }

// claim gives the next call of the name in this scope its address. A name is
// an escaped segment.
func (s *Scope) claim(name string) Address {
	n := s.numbering()
	if c := n.latest.Load(); c != nil && c.name == name {
		return c.next()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.byName[name]
	if c == nil {
		c = &counter{name: name, site: unique.Make(site{s.path(), name})}
		if n.byName == nil {
			n.byName = make(map[string]*counter)
		}
		n.byName[name] = c
	}
	n.latest.Store(c)
	return c.next()
}

// numbering is what numbers the calls made in the scope: those of a root share
// that of the run.
func (s *Scope) numbering() *numbering {
	if s.call.isRoot() {
		return &s.call.root.counts
	}
	if s.counts.Load() == nil {
		s.counts.CompareAndSwap(nil, new(numbering))
	}
	return s.counts.Load()
}
