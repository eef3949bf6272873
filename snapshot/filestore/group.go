package filestore

import "sync"

// A group does one thing for many at a time. The zero group is ready.
type group struct {
	mu   sync.Mutex
	next *round        // that has not begun; nil if nobody waits
	last chan struct{} // closed when the latest round has ended; nil if there is none
}

// round is one time that the thing is done.
type round struct {
	done chan struct{}
	err  error
}

// do returns when f, or that of another who waits, was called and has returned.
// One f runs at a time.
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
