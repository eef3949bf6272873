package main

import (
	"context"
	"time"
)

// loop is a retry loop as it is written in programs that use no library. The function
// attempt makes one attempt; hook may be nil.
func loop(ctx context.Context, delay time.Duration, attempt attempter, handle func(context.Context, int) (int, error), in int, hook func(error)) (int, error) {
	for n := 1; ; n++ {
		out, err := attempt(ctx, handle, in)
		if err == nil {
			return out, nil
		}
		if hook != nil {
			hook(err)
		}
		if n == attempts {
			return 0, err
		}
		if err := pause(ctx, delay); err != nil {
			return 0, err
		}
	}
}

func pause(ctx context.Context, delay time.Duration) error {
	if delay == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An attempter makes one attempt.
type attempter func(ctx context.Context, handle func(context.Context, int) (int, error), in int) (int, error)

// once makes an attempt without a time limit.
func once(ctx context.Context, handle func(context.Context, int) (int, error), in int) (int, error) {
	return handle(ctx, in)
}

// limited sets a time limit that works only if the handler observes its context: the loop cannot
// continue until the handler returns.
func limited(ctx context.Context, handle func(context.Context, int) (int, error), in int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return handle(ctx, in)
}

// abandonable sets a time limit that works with any handler, as Reprise does.
func abandonable(ctx context.Context, handle func(context.Context, int) (int, error), in int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	type end struct {
		out int
		err error
	}
	ended := make(chan end, 1) // an abandoned handler must not block
	go func() {
		out, err := handle(ctx, in)
		ended <- end{out, err}
	}()
	select {
	case e := <-ended:
		return e.out, e.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func startLoop(h handler, attempt attempter) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		handle := h.bind(w)
		return instance{call: func() (int, error) { return loop(ctx, 0, attempt, handle, answer, nil) }}
	}
}

func startLoopHook(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		handle := h.bind(w)
		hook := func(error) { w.heard++ }
		return instance{
			call:     func() (int, error) { return loop(ctx, 0, once, handle, answer, hook) },
			notified: func() int { return w.heard },
		}
	}
}
