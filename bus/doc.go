// Package bus delivers the records of a run to subscribers, in sequence order. A slow, stuck or
// panicking subscriber does not affect the run or other subscribers.
//
// A [Bus] is a publisher: a run calls it with its records. [Bus.Subscribe] calls a function with
// every record, on a goroutine that belongs to the subscription. [Bus.Records] returns the records
// as a sequence to range over.
//
//	b := bus.New()
//	defer b.Close()
//	b.Subscribe(func(r record.Record) { log.Print(r.Address, " ", r.Status) })
//	st := state.New(state.WithPublisher(b))
//
// # Slow subscribers
//
// Publish does not wait for subscribers. Each subscription has its own queue, which holds up to
// 1,024 records ([WithQueue]) in addition to the one being delivered. While the queue is full, new
// records are dropped and counted. A series of dropped records forms one [Gap], which is passed to
// the function set by [WithGap], between the record before the gap and the record after it. With
// [WithBlock], Publish, and therefore the run, waits for space in the queue instead.
//
// If a subscriber panics, the panic is recovered, and the next record is delivered.
// [Subscription.Stats] returns the number of panics and the value of the last one.
//
// # Closing
//
// [Bus.Close] delivers the queued records and returns when every subscriber has finished.
// [Bus.CloseContext] does the same with a time limit, for subscribers that may be stuck.
// [Subscription.Close] ends one subscription at once. These methods wait for subscribers, so a
// subscriber must not call them.
package bus
