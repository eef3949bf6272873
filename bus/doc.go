// Package bus carries the records of a run to whoever wants to see them, in
// sequence order, without letting any of them harm the run.
//
// A [Bus] is a publisher of the run. [Bus.Subscribe] calls a function for
// every record, on a goroutine that belongs to the subscription;
// [Bus.Records] is the same as a sequence to range over.
//
//	b := bus.New()
//	defer b.Close()
//	b.Subscribe(func(r core.Record) { log.Print(r.Address, " ", r.Status) })
//	st := state.New(state.WithPublisher(b))
//
// # Slow subscribers
//
// Publish does not wait for anybody. Each subscription has a queue of its own
// with room for 1,024 records ([WithQueue]) beyond the one being delivered.
// While it is full, new records are dropped and counted; what is queued stays
// in order, so that what is missing is one [Gap], which is told to the
// function of [WithGap] between the record before it and the record after it.
// [WithBlock] lets Publish wait for room instead, and with it the run.
//
// A subscriber that panics is recovered and served on; [Subscription.Stats]
// tells how often and keeps the last panic.
//
// # Closing
//
// [Bus.Close] delivers what is queued and returns when every subscriber is
// done; [Bus.CloseContext] gives up on those that are stuck.
// [Subscription.Close] ends one subscription at once. None of them waits when
// it is called from inside a subscriber.
package bus
