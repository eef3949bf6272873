package stored

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// Follow publishes what is recorded in the store from now on, by whomever,
// until ctx ends, and returns its error. The records of a run come in their
// order. A store that is not a [snapshot.Follower] is an error at once. Runs
// that cannot be read are passed over: the source says what is wrong with them.
func (s *Runs) Follow(ctx context.Context, publish func(core.Record)) error {
	store, ok := s.store.(snapshot.Follower)
	if !ok {
		return fmt.Errorf("stored: runs in a %T cannot be followed: a snapshot.Follower can, such as snapshot.FileStore", s.store)
	}
	f := &follower{store: store, list: s.store.List, publish: publish, runs: make(map[string]*followed)}
	defer f.all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return store.WatchRuns(ctx, func() { f.look(ctx) })
}

// follower follows runs while they are written.
type follower struct {
	store   snapshot.Follower
	list    func(context.Context, snapshot.Filter) ([]snapshot.Info, error)
	publish func(core.Record)
	all     sync.WaitGroup
	looked  bool

	mu   sync.Mutex // guards what follows
	runs map[string]*followed
}

// followed is one run.
type followed struct {
	created time.Time          // of the run: one that was deleted may have a namesake
	last    uint64             // the number of the newest record that was published, or was there before
	cancel  context.CancelFunc // nil while nobody follows it
}

// look begins to follow the runs that have become more, and ends it for those
// whose process has gone.
func (f *follower) look(ctx context.Context) {
	infos, err := f.list(ctx, snapshot.Filter{})
	if err != nil {
		return // the next time, perhaps
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(infos)
	for i := range infos {
		info := &infos[i]
		r := f.runs[info.RunID]
		if r == nil {
			r = &followed{created: info.Created}
			if !f.looked {
				r.last = info.LastSeq
			}
			f.runs[info.RunID] = r
		}
		running := info.Status == snapshot.StatusRunning
		switch {
		case r.cancel == nil && (running || info.LastSeq > r.last):
			f.follow(ctx, info.RunID, r)
		case r.cancel != nil && !running && info.LastSeq <= r.last:
			r.cancel()
		}
	}
	f.looked = true
}

// forget forgets the runs that were deleted, once nobody follows them. f.mu is
// held.
func (f *follower) forget(infos []snapshot.Info) {
	created := make(map[string]time.Time, len(infos))
	for i := range infos {
		created[infos[i].RunID] = infos[i].Created
	}
	for id, r := range f.runs {
		if c, ok := created[id]; ok && (c.Equal(r.created) || c.IsZero()) {
			continue
		}
		if r.cancel == nil {
			delete(f.runs, id)
		} else {
			r.cancel()
		}
	}
}

// follow publishes a run until it ends. f.mu is held.
func (f *follower) follow(ctx context.Context, runID string, r *followed) {
	ctx, r.cancel = context.WithCancel(ctx)
	after := r.last
	f.all.Go(func() {
		f.pass(ctx, runID, after, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		r.cancel()
		r.cancel = nil
	})
}

func (f *follower) pass(ctx context.Context, runID string, after uint64, r *followed) {
	for rec, err := range f.store.Follow(ctx, runID, after) {
		if err != nil {
			return
		}
		f.publish(rec)
		f.mu.Lock()
		r.last = rec.Seq
		f.mu.Unlock()
		if rec.Kind == core.KindRun && rec.Status != core.StatusStarted {
			return // if it is opened again, that is seen at the next look
		}
	}
}
