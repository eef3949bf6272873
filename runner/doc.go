// Package runner runs agents by name, as a service does: it starts runs, keeps
// those that wait for a slot, bounds how many run at once, goes on with all of
// them after a restart, and stops without losing anything.
//
//	store, err := filestore.New("reprise-data")
//	r, err := runner.New(store, runner.Options{Limit: 50})
//	support := runner.Register(r, supportAgent)
//	go r.Serve(ctx) // until ctx ends
//	info, err := support.Start(ctx, "ticket-42", question, runner.StartOptions{})
//
// The store is the truth: what Start has returned for is in it, and is run by
// this process or by the next. A run that another process has open is left to
// that process, by its lock.
//
// A run keeps the version of its program that it was started with, and only a
// runner that has registered that version goes on with it. So a new version can
// be served beside the old one until the runs of that have ended.
//
// Runners of several processes share a store, and [Options.Queue] hands each run
// to one of them. The nested module jetstream has both for many machines.
package runner
