package filestore

import "sync"

// A group runs a function once for many callers. The zero group is ready to use.
type group struct {
	mu   sync.Mutex
	next *round        // the round that has not yet begun; nil if no caller is waiting for one
	last chan struct{} // closed when the latest round has ended; nil if there was none
}

// A round is one call of the function.
type round struct {
	done chan struct{}
	err  error
}

// do returns once a call of f that began after the call of do has returned. That call of f is for
// this caller alone or for several callers at once. Only one call of f runs at a time.
func (g *group) do(f func() error) error {
	g.mu.Lock()
	r, before := g.next, g.last
	if r != nil {
		g.mu.Unlock()
		<-r.done
		return r.err
	}
	r = &round{done: make(chan struct{})}
	g.next, g.last = r, r.done
	g.mu.Unlock()
	if before != nil {
		<-before
	}
	g.mu.Lock()
	g.next = nil // later callers join the next round
	g.mu.Unlock()
	r.err = f()
	close(r.done)
	return r.err
}
