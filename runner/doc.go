// Package runner runs agents by name, as a service does: it starts runs, queues
// those that wait for a slot, limits how many run at once, continues all of
// them after a restart, and stops without losing anything.
//
//	store, err := filestore.New("reprise-data")
//	r, err := runner.New(store, runner.Options{Limit: 50})
//	support := runner.Register(r, supportAgent)
//	go r.Serve(ctx) // until ctx ends
//	info, err := support.Start(ctx, "ticket-42", question, runner.StartOptions{})
//
// The store is the source of truth: once Start has returned, the run is in it,
// and is run by this process or by the next. A run that another process has
// open is left to that process, by its lock.
//
// A run keeps the version of its program that it was started with, and only a
// runner that has registered that version continues it. So a new version can be
// served beside the old one until the runs of the old one have ended.
//
// Runners of several processes share a store, and [Options.Queue] hands each run
// to one of them. The nested module jetstream has both for many machines.
package runner
