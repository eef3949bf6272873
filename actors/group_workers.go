package actors

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
)

// eachLimited calls f for 0 … n-1, in order, with at most workers calls at
// once. It returns when all calls have returned. If f panics or ends its
// goroutine, broken is called.
func eachLimited(ctx context.Context, n, workers int, f eachFunc, broken func(i int, err error)) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	var work func()
	work = func() {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			callGuarded(ctx, int(i-1), nil, f, broken, func() {
				wg.Go(work) // this goroutine is ending; a new one replaces it
			})
		}
	}
	for range min(n, workers) {
		wg.Go(work)
	}
	wg.Wait()
}

// An eachFunc executes one call with ctx.
type eachFunc func(ctx context.Context, i int, slot engine.Slot)

// eachYielding is like eachLimited, but when a call releases its slot, the next call may begin.
func eachYielding(ctx context.Context, n, workers int, f eachFunc, broken func(i int, err error)) {
	var wg sync.WaitGroup
	places := make(places, workers)
	for i := range n {
		slot := &slot{places: places}
		slot.Acquire(context.Background())
		wg.Go(func() {
			defer slot.Release()
			callGuarded(ctx, i, slot, f, broken, func() {})
		})
	}
	wg.Wait()
}

// places limits how many calls run at once.
type places chan struct{}

// slot is the place that one call occupies. Only the goroutine of that call uses it.
type slot struct {
	places places
	held   bool
}

// Acquire implements engine.Slot.
func (s *slot) Acquire(ctx context.Context) {
	select {
	case s.places <- struct{}{}:
		s.held = true
	case <-ctx.Done():
	}
}

// Release implements engine.Slot. It does nothing if the slot is not held.
func (s *slot) Release() {
	if s.held {
		s.held = false
		<-s.places
	}
}

// callGuarded calls f. If f panics, callGuarded calls broken. If f ends the goroutine, callGuarded
// calls broken and then left, even if broken ends the goroutine as well.
func callGuarded(ctx context.Context, i int, slot engine.Slot, f eachFunc, broken func(i int, err error), left func()) {
	ctx, exit := engine.CatchExit(ctx)
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			broken(i, &core.PanicError{Value: p, Stack: debug.Stack()})
			return
		}
		defer left()
		err := exit()
		if err == nil {
			err = errLeft
		}
		broken(i, err)
	}()
	f(ctx, i, slot)
	returned = true
}
