package bus

import (
	"fmt"
	"time"
)

// defaultQueue is the number in the comment of WithQueue.
const defaultQueue = 1024

// An Option changes one subscription.
type Option func(*queue)

// WithQueue sets how many records may wait beyond the one being delivered.
// Defaults to 1024. The room is allocated as it is needed. Less than 1 is a
// panic.
func WithQueue(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("bus: WithQueue(%d): want 1 or more", n))
	}
	return func(q *queue) { q.limit = uint64(n) }
}

// WithBlock lets Publish wait up to d for room in a full queue before it drops
// the record, and so can hold up the run: by d for each gap, not for each
// record, since what follows a dropped record is dropped at once until there
// is room again. Where several subscriptions let Publish wait, it waits for all
// at the same time, and other subscribers have the record before it does. A
// subscriber that publishes to its own full queue waits for itself, for d.
// Without WithBlock nothing waits. A d that is not positive is a panic.
func WithBlock(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("bus: WithBlock(%v): want more than 0", d))
	}
	return func(q *queue) { q.block = d }
}

// WithGap calls fn where records are missing: after the last record before the
// gap and ahead of the first one after it, from the same goroutine that gets
// the records. A gap at the end is told before the subscription ends with
// [Bus.Close]. A panic of fn is one of the subscriber's. A nil fn is as no
// WithGap at all.
func WithGap(fn func(Gap)) Option {
	return func(q *queue) { q.tell = fn }
}

// A Gap is a series of records that were dropped because the queue was full.
type Gap struct {
	From   uint64 // Seq of the first one
	To     uint64 // Seq of the last one
	Missed uint64 // how many; To-From+1 where the bus carries one run
}
