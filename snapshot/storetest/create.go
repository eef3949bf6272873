package storetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// createTests check that a created run is complete and is not open.
var createTests = []test{
	{"ACreatedRunIsComplete", creates},
	{"ARunIsCreatedOnce", createsOnce},
	{"ARunThatIsCreatedKeepsWhenItEnded", keepsEnd},
	{"ARunThatIsCreatedAndUpdatedKeepsItsRecords", createsAndUpdates},
	{"OneOfManyConcurrentCreatesSucceeds", manyCreate},
	{"ARunGoesFromOneStoreToAnother", moves},
	{"AnInvalidRunIsNotCreated", notCreated},
}

// run returns a run with n records. The run is not in a store.
func (f *fixture) run(info snapshot.Info, n int) *snapshot.Run {
	f.Helper()
	run, err := snapshot.NewRun(info, func(yield func(record.Record, error) bool) {
		for _, rec := range Records(1, n) {
			if !yield(rec, nil) {
				return
			}
		}
	})
	f.must(err)
	return run
}

func creates(f *fixture) {
	due := time.Unix(1_700_000_000, 5).UTC()
	given := snapshot.Info{
		RunID: "run", ParentID: "parent", Status: snapshot.StatusQueued, Due: due, Priority: 3, Program: "report", Version: "v2",
		Metadata: snapshot.Metadata{Pipeline: "report", Tags: []string{"a"}},
	}
	info, err := f.store.Create(f.Context(), f.run(given, 5))
	f.must(err)
	if info.LastSeq != 5 || info.Created.IsZero() || info.Updated.IsZero() || info.Open || info.Generation != 0 {
		f.Errorf("the created run is %+v", info)
	}
	want := given
	want.LastSeq, want.Created, want.Updated = 5, info.Created, info.Updated
	loaded, err := f.store.Info(f.Context(), "run")
	f.must(err)
	for _, got := range []snapshot.Info{info, loaded, f.load("run").Info, f.infos(snapshot.Filter{Program: "report"})[0]} {
		if !reflect.DeepEqual(got, want) {
			f.Errorf("the info is\n%+v, want\n%+v", got, want)
		}
	}
	f.equal(f.load("run").Records, Records(1, 5), "run")
	j := f.open("run")
	if restored := f.decode(j.Restored()); restored.Generation != 1 || restored.Status != snapshot.StatusQueued {
		f.Errorf("after Open, the run is %+v", restored.Info)
	}
	f.must(j.Append(Records(6, 2)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 7), "run")
	_, err = f.store.Create(f.Context(), f.run(snapshot.Info{RunID: "empty", Status: snapshot.StatusRunning}, 0))
	f.must(err)
	if sn := f.load("empty"); sn.Status != snapshot.StatusInterrupted || len(sn.Records) > 0 {
		f.Errorf("a run without records is %+v", sn)
	}
}

// keepsEnd checks that a copied or imported run keeps its end time.
func keepsEnd(f *fixture) {
	begun := time.Unix(1_700_000_000, 5).UTC()
	for id, test := range map[string]struct {
		status  snapshot.Status
		updated time.Time
		isKept  bool
	}{
		"ended":    {snapshot.StatusCompleted, begun.Add(3 * time.Second), true},
		"instant":  {snapshot.StatusFailed, begun, true},
		"early":    {snapshot.StatusCompleted, begun.Add(-time.Second), false},
		"late":     {snapshot.StatusCompleted, time.Now().Add(time.Hour).UTC().Round(0), false},
		"never":    {snapshot.StatusCompleted, time.Time{}, false},
		"was-open": {snapshot.StatusRunning, begun.Add(3 * time.Second), false},
	} {
		given := snapshot.Info{RunID: id, Status: test.status, Created: begun, Updated: test.updated}
		before := time.Now()
		created, err := f.store.Create(f.Context(), f.run(given, 2))
		f.must(err)
		after := time.Now()
		now := !created.Updated.Before(before.Round(0)) && !created.Updated.After(after.Round(0))
		if kept := created.Updated.Equal(test.updated); kept != test.isKept || kept == now {
			f.Errorf("%s: Updated is %v, Create was called with %v", id, created.Updated, test.updated)
		}
		info, err := f.store.Info(f.Context(), id)
		f.must(err)
		for _, got := range []snapshot.Info{info, f.load(id).Info} {
			if !got.Updated.Equal(created.Updated) || !got.Created.Equal(begun) {
				f.Errorf("%s: Created and Updated are %v and %v, want %v and %v", id, got.Created, got.Updated, begun, created.Updated)
			}
		}
	}
	ids := make([]string, 0, 2)
	for _, info := range f.infos(snapshot.Filter{Until: begun.Add(time.Minute)}) {
		ids = append(ids, info.RunID)
	}
	slices.Sort(ids) // a store may list them in the order in which they were created
	if !slices.Equal(ids, []string{"ended", "instant"}) {
		f.Errorf("the runs updated in that minute are %v, want ended and instant", ids)
	}
}

