package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/httperror"
)

// world is the services that the agents talk to. Each minute they have a storm.
type world struct {
	begun time.Time

	mu   sync.Mutex
	dice *rand.Rand
}

func newWorld(seed uint64) *world {
	return &world{begun: time.Now(), dice: rand.New(rand.NewPCG(seed, 7))}
}

// roll returns a number from 0 up to 1.
func (w *world) roll() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.Float64()
}

// between returns a duration between the two.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.roll()*float64(most-least))
}

func pick[T any](w *world, from []T) T { return from[int(w.roll()*float64(len(from)))] }

// stormy reports whether the services have a bad time: from second 8 to 34 of
// each minute.
func (w *world) stormy() bool {
	second := time.Since(w.begun) % time.Minute
	return second > 8*time.Second && second < 34*time.Second
}

// askModel takes as long as a model does, and counts what it costs.
func (w *world) askModel(ctx context.Context) error {
	if err := wait(ctx, w.between(300*time.Millisecond, 1800*time.Millisecond)); err != nil {
		return err
	}
	tokens := int(w.between(400, 4000))
	core.AddUsage(ctx, core.Usage{InputTokens: tokens})
	luck, troubles := w.roll(), 0.06
	if w.stormy() {
		troubles = 0.8
	}
	switch {
	case luck < troubles*0.6:
		return &httperror.Error{Code: 429, After: w.between(6*time.Second, 25*time.Second).Round(time.Second), Excerpt: "rate limit of 60,000 tokens per minute reached"}
	case luck < troubles*0.9:
		return &httperror.Error{Code: 503, Excerpt: "the model is overloaded"}
	case luck < troubles:
		return &httperror.Error{Code: 500, Excerpt: "internal error, request id 7f3a"}
	}
	core.AddUsage(ctx, core.Usage{OutputTokens: tokens / 6, Cost: float64(tokens) * 0.9e-6})
	return nil
}

// askService takes as long as a web service does. In a storm it hangs, or
// loses the connection.
func (w *world) askService(ctx context.Context, errs ...error) error {
	luck, troubles := w.roll(), 0.08
	if w.stormy() {
		troubles = 0.55
	}
	switch {
	case luck < troubles*0.3:
		return wait(ctx, time.Minute) // until the attempt's time is over
	case luck < troubles:
		if err := wait(ctx, w.between(100*time.Millisecond, 600*time.Millisecond)); err != nil {
			return err
		}
		return pick(w, errs)
	}
	return wait(ctx, w.between(150*time.Millisecond, 1200*time.Millisecond))
}

// wait returns the cause when ctx ends before d is over.
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
