package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// RunShared checks a store that several processes use, on one or more machines. Each of its tests
// calls open once to create an empty store. It then calls the function another once for each
// process; that function must return the store as the process opens it.
func RunShared(t *testing.T, open func(t *testing.T) (another func() snapshot.Store)) {
	for _, test := range []struct {
		name string
		run  func(here, there *fixture)
	}{
		{"ARunHasOneWriterAmongProcesses", sharedLock},
		{"OneWhoWaitsGetsTheRunThatAnotherProcessCloses", sharedWait},
		{"OfManyProcessesThatOpenARunOneDoes", sharedRace},
		{"WhatOneProcessSyncsAnotherLoads", sharedLoad},
		{"MessagesReachTheOwnerInAnotherProcess", sharedInbox},
		{"AnUpdateByAnotherProcessStays", sharedUpdate},
		{"AFollowerInAnotherProcessMissesNothing", sharedFollow},
		{"AWatcherInAnotherProcessSeesEveryRun", sharedWatch},
		{"WhatOneProcessDeletesIsGoneForAnother", sharedDelete},
		{"AnOpenThatIsRefusedLeavesTheRunToItsWriter", sharedRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			another := open(t)
			test.run(&fixture{T: t, store: another()}, &fixture{T: t, store: another()})
		})
	}
}

func sharedLock(here, there *fixture) {
	j, err := here.store.Open(here.Context(), "run", snapshot.OpenOptions{Create: true, Owner: "here"})
	here.must(err)
	here.must(j.Append(Records(1, 2)...))
	_, err = there.store.Open(there.Context(), "run", snapshot.OpenOptions{Create: true})
	there.is(err, snapshot.ErrLocked, "Open, in another process")
	var locked *snapshot.LockedError
	if !errors.As(err, &locked) || locked.Owner != "here" {
		there.Errorf("the error does not name the owner of the run: %v", err)
	}
	if info := there.info("run"); !info.Open || info.Owner != "here" || info.Status != snapshot.StatusRunning {
		there.Errorf("another process sees the run as %+v", info)
	}
	here.must(closeAs(j, snapshot.StatusPaused))
	j = there.open("run")
	if restored := there.decode(j.Restored()); restored.Generation != 2 {
		there.Errorf("the generation is %d, want 2", restored.Generation)
	} else {
		there.equal(restored.Records, Records(1, 2), "run")
	}
	_, err = here.store.Open(here.Context(), "run", snapshot.OpenOptions{})
	here.is(err, snapshot.ErrLocked, "Open, in the process that had it")
	there.must(j.Append(Records(3, 1)...))
	there.must(closeAs(j, snapshot.StatusCompleted))
	here.equal(here.load("run").Records, Records(1, 3), "run")
}

func (f *fixture) info(runID string) snapshot.Info {
	f.Helper()
	info, err := f.store.Info(f.Context(), runID)
	f.must(err)
	return info
}

func sharedWait(here, there *fixture) {
	j := here.open("run")
	here.must(j.Append(Records(1, 1)...))
	ctx, cancel := context.WithTimeout(there.Context(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		j, err := there.store.Open(ctx, "run", snapshot.OpenOptions{Wait: true})
		if err == nil {
			err = errors.Join(j.Append(Records(2, 1)...), closeAs(j, snapshot.StatusCompleted))
		}
		if err != nil {
			there.Error(err)
		}
	})
	here.must(closeAs(j, snapshot.StatusPaused))
	wait.Wait()
	here.equal(here.load("run").Records, Records(1, 2), "run")
}

func sharedRace(here, there *fixture) {
	for generation := uint64(1); generation <= 5; generation++ {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
			won  []snapshot.Journal
		)
		for _, f := range []*fixture{here, there, here, there} {
			wait.Go(func() {
				j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, j)
				} else if !errors.Is(err, snapshot.ErrLocked) {
					f.Error(err)
				}
			})
		}
		wait.Wait()
		if len(won) != 1 || won[0].Restored().Generation != generation {
			here.Fatalf("%d processes have opened the run, in generation %d", len(won), generation)
		}
		here.must(won[0].Append(Records(generation, 1)...))
		here.must(closeAs(won[0], snapshot.StatusPaused))
	}
	there.equal(there.load("run").Records, Records(1, 5), "run")
}

func sharedLoad(here, there *fixture) {
	j := here.open("run")
	for n := 1; n <= 20; n++ {
		here.must(j.Append(Records(uint64(n), 1)...))
		here.must(j.Sync(here.Context(), uint64(n)))
		there.equal(there.load("run").Records, Records(1, n), "run")
	}
	here.must(closeAs(j, snapshot.StatusFailed))
	if info := there.info("run"); info.Open || info.Status != snapshot.StatusFailed || info.LastSeq != 20 {
		there.Errorf("after Close, the run is %+v", info)
	}
}

