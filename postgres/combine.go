package postgres

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
)

// A combiner has one statement do what several ask for at the same time. What is asked for
// while its statements are under way shares the next one, with its round trip and its commit.
type combiner[In, Out any] struct {
	do   func(context.Context, []In) ([]Out, error) // the outs are in the order of the ins
	size func(*In) int                              // in bytes; nil if they are small
	most int                                        // how many statements are under way at a time
	wait *sync.WaitGroup

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

// ask does something together with what others ask for. The end of ctx ends the wait alone.
func (c *combiner[In, Out]) ask(ctx context.Context, in In) (out Out, err error) {
	if err := context.Cause(ctx); err != nil {
		return out, err
	}
	r := &request[In, Out]{in: in, done: make(chan struct{})}
	c.mu.Lock()
	c.asked = append(c.asked, r)
	if c.underWay < c.most {
		c.underWay++
		c.wait.Go(c.work)
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
func (c *combiner[In, Out]) work() {
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
func (c *combiner[In, Out]) take() []*request[In, Out] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for ; n < min(len(c.asked), togetherMost); n++ {
		if c.size != nil {
			size += c.size(&c.asked[n].in)
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
func (c *combiner[In, Out]) doAll(all []*request[In, Out]) {
	ins := make([]In, len(all))
	for i, r := range all {
		ins[i] = r.in
	}
	outs, err := c.do(context.Background(), ins)
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

// column is a column of many rows, for an array that is an argument of a statement.
func column[Row, Value any](rows []Row, of func(*Row) Value) []Value {
	all := make([]Value, len(rows))
	for i := range rows {
		all[i] = of(&rows[i])
	}
	return all
}
