package stored

import (
	"context"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// FollowDeletions calls deleted for each run that is deleted from now on, by any process, until
// ctx ends, and returns its error. It is for a streamer.Handler, whose Deleted tells those who
// watch the run.
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

// Follow publishes what is recorded in the store from now on, by any process,
// until ctx ends, and returns its error. The records of a run come in their
// order. Runs that cannot be read are passed over: the source says what is
// wrong with them.
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
