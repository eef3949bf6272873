// Package runner runs agents by name, as a service does: it starts runs, queues them until
// a slot is free, limits how many run at once, continues them after a restart, and stops
// without losing anything.
//
//	store, err := filestore.New("reprise-data")
//	r, err := runner.New(store, runner.Options{Limit: 50})
//	support := runner.Register(r, supportAgent)
//	go r.Serve(ctx) // until ctx ends
//	info, err := support.Start(ctx, "ticket-42", question, runner.StartOptions{})
//
// The store is the source of truth: once Start has returned, the run is in the store, and this
// process or the next one executes it. A lock ensures that only one process has a run open.
//
// A run keeps the version of its program that it was started with, and only a
// runner that has registered that version continues it. So a new version can be served
// together with the old one until the runs of the old one have ended.
//
// Runners of several processes can share a store, and [Options.Queue] hands each run to one
// of them. The nested modules adapters/postgres and adapters/jetstream have a store and a
// queue for many machines.
package runner