func sharedInbox(here, there *fixture) {
	j := here.open("run")
	there.must(there.store.Post(there.Context(), "run", Answer("a?1", "yes")))
	for len(here.messages("run")) == 0 {
		select {
		case <-j.Notify():
		case <-time.After(time.Minute):
			here.Fatal("not notified")
		}
	}
	here.is(here.store.Post(here.Context(), "run", Answer("a?1", "no")), snapshot.ErrPosted, "Post again")
	m := Answer("a?1", "")
	here.must(here.store.Remove(here.Context(), "run", m.ID()))
	if all := there.messages("run"); len(all) > 0 {
		there.Errorf("the waiting messages are %+v", all)
	}
	here.must(closeAs(j, snapshot.StatusCompleted))
}

func sharedUpdate(here, there *fixture) {
	j := here.open("run")
	_, err := there.store.Update(there.Context(), "run", func(i *snapshot.Info) error {
		i.Metadata.Description, i.Pinned = "changed", true
		return nil
	})
	there.must(err)
	_, err = there.store.Update(there.Context(), "run", func(i *snapshot.Info) error {
		i.Status = snapshot.StatusCancelled
		return nil
	})
	there.is(err, snapshot.ErrLocked, "Update of the status")
	here.must(j.Append(Records(1, 2)...))
	here.must(closeAs(j, snapshot.StatusPaused))
	_, err = there.store.Update(there.Context(), "run", func(i *snapshot.Info) error {
		i.Status = snapshot.StatusCancelled
		return nil
	})
	there.must(err)
	for _, f := range []*fixture{here, there} {
		for _, info := range append(f.infos(snapshot.Filter{}), f.info("run"), f.load("run").Info) {
			if info.Metadata.Description != "changed" || !info.Pinned || info.Status != snapshot.StatusCancelled || info.LastSeq != 2 {
				f.Errorf("the updated run is %+v", info)
			}
		}
	}
}

func sharedFollow(here, there *fixture) {
	const generations, each = 6, 50
	here.begin("run", 1, snapshot.StatusPaused)
	ctx, cancel := context.WithTimeout(there.Context(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		last := uint64(0)
		for rec, err := range there.store.Follow(ctx, "run", snapshot.Cursor{}) {
			if err != nil {
				there.Errorf("after record %d: %v", last, err)
				return
			}
			if last++; rec.Seq != last {
				there.Errorf("got record %d after record %d", rec.Seq, last)
				return
			}
			if last == generations*each+1 {
				return
			}
		}
	})
	for g := range generations {
		j := []*fixture{here, there}[g%2].open("run")
		for n := range each {
			here.must(j.Append(Records(uint64(g*each+n+2), 1)...))
		}
		here.must(closeAs(j, snapshot.StatusPaused))
	}
	wait.Wait()
}

func sharedWatch(here, there *fixture) {
	here.begin("old", 2, snapshot.StatusCompleted)
	events, stop := there.watch(snapshot.WatchOptions{Records: true})
	defer stop()
	is := func(id string, status snapshot.Status) func(snapshot.Change) bool {
		return func(e snapshot.Change) bool { return e.Info.RunID == id && e.Info.Status == status && !e.Deleted }
	}
	there.readUntil(events, "an existing run", is("old", snapshot.StatusCompleted))
	j := here.open("new")
	there.readUntil(events, "a new run", is("new", snapshot.StatusRunning))
	here.must(j.Append(Records(1, 3)...))
	var got []record.Record
	there.readUntil(events, "records", func(e snapshot.Change) bool {
		got = append(got, e.Records...)
		return len(got) == 3
	})
	there.equal(got, Records(1, 3), "new")
	here.must(closeAs(j, snapshot.StatusFailed))
	there.readUntil(events, "a closed run", is("new", snapshot.StatusFailed))
	here.must(here.store.Delete(here.Context(), "old"))
	there.readUntil(events, "a deleted run", func(e snapshot.Change) bool { return e.Info.RunID == "old" && e.Deleted })
}

func sharedDelete(here, there *fixture) {
	j := here.open("run")
	there.is(there.store.Delete(there.Context(), "run"), snapshot.ErrLocked, "Delete")
	here.must(j.Append(Records(1, 3)...))
	here.must(closeAs(j, snapshot.StatusCompleted))
	there.must(there.store.Delete(there.Context(), "run"))
	_, err := here.store.Load(here.Context(), "run")
	here.is(err, snapshot.ErrNotFound, "Load")
	if ids := here.list(snapshot.Filter{}); !slices.Equal(ids, []string{}) {
		here.Errorf("List returned %v", ids)
	}
	j = here.open("run")
	if restored := here.decode(j.Restored()); restored.Generation != 1 || len(restored.Records) > 0 {
		here.Errorf("the new run with the ID of the deleted one is %+v", restored)
	}
	here.must(j.Append(Records(1, 1)...))
	here.must(closeAs(j, snapshot.StatusCompleted))
	there.equal(there.load("run").Records, Records(1, 1), "run")
}

func sharedRefused(here, there *fixture) {
	j := here.open("run")
	here.must(j.Append(Records(1, 1)...))
	_, err := there.store.Open(there.Context(), "run", snapshot.OpenOptions{})
	there.is(err, snapshot.ErrLocked, "Open")
	here.must(j.Append(Records(2, 1)...))
	here.must(j.Sync(here.Context(), 2))
	here.must(closeAs(j, snapshot.StatusCompleted))
}
