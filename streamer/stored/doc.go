// Package stored shows the runs in a store on a dashboard: runs that have ended, runs of this
// process, and runs of other processes.
//
//	runs := stored.New(store)
//	dash, err := streamer.New(runs, streamer.Options{})
//	go runs.Follow(ctx, dash) // needed only for runs of other processes
//
// A process that publishes its own runs to the handler does not need Follow for these runs. Follow
// would publish their records a second time, which is harmless but takes time.
package stored
