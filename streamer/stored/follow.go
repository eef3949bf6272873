package stored

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// FollowChanges calls the function deleted for each run that any process deletes from now on. It
// calls the function asked for each open run that may have been asked to stop, and for each run
// that is interrupted and does not continue by itself. When ctx ends, FollowChanges returns its
// cause. The two functions are meant to be the methods PublishDeletion and PublishStopping of a
// streamer.Handler, which tell the clients. If there are no clients, PublishStopping reads nothing
// from the store.
func (s *Runs) FollowChanges(ctx context.Context, deleted, asked func(ctx context.Context, runID string)) error {
	for event, err := range s.store.Watch(ctx, snapshot.WatchOptions{Messages: true}) {
		switch {
		case err != nil:
			return err
		case event.Deleted:
			deleted(ctx, event.Info.RunID)
		case event.Info.Open, event.Info.Status == snapshot.StatusInterrupted && !event.Info.Stop.Reason.ContinuesByItself():
			asked(ctx, event.Info.RunID)
		}
	}
	return context.Cause(ctx)
}

// A Publisher shows the records that are published to it. *[streamer.Handler] is a Publisher.
type Publisher interface {
	Publish(r record.Record)

	// PublishMissed publishes the newest stored record of a run if somebody watches the run and the
	// record has not been published yet.
	PublishMissed(ctx context.Context, runID string) error
}

// Follow publishes all records that any process adds to the store from now on, and all records of
// runs that were created since [New]. Of other runs, it publishes the newest record if clients may
// have missed it: they then read the records before it from the source. Follow returns when ctx
// ends, with its cause, or when the store cannot be watched, with an error. If it is called again
// after such an error, it also publishes the records that were added in the meantime. The records
// of a run are published in order, but may be published twice. A run that cannot be read is
// skipped; Records returns the error for such a run.
func (s *Runs) Follow(ctx context.Context, to Publisher) error {
	f := s.interrupted.Swap(nil)
	if f == nil {
		f = &follower{store: s.store, began: s.began, runs: make(map[string]followed)}
	}
	err := f.follow(ctx, to)
	if ctx.Err() == nil {
		s.interrupted.Store(f)
	}
	return err
}

// A follower remembers how far it has followed the runs, from one Watch to the next.
type follower struct {
	store   snapshot.Store
	began   time.Time // runs created later have only new records
	watches int
	runs    map[string]followed
}

// A followed describes a run as of its latest event.
type followed struct {
	created time.Time
	at      snapshot.Cursor // how far its records were published or already existed
	watch   int             // the number of the Watch that yielded the event
}

// clockSkew is how far another process's clock may be behind.
const clockSkew = time.Minute

func (f *follower) follow(ctx context.Context, to Publisher) error {
	f.watches++
	for event, err := range f.store.Watch(ctx, snapshot.WatchOptions{Records: true}) {
		if err != nil {
			return err
		}
		info := &event.Info
		if event.Deleted {
			delete(f.runs, info.RunID)
			continue
		}
		was, known := f.runs[info.RunID]
		if known && !was.created.Equal(info.Created) {
			was, known = followed{}, false // another run has this ID now
		}
		isFirst := was.watch != f.watches
		switch {
		case len(event.Records) > 0 && follows(&event.Records[0], was.at): // nothing is missing
		case isFirst && (known || info.Created.After(f.began)):
			if was.at, err = f.publishMissed(ctx, info, was.at, to.Publish); err != nil {
				return err
			}
		case isFirst: // a client may have read the run before this Watch
			if info.Open || info.Updated.After(f.began.Add(-clockSkew)) {
				if err := to.PublishMissed(ctx, info.RunID); errors.Is(err, snapshot.ErrUnavailable) {
					return err
				}
			}
			if len(event.Records) == 0 {
				was.at = snapshot.Cursor{Generation: info.Generation, Seq: info.LastSeq}
			}
		}
		for _, rec := range event.Records {
			if !isAfter(&rec, was.at) { // it was already in the store when the event before was yielded
				continue
			}
			to.Publish(rec)
			was.at = snapshot.Cursor{Generation: rec.Generation, Seq: rec.Seq}
		}
		f.runs[info.RunID] = followed{info.Created, was.at, f.watches}
	}
	return context.Cause(ctx)
}

// isAfter reports whether rec comes after a position.
func isAfter(rec *record.Record, at snapshot.Cursor) bool {
	return rec.Seq > at.Seq || rec.Generation > at.Generation
}

// follows reports whether rec is the record that directly follows a position.
func follows(rec *record.Record, at snapshot.Cursor) bool {
	return rec.Seq == at.Seq+1 && (at.Seq == 0 || rec.Generation == at.Generation)
}

// publishMissed publishes the records after a position, and returns the new position. If the run
// was opened again, records before the position may have been lost in a crash, and later records
// may have the numbers of the lost ones.
func (f *follower) publishMissed(ctx context.Context, info *snapshot.Info, after snapshot.Cursor, publish func(record.Record)) (at snapshot.Cursor, err error) {
	from := after.Seq
	switch {
	case info.Generation != after.Generation:
		from = 0
	case info.LastSeq <= from && !info.Open: // the LastSeq of an open run may lag behind
		return after, nil
	}
	at = after
	for rec, err := range f.store.Records(ctx, info.RunID, from) {
		switch {
		case ctx.Err() != nil:
			return at, context.Cause(ctx)
		case errors.Is(err, snapshot.ErrUnavailable):
			return at, err
		case err != nil:
			return at, nil // Records reports the error
		case isAfter(&rec, after):
			publish(rec)
			at = snapshot.Cursor{Generation: rec.Generation, Seq: rec.Seq}
		}
	}
	return at, nil
}
