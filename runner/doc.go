// Package runner runs agents by name, as a service does. It starts runs, queues them until a slot
// is free, limits how many runs are open at once, continues runs after a restart, and stops without
// losing anything.
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
// A run keeps the program version that it was started with, and only a runner that has registered
// that version continues it. A new version can therefore be served together with the old version
// until the old version's runs have ended.
//
// Runners in several processes can share a store; [Options.Queue] then hands each run to one of the
// runners. The nested modules adapters/postgres and adapters/jetstream contain stores and queues
// for many machines.
package runner
