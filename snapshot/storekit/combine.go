package storekit

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
)

// A Combiner executes the requests of many goroutines in few statements of a database. Requests
// that arrive while its statements are running share the next statement, with one round trip and
// one commit. It is safe for concurrent use; its fields must not change after the first Ask.
type Combiner[In, Out any] struct {
	// Do executes all requests, and returns the results in the same order. It returns an error if
	// nothing was done or if the outcome is not known; in the second case the error is
	// snapshot.ErrUnavailable. After any other error, Do is called again for each request alone.
	Do func(ctx context.Context, all []In) ([]Out, error)

	Size          func(*In) int // size of a request in bytes; a statement has at most 8 MB. Nil if requests are small
	MaxStatements int           // maximum number of statements that run at a time; at least 1
	Gate          *Gate         // of the database; close it before closing the database

	mu      sync.Mutex
	queue   []*request[In, Out]
	running int
}

// A Gate counts the statements that the combiners of a database execute, until it is closed. Its
// zero value is open.
type Gate struct {
	mu     sync.Mutex // a request may come while Close waits
	closed bool
	inside sync.WaitGroup
}

// Close waits for the statements that are being executed. Requests that come later are refused with
// [snapshot.ErrClosed].
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

// Limits of one statement.
const (
	maxRequests = 256
	maxBytes    = 8 << 20
)

// A request is one call of Ask.
type request[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// Ask executes a request, possibly together with others. The end of ctx ends only the wait: a
// request that is being executed continues. A caller whose ctx never ends executes the statement
// itself, if it need not wait for others.
func (c *Combiner[In, Out]) Ask(ctx context.Context, in In) (out Out, err error) {
	if err := context.Cause(ctx); err != nil {
		return out, err
	}
	r := &request[In, Out]{in: in, done: make(chan struct{})}
	c.mu.Lock()
	isFree := c.running < c.MaxStatements
	if isFree {
		if !c.Gate.enter() {
			c.mu.Unlock()
			return out, snapshot.ErrClosed
		}
		c.running++
	}
	c.queue = append(c.queue, r)
	c.mu.Unlock()
	switch {
	case !isFree:
	case ctx.Done() == nil:
		c.work(1)
	default:
		go c.work(noLimit)
	}
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// work executes statements until there are no requests. After limit statements it leaves the rest to
// another goroutine.
func (c *Combiner[In, Out]) work(limit int) {
	for range limit {
		runtime.Gosched() // lets others add their requests
		all := c.take()
		if len(all) == 0 {
			c.Gate.inside.Done()
			return
		}
		c.doAll(all)
	}
	if c.hasMore() {
		go c.work(noLimit)
	} else {
		c.Gate.inside.Done()
	}
}

// hasMore reports whether there are more requests. If there are none, it notes that the caller
// stops working.
func (c *Combiner[In, Out]) hasMore() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
	}
	return len(c.queue) > 0
}

// take returns the requests for one statement.
func (c *Combiner[In, Out]) take() []*request[In, Out] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for ; n < min(len(c.queue), maxRequests); n++ {
		if c.Size != nil {
			size += c.Size(&c.queue[n].in)
		}
		if n > 0 && size > maxBytes {
			break
		}
	}
	if n == 0 {
		c.running--
	}
	taken := c.queue[:n:n]
	c.queue = c.queue[n:]
	return taken
}

// doAll executes requests together, or one by one if the database refuses one of them.
func (c *Combiner[In, Out]) doAll(all []*request[In, Out]) {
	ins := make([]In, len(all))
	for i, r := range all {
		ins[i] = r.in
	}
	outs, err := c.Do(context.Background(), ins)
	if err != nil && len(all) > 1 && !errors.Is(err, snapshot.ErrUnavailable) {
		for i := range all {
			c.doAll(all[i : i+1])
		}
		return
	}
	for i, r := range all {
		if r.err = err; err == nil {
			r.out = outs[i]
		}
		close(r.done)
	}
}
