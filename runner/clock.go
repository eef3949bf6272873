package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrClock is the error that errors.Is finds in a [NoticeTrouble] after the clock of the machine
// has jumped by more than a minute, because somebody set it or the machine was suspended. Jumps are
// reported only if Options.Queue is nil. Everything that waits for a time follows the new clock.
// After a jump forward, runs continue earlier, and schedules skip the instants that have passed,
// unless CatchUp covers them. After a jump back, runs continue later, and no schedule starts a run
// twice.
var ErrClock = errors.New("runner: the clock of the machine has jumped")

// minJump is the smallest jump of the clock that is reported.
const minJump = time.Minute

// A reading consists of two times that were read together: the time on the machine's clock, and a
// monotonic time.
type reading struct {
	wall      time.Time
	monotonic time.Duration
}

// clockSince returns a clock whose monotonic time counts from begin.
func clockSince(begin time.Time) func() reading {
	return func() reading {
		now := time.Now()
		return reading{now.Round(0), now.Sub(begin)}
	}
}

// jump returns by how much the machine's clock has jumped since an earlier reading.
func (r reading) jump(before reading) time.Duration {
	return r.wall.Sub(before.wall) - (r.monotonic - before.monotonic)
}

// watchClock reports jumps of the machine's clock until ctx ends.
func (r *Runner) watchClock(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	before := r.clock()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := r.clock()
		if by := now.jump(before); by.Abs() > minJump {
			r.observe(Notice{Type: NoticeTrouble, Err: clockJumpError(by, now.wall)})
		}
		before = now
	}
}

func clockJumpError(by time.Duration, to time.Time) error {
	way := "forward, or the machine was suspended"
	if by < 0 {
		way = "back"
	}
	return fmt.Errorf("%w: by %v to %v: it was set %s; check its synchronization", ErrClock, by.Round(time.Second), to.UTC().Format(time.RFC3339), way)
}

// queueTime converts t from this machine's clock to the queue's clock. If the queue's clock cannot be
// read, queueTime returns t.
func (r *Runner) queueTime(ctx context.Context, t time.Time) time.Time {
	if r.heap != nil {
		return t
	}
	now, err := r.queue.Now(ctx)
	if err != nil {
		return t
	}
	return t.Add(time.Until(now))
}
