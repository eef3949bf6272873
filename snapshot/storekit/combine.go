package storekit

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
)

// A Combiner has one statement of a database do what several ask for at the same time: what is
// asked for while its statements are under way shares the next one, with its round trip and its
// commit. It is for many goroutines; its fields must not change after the first Ask.
type Combiner[In, Out any] struct {
	// Do does all of it, and returns the results in the same order, or an error if nothing
	// was done or it is not known; then it is snapshot.ErrUnavailable. After another error
	// Do is called for each of them alone.
	Do func(ctx context.Context, all []In) ([]Out, error)

	Size func(*In) int   // in bytes, of which one statement has 8 MB at most; nil if they are small
	Most int             // how many statements are under way at a time; at least 1
	Wait *sync.WaitGroup // has the goroutines of the combiner: wait for them before the database is closed

	mu       sync.Mutex
	asked    []*request[In, Out]
	underWay int
}

// Bounds of one statement.
const (
	togetherMost = 256
	bytesMost    = 8 << 20
)

// A request is what one asks for.
type request[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// Ask does something together with what others ask for. The end of ctx ends the wait, and not
// what is under way.
func (c *Combiner[In, Out]) Ask(ctx context.Context, in In) (out Out, err error) {
	if err := context.Cause(ctx); err != nil {
		return out, err
	}
	r := &request[In, Out]{in: in, done: make(chan struct{})}
	c.mu.Lock()
	c.asked = append(c.asked, r)
	if c.underWay < c.Most {
		c.underWay++
		c.Wait.Go(c.work)
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// work does what is asked for until nothing is.
func (c *Combiner[In, Out]) work() {
	for {
		runtime.Gosched() // others are about to ask
		all := c.take()
		if len(all) == 0 {
			return
		}
		c.doAll(all)
	}
}

// take returns what one statement is to do.
func (c *Combiner[In, Out]) take() []*request[In, Out] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for ; n < min(len(c.asked), togetherMost); n++ {
		if c.Size != nil {
			size += c.Size(&c.asked[n].in)
		}
		if n > 0 && size > bytesMost {
			break
		}
	}
	if n == 0 {
		c.underWay--
	}
	taken := c.asked[:n:n]
	c.asked = c.asked[n:]
	return taken
}

// doAll does requests together, and one by one if the database refuses one of them.
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
