package storetest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// What Open begins, and what a store says of a run that is not there.

func begun(f *fixture) {
	before := time.Now()
	j := f.open("run")
	sn := f.decoded(j.Restored())
	if sn.RunID != "run" || sn.Generation != 1 || sn.LastSeq != 0 || len(sn.Records) != 0 {
		f.Errorf("a run that was begun is %+v", sn)
	}
	if sn.Created.Before(before.Add(-time.Second)) || sn.Created.After(time.Now().Add(time.Second)) {
		f.Errorf("it was created at %v, but it is %v", sn.Created, before)
	}
	if found := f.load("run"); found.Status != snapshot.StatusRunning || len(found.Records) > 0 {
		f.Errorf("loaded, it is %+v", found)
	}
	f.must(closeAs(j, snapshot.StatusCompleted))
}

func notFound(f *fixture) {
	_, err := f.store.Open(f.Context(), "none", snapshot.OpenOptions{})
	f.is(err, snapshot.ErrNotFound, "Open")
	_, err = f.store.Load(f.Context(), "none")
	f.is(err, snapshot.ErrNotFound, "Load")
	f.is(f.store.Delete(f.Context(), "none"), snapshot.ErrNotFound, "Delete")
	if ids := f.list(snapshot.Filter{}); len(ids) > 0 {
		f.Errorf("asking for a run has made it: %v", ids)
	}
}

func badRunIDs(f *fixture) {
	for _, id := range []string{"", ".", "..", ".hidden", "a/b", "../a", `a\b`, "a b", "a\x00b", "größe", string(make([]byte, 129))} {
		if j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true}); err == nil {
			f.Errorf("a run %q was begun", id)
			f.must(closeAs(j, snapshot.StatusCompleted))
		}
		if _, err := f.store.Load(f.Context(), id); err == nil {
			f.Errorf("a run %q was loaded", id)
		}
		if err := f.store.Delete(f.Context(), id); err == nil {
			f.Errorf("a run %q was deleted", id)
		}
	}
	for _, id := range []string{"a", "A.b-c_9", "-", "_", fmt.Sprintf("%0128d", 1)} {
		f.must(closeAs(f.open(id), snapshot.StatusCompleted))
	}
}

func generations(f *fixture) {
	created := time.Time{}
	for generation := uint64(1); generation <= 4; generation++ {
		j := f.open("run")
		sn := f.decoded(j.Restored())
		if sn.Generation != generation {
			f.Errorf("the generation is %d, not %d", sn.Generation, generation)
		}
		if generation == 1 {
			created = sn.Created
		} else if !sn.Created.Equal(created) {
			f.Errorf("it was created at %v, and now at %v", created, sn.Created)
		}
		if sn := f.load("run"); sn.Generation != generation {
			f.Errorf("the loaded generation is %d, not %d", sn.Generation, generation)
		}
		f.must(closeAs(j, snapshot.StatusPaused))
	}
	if sn := f.load("run"); sn.Generation != 4 {
		f.Errorf("the generation after closing is %d, not 4", sn.Generation)
	}
}

func metadata(f *fixture) {
	m := snapshot.Metadata{Description: "daily", Pipeline: "report", Tags: []string{"a", "b"}, Custom: map[string]string{"k": "v"}}
	want := m.Clone()
	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Metadata: m})
	f.must(err)
	m.Tags[0], m.Custom["k"] = "changed", "changed"
	f.must(closeAs(j, snapshot.StatusCompleted))
	other := snapshot.OpenOptions{Create: true, Metadata: snapshot.Metadata{Pipeline: "other"}}
	j, err = f.store.Open(f.Context(), "run", other)
	f.must(err)
	f.must(closeAs(j, snapshot.StatusCompleted))
	all := f.infos(snapshot.Filter{})
	for _, info := range []snapshot.Info{f.load("run").Info, j.Restored().Info, all[0]} {
		if !reflect.DeepEqual(info.Metadata, want) {
			f.Errorf("the metadata are %+v, not %+v", info.Metadata, want)
		}
	}
}

func ended(f *fixture) {
	f.begin("run", 1, snapshot.StatusCompleted)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, err := f.store.Open(ctx, "run", snapshot.OpenOptions{})
	f.is(err, context.Canceled, "Open")
	_, err = f.store.Load(ctx, "run")
	f.is(err, context.Canceled, "Load")
	_, err = f.store.List(ctx, snapshot.Filter{})
	f.is(err, context.Canceled, "List")
	f.is(f.store.Delete(ctx, "run"), context.Canceled, "Delete")
	f.load("run")
}
