package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// followTests check Follow and Watch while runs are being written.
var followTests = []test{
	{"AFollowerMissesNothing", follows},
	{"AFollowerContinuesAfterItsCursor", followsAfter},
	{"FollowingEndsWithTheRun", followEnds},
	{"ACursorOfAnotherGenerationIsRefused", followsGeneration},
	{"AWatcherSeesEveryRun", watches},
	{"AWatcherGetsTheRecords", watchesRecords},
	{"AWatcherOfOneRunSeesItsMessages", watchesOne},
	{"AWatcherOfAllRunsSeesTheirMessages", watchesMessages},
	{"AWatchWithoutRecordsIgnoresNewRecords", watchesNoRecords},
	{"ARunCanBeWatchedBeforeItExists", watchesLater},
	{"WatchingEndsWithItsContext", watchEnds},
}

func follows(f *fixture) {
	const n, generations = 400, 4
	f.begin("run", 1, snapshot.StatusPaused)
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			last := uint64(0)
			for rec, err := range f.store.Follow(ctx, "run", snapshot.Cursor{}) {
				if err != nil {
					f.Errorf("after record %d: %v", last, err)
					return
				}
				if last++; rec.Seq != last || rec.RunID != "run" {
					f.Errorf("got record %d of run %q after record %d", rec.Seq, rec.RunID, last)
					return
				}
				if last == n*generations+1 {
					return
				}
			}
		})
	}
	for g := range generations {
		j := f.open("run")
		for i := range n {
			f.must(j.Append(Records(uint64(g*n+i+2), 1)...))
		}
		f.must(closeAs(j, snapshot.StatusPaused))
	}
	wait.Wait()
}

func followsAfter(f *fixture) {
	f.begin("run", 5, snapshot.StatusPaused)
	for rec, err := range f.store.Follow(f.Context(), "run", snapshot.Cursor{Seq: 3}) {
		f.must(err)
		f.equal([]record.Record{rec}, Records(4, 1), "run")
		break
	}
	for _, err := range f.store.Follow(f.Context(), "run", snapshot.Cursor{Seq: 6}) {
		f.is(err, snapshot.ErrReset, "Follow")
	}
}

func followsGeneration(f *fixture) {
	all := Records(1, 4)
	for i := range all {
		all[i].Generation = uint64(i/2) + 1
	}
	for _, two := range [][]record.Record{all[:2], all[2:]} {
		j := f.open("run")
		f.must(j.Append(two...))
		f.must(closeAs(j, snapshot.StatusPaused))
	}
	for _, c := range []snapshot.Cursor{{Generation: 1, Seq: 2}, {Seq: 2}} {
		for rec, err := range f.store.Follow(f.Context(), "run", c) {
			f.must(err)
			f.equal([]record.Record{rec}, all[2:3], "run")
			break
		}
	}
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	for _, c := range []snapshot.Cursor{{Generation: 2, Seq: 2}, {Generation: 1, Seq: 3}, {Generation: 3, Seq: 3}} {
		f.is(firstError(f.store.Follow(ctx, "run", c)), snapshot.ErrReset, fmt.Sprintf("Follow from %+v", c))
	}
}

func followEnds(f *fixture) {
	for _, err := range f.store.Follow(f.Context(), "none", snapshot.Cursor{}) {
		f.is(err, snapshot.ErrNotFound, "Follow")
	}
	f.begin("run", 1, snapshot.StatusPaused)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	var last error
	for _, err := range f.store.Follow(ctx, "run", snapshot.Cursor{}) {
		last = err
		cancel()
	}
	f.is(last, context.Canceled, "Follow")
	for _, err := range f.store.Follow(f.Context(), "run", snapshot.Cursor{}) {
		if last = err; err == nil {
			f.must(f.store.Delete(f.Context(), "run"))
		}
	}
	f.is(last, snapshot.ErrNotFound, "Follow, when the run was deleted")
}

// watch reads the events of a store in the background until stop is called.
func (f *fixture) watch(o snapshot.WatchOptions) (events <-chan snapshot.Change, stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	all := make(chan snapshot.Change, 1000)
	var wait sync.WaitGroup
	wait.Go(func() {
		defer close(all)
		for e, err := range f.store.Watch(ctx, o) {
			if err != nil {
				f.is(err, context.Canceled, "Watch")
				return
			}
			all <- e
		}
	})
	return all, func() {
		cancel()
		wait.Wait()
	}
}

// readUntil reads events up to the first for which wanted returns true.
func (f *fixture) readUntil(events <-chan snapshot.Change, what string, wanted func(snapshot.Change) bool) {
	f.Helper()
	for limit := time.After(time.Minute); ; {
		select {
		case e, more := <-events:
			if !more {
				f.Fatalf("Watch has ended, want an event: %s", what)
			}
			if wanted(e) {
				return
			}
		case <-limit:
			f.Fatalf("no event: %s", what)
		}
	}
}

func watches(f *fixture) {
	f.begin("old", 2, snapshot.StatusCompleted)
	events, stop := f.watch(snapshot.WatchOptions{})
	defer stop()
	is := func(id string, status snapshot.Status) func(snapshot.Change) bool {
		return func(e snapshot.Change) bool { return e.Info.RunID == id && e.Info.Status == status && !e.Deleted }
	}
	f.readUntil(events, "an existing run", is("old", snapshot.StatusCompleted))
	j := f.open("new")
	f.readUntil(events, "a new run", is("new", snapshot.StatusRunning))
	f.must(closeAs(j, snapshot.StatusFailed))
	f.readUntil(events, "a closed run", is("new", snapshot.StatusFailed))
	f.must(f.store.Delete(f.Context(), "old"))
	f.readUntil(events, "a deleted run", func(e snapshot.Change) bool { return e.Info.RunID == "old" && e.Deleted })
}

