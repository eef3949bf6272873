// Package bus delivers the records of a run to subscribers, in sequence order. A
// slow, stuck or panicking subscriber cannot affect the run or the others.
//
// A [Bus] is a publisher of the run. [Bus.Subscribe] calls a function for
// every record, on a goroutine that belongs to the subscription;
// [Bus.Records] returns the records as a sequence to range over.
//
//	b := bus.New()
//	defer b.Close()
//	b.Subscribe(func(r record.Record) { log.Print(r.Address, " ", r.Status) })
//	st := state.New(state.WithPublisher(b))
//
// # Slow subscribers
//
// Publish does not wait. Each subscription has a queue of its own for 1,024
// records ([WithQueue]) beyond the one being delivered. While it is full, new
// records are dropped and counted, and queued ones stay in order. The missing
// records are one [Gap], passed to the function of [WithGap] between the record
// before it and the record after it. [WithBlock] makes Publish, and with it the
// run, wait for room instead.
//
// A panic of a subscriber is recovered, and the next record is delivered to it;
// [Subscription.Stats] counts panics and keeps the last one.
//
// # Closing
//
// [Bus.Close] delivers what is queued and returns when every subscriber is done;
// [Bus.CloseContext] does not wait for subscribers that are stuck.
// [Subscription.Close] ends one subscription at once. These methods wait for
// subscribers, so a subscriber must not call them.
package bus
