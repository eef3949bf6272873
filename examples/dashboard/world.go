package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
)

// A world simulates the services that the agents use. During part of each minute, the
// services fail often.
type world struct {
	started time.Time

	mu     sync.Mutex
	random *rand.Rand
}

func newWorld(seed uint64) *world {
	return &world{started: time.Now(), random: rand.New(rand.NewPCG(seed, 7))}
}

// roll returns a random number in [0, 1).
func (w *world) roll() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64()
}

// between returns a random duration between least and most.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.roll()*float64(most-least))
}

func pick[T any](w *world, from []T) T { return from[int(w.roll()*float64(len(from)))] }

// stormy reports whether services fail often: from second 8 to 34 of each minute.
func (w *world) stormy() bool {
	second := time.Since(w.started) % time.Minute
	return second > 8*time.Second && second < 34*time.Second
}

// askModel simulates a model call: its duration, its usage and its failures.
func (w *world) askModel(ctx context.Context) error {
	if err := wait(ctx, w.between(300*time.Millisecond, 1800*time.Millisecond)); err != nil {
		return err
	}
	tokens := int(w.between(400, 4000))
	core.AddUsage(ctx, core.Usage{InputTokens: tokens})
	luck, failureRate := w.roll(), 0.06
	if w.stormy() {
		failureRate = 0.8
	}
	switch {
	case luck < failureRate*0.6:
		return &httperror.Error{Code: 429, After: w.between(6*time.Second, 25*time.Second).Round(time.Second), Excerpt: "rate limit of 60,000 tokens per minute reached"}
	case luck < failureRate*0.9:
		return &httperror.Error{Code: 503, Excerpt: "the model is overloaded"}
	case luck < failureRate:
		return &httperror.Error{Code: 500, Excerpt: "internal error, request id 7f3a"}
	}
	core.AddUsage(ctx, core.Usage{OutputTokens: tokens / 6, Cost: float64(tokens) * 0.9e-6})
	return nil
}

// askService simulates a call to a web service, which may hang or fail with one of errs.
func (w *world) askService(ctx context.Context, errs ...error) error {
	luck, failureRate := w.roll(), 0.08
	if w.stormy() {
		failureRate = 0.55
	}
	switch {
	case luck < failureRate*0.3:
		return wait(ctx, time.Minute) // until the attempt times out
	case luck < failureRate:
		if err := wait(ctx, w.between(100*time.Millisecond, 600*time.Millisecond)); err != nil {
			return err
		}
		return pick(w, errs)
	}
	return wait(ctx, w.between(150*time.Millisecond, 1200*time.Millisecond))
}

// wait waits for d. If ctx ends earlier, it returns the cause.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