func watchesRecords(f *fixture) {
	f.begin("old", 5, snapshot.StatusPaused)
	events, stop := f.watch(snapshot.WatchOptions{Records: true})
	defer stop()
	f.readUntil(events, "an existing run", func(e snapshot.Change) bool {
		if len(e.Records) > 0 {
			f.Errorf("%d records that existed before are reported as new", len(e.Records))
		}
		return e.Info.RunID == "old"
	})
	var got []record.Record
	up := func(id string, to int) {
		f.Helper()
		f.readUntil(events, "records", func(e snapshot.Change) bool {
			if e.Info.RunID == id {
				got = append(got, e.Records...)
			}
			return len(got) >= to
		})
	}
	j := f.open("old")
	f.must(j.Append(Records(6, 2)...))
	up("old", 2)
	f.must(j.Append(Records(8, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	up("old", 3)
	f.equal(got, Records(6, 3), "old")
	got = nil
	f.begin("new", 4, snapshot.StatusCompleted)
	up("new", 4)
	f.equal(got, Records(1, 4), "new")
}

func watchesOne(f *fixture) {
	j := f.open("run")
	f.begin("other", 1, snapshot.StatusCompleted)
	events, stop := f.watch(snapshot.WatchOptions{RunID: "run"})
	defer stop()
	mine := func(e snapshot.Change) bool {
		if e.Info.RunID != "run" {
			f.Errorf("an event of run %s", e.Info.RunID)
		}
		return true
	}
	f.readUntil(events, "the run", mine)
	f.must(f.store.Post(f.Context(), "run", Answer("a?1", "yes")))
	f.readUntil(events, "a message", func(e snapshot.Change) bool { return mine(e) && len(f.messages("run")) == 1 })
	f.must(closeAs(j, snapshot.StatusPaused))
	f.readUntil(events, "the end", func(e snapshot.Change) bool { return mine(e) && e.Info.Status == snapshot.StatusPaused })
}

func watchesMessages(f *fixture) {
	j := f.open("run")
	events, stop := f.watch(snapshot.WatchOptions{Messages: true})
	defer stop()
	f.readUntil(events, "the run", func(e snapshot.Change) bool { return e.Info.RunID == "run" && e.Info.Open })
	for n, message := range []string{"a?1", "b?1"} {
		f.must(f.store.Post(f.Context(), "run", Answer(message, "yes")))
		f.readUntil(events, "a message", func(e snapshot.Change) bool { return e.Info.RunID == "run" && len(f.messages("run")) == n+1 })
	}
	f.must(closeAs(j, snapshot.StatusPaused))
	f.readUntil(events, "the end", func(e snapshot.Change) bool { return e.Info.Status == snapshot.StatusPaused })
}

func watchesNoRecords(f *fixture) {
	j := f.open("run")
	events, stop := f.watch(snapshot.WatchOptions{})
	defer stop()
	f.readUntil(events, "the run", func(e snapshot.Change) bool { return e.Info.RunID == "run" })
	for seq := range uint64(4) {
		f.must(j.Append(Records(seq+1, 1)...))
		f.must(j.Sync(f.Context(), seq+1))
		other := fmt.Sprint("other-", seq) // an event for this run shows that the watcher has looked since then
		f.must(closeAs(f.open(other), snapshot.StatusCompleted))
		f.readUntil(events, other, func(e snapshot.Change) bool {
			if e.Info.RunID == "run" || len(e.Records) > 0 {
				f.Errorf("records were appended, and the event is %+v", e)
			}
			return e.Info.RunID == other
		})
	}
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.readUntil(events, "the end", func(e snapshot.Change) bool {
		return e.Info.RunID == "run" && e.Info.Status == snapshot.StatusCompleted
	})
}

func watchesLater(f *fixture) {
	ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
	defer cancel()
	f.is(firstError(f.store.Watch(ctx, snapshot.WatchOptions{RunID: "run"})), context.DeadlineExceeded, "Watch of a run that does not exist")
	events, stop := f.watch(snapshot.WatchOptions{RunID: "run"})
	defer stop()
	f.begin("other", 1, snapshot.StatusCompleted)
	j := f.open("run")
	f.readUntil(events, "a new run", func(e snapshot.Change) bool {
		if e.Info.RunID != "run" || e.Deleted {
			f.Errorf("the event is %+v", e)
		}
		return e.Info.Status == snapshot.StatusRunning
	})
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.must(f.store.Delete(f.Context(), "run"))
	f.readUntil(events, "a deleted run", func(e snapshot.Change) bool { return e.Deleted })
	f.must(closeAs(f.open("run"), snapshot.StatusPaused))
	f.readUntil(events, "a new run with the same ID", func(e snapshot.Change) bool { return e.Info.Status == snapshot.StatusPaused && !e.Deleted })
}

func watchEnds(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	var last error
	for _, err := range f.store.Watch(ctx, snapshot.WatchOptions{}) {
		last = err
		cancel()
	}
	f.is(last, context.Canceled, "Watch")
	for _, err := range f.store.Watch(f.Context(), snapshot.WatchOptions{After: "somewhere else"}) {
		f.is(err, snapshot.ErrReset, "Watch")
	}
}
