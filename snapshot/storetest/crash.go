package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// RunCrash checks how a store reports runs whose process was killed. Each of its tests calls open
// once to obtain an empty store and the function crash. That function must abandon the store and its
// open journals without closing them, as if the process had been killed. It must return the store as
// the next process opens it, for example a store on a copy of the directory. No run may be open in
// the returned store.
func RunCrash(t *testing.T, open func(t *testing.T) (store snapshot.Store, crash func() snapshot.Store)) {
	for _, test := range []struct {
		name string
		run  func(*crashFixture)
	}{
		{"ARunThatHasCrashedIsInterrupted", crashedRun},
		{"ACrashedRunCanBeOpened", crashedGoesOn},
		{"ARunThatCrashedAtOnceIsInterrupted", crashedAtOnce},
		{"ARunThatHasCrashedIsUpdatedAndDeleted", crashedChanges},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, crash := open(t)
			test.run(&crashFixture{fixture{T: t, store: store}, crash})
		})
	}
}

// A crashFixture is a fixture whose store can crash.
type crashFixture struct {
	fixture
	next func() snapshot.Store
}

// crash simulates a crash while the given journals are open.
func (c *crashFixture) crash(open ...snapshot.Journal) {
	c.store = c.next()
	for _, j := range open {
		c.Cleanup(func() { // stops the journal's goroutines; whether Close succeeds does not matter
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = j.Close(ctx, snapshot.End{Status: snapshot.StatusFailed})
		})
	}
}

// beginRun opens a run with 5 records in its second generation, and leaves it open.
func (c *crashFixture) beginRun() snapshot.Journal {
	c.begin("run", 2, snapshot.StatusPaused)
	j := c.open("run")
	c.must(j.Append(Records(3, 3)...))
	c.must(j.Sync(c.Context(), 5))
	return j
}

// requireCrashed requires that info describes a crashed run.
func (c *crashFixture) requireCrashed(where string, info *snapshot.Info, generation uint64) {
	c.Helper()
	if info.Status != snapshot.StatusInterrupted || info.Stop.Reason != record.InterruptCrash || info.Open || info.Generation != generation {
		c.Errorf("%s: got status %s, stop %q, open %v, generation %d; want a run interrupted by a crash, open false, generation %d",
			where, info.Status, info.Stop, info.Open, info.Generation, generation)
	}
}

func crashedRun(c *crashFixture) {
	c.crash(c.beginRun())
	loaded := c.load("run")
	c.equal(loaded.Records, Records(1, 5), "run")
	c.requireCrashed("Load", &loaded.Info, 2)
	info := c.info("run")
	c.requireCrashed("Info", &info, 2)
	if info.LastSeq != 5 {
		c.Errorf("Info: the last record is %d, want 5", info.LastSeq)
	}
	all := c.infos(snapshot.Filter{Status: []snapshot.Status{snapshot.StatusInterrupted}})
	if len(all) != 1 {
		c.Fatalf("%d interrupted runs are listed, want 1", len(all))
	}
	c.requireCrashed("List", &all[0], 2)
}

func crashedGoesOn(c *crashFixture) {
	j := c.beginRun()
	m := Answer("a?1", "yes")
	c.must(c.store.Post(c.Context(), "run", m))
	c.crash(j)
	next := c.open("run")
	restored := c.decode(next.Restored())
	c.requireCrashed("Restored", &restored.Info, 3)
	c.equal(restored.Records, Records(1, 5), "run")
	if info := c.info("run"); info.Status != snapshot.StatusRunning || info.Stop != (snapshot.Stop{}) || !info.Open {
		c.Errorf("after Open, the run is %+v", info)
	}
	if all := c.messages("run"); len(all) != 1 || valueOf(all[0]) != "yes" {
		c.Errorf("the waiting messages are %+v", all)
	}
	c.must(next.Append(Records(6, 2)...))
	c.must(closeAs(next, snapshot.StatusCompleted))
	c.equal(c.load("run").Records, Records(1, 7), "run")
	if info := c.info("run"); info.Status != snapshot.StatusCompleted || info.Stop != (snapshot.Stop{}) {
		c.Errorf("after Close, the run is %+v", info)
	}
}

func crashedAtOnce(c *crashFixture) {
	c.crash(c.open("new"))
	loaded, info := c.load("new"), c.info("new")
	c.requireCrashed("Load", &loaded.Info, 1)
	c.requireCrashed("Info", &info, 1)
	next := c.open("new")
	restored := c.decode(next.Restored())
	c.requireCrashed("Restored", &restored.Info, 2)
	c.must(next.Append(Records(1, 2)...))
	c.must(closeAs(next, snapshot.StatusCompleted))
	c.equal(c.load("new").Records, Records(1, 2), "new")
}

func crashedChanges(c *crashFixture) {
	c.crash(c.beginRun())
	_, err := c.store.Update(c.Context(), "run", func(i *snapshot.Info) error {
		c.requireCrashed("Update", i, 2)
		i.Status, i.Restarts = snapshot.StatusCancelled, 1
		return nil
	})
	c.must(err)
	if info := c.info("run"); info.Status != snapshot.StatusCancelled || info.Restarts != 1 {
		c.Errorf("after Update, the run is %+v", info)
	}
	c.equal(c.load("run").Records, Records(1, 5), "run")
	c.must(c.store.Delete(c.Context(), "run"))
	_, err = c.store.Load(c.Context(), "run")
	c.is(err, snapshot.ErrNotFound, "Load")
}
