package storetest

import (
	"slices"

	"github.com/reprise-go/reprise/snapshot"
)

// These tests check that a deleted run no longer exists.

func deletes(f *fixture) {
	f.begin("run", 3, snapshot.StatusCompleted)
	f.begin("other", 2, snapshot.StatusCompleted)
	f.must(f.store.Delete(f.Context(), "run"))
	f.is(f.store.Delete(f.Context(), "run"), snapshot.ErrNotFound, "Delete again")
	_, err := f.store.Load(f.Context(), "run")
	f.is(err, snapshot.ErrNotFound, "Load")
	if ids := f.list(snapshot.Filter{}); !slices.Equal(ids, []string{"other"}) {
		f.Errorf("List returned %v", ids)
	}
	j := f.open("run")
	if sn := f.decode(j.Restored()); sn.Generation != 1 || len(sn.Records) > 0 {
		f.Errorf("the new run with the ID of the deleted one is %+v", sn)
	}
	f.must(closeAs(j, snapshot.StatusCompleted))
}

func deleteOpen(f *fixture) {
	j := f.open("run")
	f.is(f.store.Delete(f.Context(), "run"), snapshot.ErrLocked, "Delete")
	f.must(j.Append(Records(1, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 1), "run")
	f.must(f.store.Delete(f.Context(), "run"))
}
