// Package stored shows the runs of a store on a dashboard: those that are
// over, those that this process runs, and those that others write.
//
//	runs := stored.New(store)
//	dash, err := streamer.New(runs, streamer.Options{})
//	go runs.Follow(ctx, dash.Publish) // only for runs of other processes
//
// A process that publishes its own runs to the handler gives it the source
// alone; Follow would publish them twice, which does no harm and costs.
package stored
