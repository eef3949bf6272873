package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// These tests check runs that Open creates and runs that do not exist.

func begun(f *fixture) {
	before := time.Now()
	j := f.open("run")
	sn := f.decode(j.Restored())
	if sn.RunID != "run" || sn.Generation != 1 || sn.LastSeq != 0 || len(sn.Records) != 0 {
		f.Errorf("the new run is %+v", sn)
	}
	if sn.Created.Before(before.Add(-time.Second)) || sn.Created.After(time.Now().Add(time.Second)) {
		f.Errorf("the run was created at %v, want %v or later", sn.Created, before)
	}
	if found := f.load("run"); found.Status != snapshot.StatusRunning || len(found.Records) > 0 {
		f.Errorf("the loaded run is %+v", found)
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
		f.Errorf("a request for a run that does not exist created it: %v", ids)
	}
}

func badRunIDs(f *fixture) {
	for _, id := range []string{"", ".", "..", ".hidden", "-", "-a", "a/b", "../a", `a\b`, "a b", "a\x00b", "größe", string(make([]byte, 129))} {
		want := snapshot.CheckRunID(id).Error()
		for method, err := range f.callAll(f.Context(), id) {
			if err == nil || !strings.Contains(err.Error(), want) {
				f.Errorf("%s of run %q: the error is %v, want that of CheckRunID", method, id, err)
			}
		}
	}
	for _, id := range []string{"a", "A.b-c_9", "_", fmt.Sprintf("%0128d", 1)} {
		f.must(closeAs(f.open(id), snapshot.StatusCompleted))
	}
}

func generations(f *fixture) {
	created := time.Time{}
	for generation := uint64(1); generation <= 4; generation++ {
		j := f.open("run")
		sn := f.decode(j.Restored())
		if sn.Generation != generation {
			f.Errorf("the generation is %d, want %d", sn.Generation, generation)
		}
		if generation == 1 {
			created = sn.Created
		} else if !sn.Created.Equal(created) {
			f.Errorf("the time of creation has changed from %v to %v", created, sn.Created)
		}
		if sn := f.load("run"); sn.Generation != generation {
			f.Errorf("the loaded generation is %d, want %d", sn.Generation, generation)
		}
		f.must(closeAs(j, snapshot.StatusPaused))
	}
	if sn := f.load("run"); sn.Generation != 4 {
		f.Errorf("the generation after closing is %d, want 4", sn.Generation)
	}
}

func refusedByCheck(f *fixture) {
	why := errors.New("not this one")
	refuse := snapshot.OpenOptions{Check: func(snapshot.Info) error { return why }}
	_, err := f.store.Open(f.Context(), "run", refuse)
	f.is(err, snapshot.ErrNotFound, "Open of a run that does not exist")
	f.begin("run", 3, snapshot.StatusCompleted)
	before := f.load("run")
	_, err = f.store.Open(f.Context(), "run", refuse)
	f.is(err, why, "Open")
	now := f.load("run")
	if !reflect.DeepEqual(before.Info, now.Info) || len(now.Records) != 3 {
		f.Errorf("a refused Open changed the run from %+v to %+v", before.Info, now.Info)
	}
	var seen snapshot.Info
	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Check: func(i snapshot.Info) error { seen = i; return nil }})
	f.must(err)
	f.must(j.Close(f.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	if !reflect.DeepEqual(before.Info, seen) {
		f.Errorf("Check was called with %+v, want %+v", seen, before.Info)
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
			f.Errorf("the metadata is %+v, want %+v", info.Metadata, want)
		}
	}
}

