package stored

import (
	"context"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// FollowDeletions calls deleted for each run that is deleted from now on, by any process, until
// ctx ends, and returns the error of ctx. Pass it the method PublishDeletion of a streamer.Handler,
// which tells the clients of the run.
func (s *Runs) FollowDeletions(ctx context.Context, deleted func(ctx context.Context, runID string)) error {
	for event, err := range s.store.Watch(ctx, snapshot.WatchOptions{}) {
		if err != nil {
			return err
		}
		if event.Deleted {
			deleted(ctx, event.Info.RunID)
		}
	}
	return context.Cause(ctx)
}

// Follow publishes the records that any process adds to the store from now on,
// until ctx ends, and returns the error of ctx. The records of a run are published
// in order. Runs that cannot be read are skipped; reading them with Records returns
// the error.
func (s *Runs) Follow(ctx context.Context, publish func(record.Record)) error {
	for event, err := range s.store.Watch(ctx, snapshot.WatchOptions{Records: true}) {
		if err != nil {
			return err
		}
		for _, rec := range event.Records {
			publish(rec)
		}
	}
	return context.Cause(ctx)
}
