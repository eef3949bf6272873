package storekit

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
)

// A Combiner executes requests from many goroutines in a few database statements. Requests that
// arrive while statements are running share the next statement, which needs one round trip and one
// commit. A Combiner is safe for concurrent use. Its fields must not change after the first Ask.
type Combiner[In, Out any] struct {
	// Do executes all requests, and returns their results in the same order. It returns an error if
	// no request was executed, or if it is not known whether the requests were executed. In the
	// second case, the error must match snapshot.ErrUnavailable. After any other error, Do is
	// called again separately for each request.
	Do func(ctx context.Context, all []In) ([]Out, error)

	// Size returns the size of a request in bytes. The requests in one statement have at most 8 MiB
	// in total, unless there is only one. Size may be nil if requests are small.
	Size func(*In) int

	MaxStatements int   // maximum number of statements that run at a time; at least 1
	Gate          *Gate // the gate for the database; close it before closing the database

	mu      sync.Mutex
	queue   []*request[In, Out]
	running int
}

// A Gate counts the statements that the combiners for a database are executing, so that Close can
// wait for them. The zero Gate is open.
type Gate struct {
	mu     sync.Mutex // needed because a request may arrive while Close waits
	closed bool
	inside sync.WaitGroup
}

// Close closes the gate, and waits for the statements that are being executed. The combiners refuse
// later requests with [snapshot.ErrClosed].
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

// The limits for one statement.
const (
	maxRequests = 256
	maxBytes    = 8 << 20
)

// A request is one call to Ask.
type request[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// Ask executes a request, possibly together with others, and waits for the result. If ctx ends, Ask
// stops waiting, but a request that is being executed continues. If ctx cannot end and fewer than
// MaxStatements statements are running, the caller's goroutine executes the statement itself.
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

// work executes statements until there are no more requests. After limit statements, another
// goroutine continues.
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

// hasMore reports whether there are more requests. If there are none, it decrements c.running, since
// the caller stops working.
func (c *Combiner[In, Out]) hasMore() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
	}
	return len(c.queue) > 0
}

// take removes the requests for one statement from the queue. If there are none, it decrements
// c.running, since the caller stops working.
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

// doAll executes requests together. If the database refuses one of them, doAll executes them all
// one by one.
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
