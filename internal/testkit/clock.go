package testkit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble runs f in a synctest bubble. Before the bubble ends, it waits a day of
// fake time, so that handlers that ignore their context can return.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(24 * time.Hour) }()
		f(t)
	})
}

// Pause waits for d. If ctx ends earlier, Pause returns the error of ctx. If d is 0, Pause uses no
// timer, because goroutines in a bubble whose timers fire at the same time crash the race detector
// of Go 1.26.
func Pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopwatch returns a function that returns the time elapsed since Stopwatch was
// called.
func Stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