func createsAndUpdates(f *fixture) {
	_, err := f.store.Create(f.Context(), f.run(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, 3))
	f.must(err)
	_, err = f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Status, i.Priority = snapshot.StatusInterrupted, 5
		return nil
	})
	f.must(err)
	f.equal(f.load("run").Records, Records(1, 3), "run")
	j := f.open("run")
	f.equal(f.decode(j.Restored()).Records, Records(1, 3), "run")
	f.must(j.Append(Records(4, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 4), "run")
}

func createsOnce(f *fixture) {
	run := f.run(snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}, 2)
	j := f.open("run")
	_, err := f.store.Create(f.Context(), run)
	f.is(err, snapshot.ErrExists, "Create, while it is open")
	f.must(j.Append(Records(1, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	_, err = f.store.Create(f.Context(), run)
	f.is(err, snapshot.ErrExists, "Create")
	f.equal(f.load("run").Records, Records(1, 1), "run")
	f.must(f.store.Delete(f.Context(), "run"))
	_, err = f.store.Create(f.Context(), run)
	f.must(err)
	f.equal(f.load("run").Records, Records(1, 2), "run")
}

func manyCreate(f *fixture) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for n := range 8 {
		run := f.run(snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}, n+1)
		wait.Go(func() {
			_, err := f.store.Create(f.Context(), run)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				created++
			} else if !errors.Is(err, snapshot.ErrExists) {
				f.Error(err)
			}
		})
	}
	wait.Wait()
	if created != 1 {
		f.Errorf("the run was created %d times", created)
	}
	f.load("run")
}

func moves(f *fixture) {
	other := memstore.New()
	j, err := other.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Retry: snapshot.RetryLevels{snapshot.RetryOfAll: {MaxAttempts: 2}}})
	f.must(err)
	f.must(j.Append(Records(1, 20)...))
	f.must(closeAs(j, snapshot.StatusPaused))
	run, err := other.Load(f.Context(), "run")
	f.must(err)
	document, err := run.Encode()
	f.must(err)
	decoded, err := snapshot.Decode(document)
	f.must(err)
	info, err := f.store.Create(f.Context(), decoded)
	f.must(err)
	if info.Generation != 1 || !reflect.DeepEqual(info.Retry, run.Retry) || !info.Created.Equal(run.Created) {
		f.Errorf("the moved run is %+v", info)
	}
	f.equal(f.load("run").Records, Records(1, 20), "run")
}

func notCreated(f *fixture) {
	for name, info := range map[string]snapshot.Info{
		"a bad ID":     {RunID: "../run", Status: snapshot.StatusPaused},
		"no status":    {RunID: "run"},
		"a bad status": {RunID: "run", Status: "done"},
		"a bad time":   {RunID: "run", Status: snapshot.StatusPaused, Due: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		run, err := snapshot.NewRun(info, nil)
		f.must(err)
		if _, err := f.store.Create(f.Context(), run); err == nil {
			f.Errorf("%s was created", name)
		}
	}
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, err := f.store.Create(ctx, f.run(snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}, 1))
	f.is(err, context.Canceled, "Create")
	if ids := f.list(snapshot.Filter{}); len(ids) > 0 {
		f.Errorf("List returned %v", ids)
	}
}
