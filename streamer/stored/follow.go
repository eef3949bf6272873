package stored

import (
	"context"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// FollowChanges calls the function deleted for each run that any process deletes from now on. It
// calls the function asked for each open run that may have been asked to stop. It returns when ctx
// ends, with the cause. Pass it the methods PublishDeletion and PublishStopping of a
// streamer.Handler, which tell the clients. If there are no clients, PublishStopping reads nothing
// from the store.
func (s *Runs) FollowChanges(ctx context.Context, deleted, asked func(ctx context.Context, runID string)) error {
	for event, err := range s.store.Watch(ctx, snapshot.WatchOptions{Messages: true}) {
		switch {
		case err != nil:
			return err
		case event.Deleted:
			deleted(ctx, event.Info.RunID)
		case event.Info.Open:
			asked(ctx, event.Info.RunID)
		}
	}
	return context.Cause(ctx)
}

// Follow publishes the records that any process adds to the store from now on. It
// returns when ctx ends, with the cause. The records of a run are published
// in order. If a run cannot be read, it is skipped; Records returns the error
// for such a run.
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
