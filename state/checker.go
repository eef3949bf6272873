package state

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// checker calls the user's InterruptCheck on behalf of all calls in the run.
type checker struct {
	ask     InterruptCheck
	run     *run
	busy    sync.Mutex
	last    time.Time
	failing bool
}

// checkEvery is the minimum time between calls to the InterruptCheck.
const checkEvery = 100 * time.Millisecond

// check interrupts the run if the InterruptCheck returns an interrupt. A call that arrives while
// another call is checking, or soon after, does not check again: an interrupt reaches it through
// its context.
func (c *checker) check(ctx context.Context) {
	if !c.busy.TryLock() {
		return
	}
	defer c.busy.Unlock()
	if at := time.Now(); c.last.IsZero() || at.Sub(c.last) >= checkEvery {
		c.last = at
	} else {
		return
	}
	interrupt, err := c.askSafely(ctx)
	if err != nil && !c.failing && ctx.Err() == nil {
		c.run.log(nil, slog.LevelWarn, fmt.Sprint("the interrupt checker failed: ", err), nil)
	}
	c.failing = err != nil
	if interrupt != nil {
		c.run.interrupt(interrupt)
	}
}

func (c *checker) askSafely(ctx context.Context) (interrupt *core.InterruptedError, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &core.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return c.ask(ctx)
}
