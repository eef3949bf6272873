// Package stored shows the runs of a store on a dashboard: runs that have ended, runs of
// this process, and runs of other processes.
//
//	runs := stored.New(store)
//	dash, err := streamer.New(runs, streamer.Options{})
//	go runs.Follow(ctx, dash.Publish) // only for runs of other processes
//
// A process that publishes its own runs to the handler does not need Follow, which would
// publish their records a second time. That is harmless, but costs time.
package stored
