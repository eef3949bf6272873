package actors

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
)

// eachLimited calls f for 0 … n-1, at most workers at once and begun in
// order, and returns when all are done. Where f panics or leaves its
// goroutine, broken is called instead of f returning.
func eachLimited(n, workers int, f func(i int, slot core.Slot), broken func(i int, err error)) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	var work func()
	work = func() {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			guarded(int(i-1), nil, f, broken, func() {
				wg.Go(work) // this goroutine is ending; another takes its place
			})
		}
	}
	for range min(n, workers) {
		wg.Go(work)
	}
	wg.Wait()
}

// eachYielding does as eachLimited, but that one which gives up its slot lets
// the next begin.
func eachYielding(n, workers int, f func(i int, slot core.Slot), broken func(i int, err error)) {
	var wg sync.WaitGroup
	places := make(places, workers)
	for i := range n {
		slot := &slot{places: places}
		slot.Acquire(context.Background())
		wg.Go(func() {
			defer slot.Release()
			guarded(i, slot, f, broken, func() {})
		})
	}
	wg.Wait()
}

// places are those of calls that run at once.
type places chan struct{}

// slot is the place of one call, for its goroutine alone.
type slot struct {
	places places
	held   bool
}

// Acquire implements core.Slot.
func (s *slot) Acquire(ctx context.Context) {
	select {
	case s.places <- struct{}{}:
		s.held = true
	case <-ctx.Done():
	}
}

// Release implements core.Slot. One that is not held stays so.
func (s *slot) Release() {
	if s.held {
		s.held = false
		<-s.places
	}
}

// guarded calls f. Where it does not return, broken is called, and left if its
// goroutine is ending.
func guarded(i int, slot core.Slot, f func(i int, slot core.Slot), broken func(i int, err error), left func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			broken(i, &core.PanicError{Value: p, Stack: debug.Stack()})
			return
		}
		broken(i, errLeft)
		left()
	}()
	f(i, slot)
	returned = true
}
