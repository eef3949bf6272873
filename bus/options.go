package bus

import (
	"fmt"
	"time"
)

// defaultQueue is the default for WithQueue, whose comment repeats the number.
const defaultQueue = 1024

// An Option configures one subscription.
type Option func(*queue)

// WithQueue sets how many records may be queued in addition to the one being
// delivered. The default is 1024. Memory is allocated only as it is needed.
// WithQueue panics if n is less than 1.
func WithQueue(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("bus: WithQueue(%d): want 1 or more", n))
	}
	return func(q *queue) { q.limit = uint64(n) }
}

// WithBlock makes Publish wait up to d for space in a full queue before it drops the record. This
// delays the run by up to d for each gap, not for each record: after a record was dropped, further
// records are dropped at once until there is space again. Publish first serves all other
// subscriptions, and waits for several full queues at the same time. A subscriber that publishes
// while its own queue is full waits for itself, for up to d. By default, Publish does not wait.
// WithBlock panics if d is not positive.
func WithBlock(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("bus: WithBlock(%v): want more than 0", d))
	}
	return func(q *queue) { q.block = d }
}

// WithGap sets a function that is called for each gap, after the last record before the gap and
// before the first record after it. The call is made on the goroutine that receives the records. A
// gap at the end is reported before [Bus.Close] returns. A panic in fn counts as a panic of the
// subscriber. If fn is nil, gaps are not reported.
func WithGap(fn func(Gap)) Option {
	return func(q *queue) { q.onGap = fn }
}

// A Gap is a series of consecutive records that were dropped because the queue was full.
type Gap struct {
	From   uint64 // Seq of the first missing record
	To     uint64 // Seq of the last missing record
	Missed uint64 // number of missing records; To-From+1 if the bus carries one run
}