// Readers limit the size of a run's info, so stores must refuse to write a larger one.
func hugeMetadata(f *fixture) {
	huge := snapshot.Metadata{Custom: map[string]string{"report": strings.Repeat("x", 17<<20)}}
	if _, err := f.store.Open(f.Context(), "opened", snapshot.OpenOptions{Create: true, Metadata: huge}); err == nil {
		f.Error("Open accepted metadata of 17 MiB")
	}
	if _, err := f.store.Create(f.Context(), f.run(snapshot.Info{RunID: "created", Status: snapshot.StatusQueued, Metadata: huge}, 0)); err == nil {
		f.Error("Create accepted metadata of 17 MiB")
	}
	f.begin("run", 1, snapshot.StatusPaused)
	describe := func(m snapshot.Metadata) error {
		_, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error { i.Metadata = m; return nil })
		return err
	}
	if describe(huge) == nil {
		f.Error("Update accepted metadata of 17 MiB")
	}
	f.must(describe(snapshot.Metadata{Description: "short"}))
	f.equal(f.load("run").Records, Records(1, 1), "run")
	if all := f.infos(snapshot.Filter{}); len(all) != 1 {
		f.Errorf("there are %d runs, want the one that was stored", len(all))
	}
}

func ended(f *fixture) {
	f.begin("run", 1, snapshot.StatusCompleted)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	for _, id := range []string{"run", "new"} {
		for method, err := range f.callAll(ctx, id) {
			f.is(err, context.Canceled, method)
		}
	}
	_, err := f.store.List(ctx, snapshot.Filter{})
	f.is(err, context.Canceled, "List")
	if info := f.load("run").Info; info.Pinned || info.Generation != 1 {
		f.Errorf("the run has changed: %+v", info)
	}
	if ids := f.list(snapshot.Filter{}); !slices.Equal(ids, []string{"run"}) {
		f.Errorf("List returned %v", ids)
	}
	if all := f.messages("run"); len(all) > 0 {
		f.Errorf("the waiting messages are %+v", all)
	}
	because, end := context.WithCancelCause(f.Context())
	why := errors.New("the server is drained")
	end(why)
	for method, err := range f.callAll(because, "run") {
		f.is(err, why, method)
	}
}

// callAll calls each method that takes a run ID, and yields the method's name and the error.
func (f *fixture) callAll(ctx context.Context, id string) iter.Seq2[string, error] {
	s := f.store
	return func(yield func(string, error) bool) {
		for _, call := range []struct {
			method string
			err    func() error
		}{
			{"Create", func() error {
				_, err := s.Create(ctx, f.run(snapshot.Info{RunID: id, Status: snapshot.StatusPaused}, 1))
				return err
			}},
			{"Open", func() error {
				j, err := s.Open(ctx, id, snapshot.OpenOptions{Create: true})
				if err == nil {
					f.must(closeAs(j, snapshot.StatusCompleted))
				}
				return err
			}},
			{"Update", func() error {
				_, err := s.Update(ctx, id, func(i *snapshot.Info) error {
					i.Pinned = true
					return nil
				})
				return err
			}},
			{"Load", func() error {
				_, err := s.Load(ctx, id)
				return err
			}},
			{"Records", func() error { return firstError(s.Records(ctx, id, 0)) }},
			{"Info", func() error {
				_, err := s.Info(ctx, id)
				return err
			}},
			{"Follow", func() error { return firstError(s.Follow(ctx, id, snapshot.Cursor{})) }},
			{"Watch", func() error {
				if id == "" { // Watch then watches all runs
					return snapshot.CheckRunID(id)
				}
				return firstError(s.Watch(ctx, snapshot.WatchOptions{RunID: id}))
			}},
			{"Post", func() error { return s.Post(ctx, id, Answer("a?1", "yes")) }},
			{"Messages", func() error {
				_, err := s.Messages(ctx, id)
				return err
			}},
			{"Remove", func() error {
				m := Answer("a?1", "")
				return s.Remove(ctx, id, m.ID())
			}},
			{"Delete", func() error { return s.Delete(ctx, id) }},
		} {
			if !yield(call.method, call.err()) {
				return
			}
		}
	}
}

// firstError returns the error in the first pair that an iterator yields, or nil if it yields none.
func firstError[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		return err
	}
	return nil
}
