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
// Defaults to 1024. Memory is allocated as it is needed. WithQueue panics if n
// is less than 1.
func WithQueue(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("bus: WithQueue(%d): want 1 or more", n))
	}
	return func(q *queue) { q.limit = uint64(n) }
}

// WithBlock makes Publish wait up to d for room in a full queue before it drops
// the record, which delays the run: by d for each gap, not for each record, since
// records after a dropped one are dropped at once until there is room again.
// Publish waits for several such subscriptions at the same time, and after it has
// served all others. A subscriber that publishes to its own full queue waits for
// itself, for d. By default Publish does not wait. WithBlock panics if d is not
// positive.
func WithBlock(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("bus: WithBlock(%v): want more than 0", d))
	}
	return func(q *queue) { q.block = d }
}

// WithGap calls fn where records are missing: after the last record before the
// gap and before the first one after it, on the same goroutine that gets the
// records. A gap at the end is reported before [Bus.Close] returns. A panic in fn
// is counted as a panic of the subscriber. A nil fn is ignored.
func WithGap(fn func(Gap)) Option {
	return func(q *queue) { q.onGap = fn }
}

// A Gap is a series of records that were dropped because the queue was full.
type Gap struct {
	From   uint64 // Seq of the first missing record
	To     uint64 // Seq of the last missing record
	Missed uint64 // number of missing records; To-From+1 if the bus carries one run
}
