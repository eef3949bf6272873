package runner

import (
	"context"
	"fmt"
	"time"
)

// countQueueEvery is how often a shared queue is counted for Stats.
const countQueueEvery = 10 * time.Second

// countQueueLoop counts the queue repeatedly until ctx ends. It spends at most a twentieth of the
// time counting.
func (r *Runner) countQueueLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		if err := r.countQueue(ctx); err != nil && ctx.Err() == nil {
			r.observe(Notice{Type: NoticeTrouble, Err: fmt.Errorf("runner: count the queue: %w", err)})
			began = time.Now() // the time spent on a failed request does not count
		}
		timer.Reset(max(countQueueEvery, 20*time.Since(began)))
	}
}

func (r *Runner) countQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countQueueEvery)
	defer cancel()
	queued, parked, err := r.queue.Waiting(ctx, r.programIDs())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued, r.parked = queued, parked
	return nil
}
