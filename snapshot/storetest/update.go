package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// updateTests check that infos can be changed and listed in pages.
var updateTests = []test{
	{"AnUpdateIsKept", updates},
	{"AnUpdateOfAnOpenRunStays", updatesOpen},
	{"AChangeOfAFixedFieldIsRefused", notUpdated},
	{"NoUpdateIsLost", manyUpdate},
	{"TheEndOfAGenerationSaysWhenItIsDue", due},
	{"TheEndOfAGenerationSaysWhatWasConsumed", consumed},
	{"AListComesInPages", pages},
}

func updates(f *fixture) {
	f.begin("run", 3, snapshot.StatusPaused)
	at := time.Unix(1_800_000_000, 0).UTC()
	before := f.load("run").Info
	info, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Status, i.Due, i.Expires, i.Pinned, i.Restarts, i.Program = snapshot.StatusCancelled, at, at, true, 2, "report"
		i.RetryTo, i.RefusedBy = 3, "build"
		i.Metadata.Tags = []string{"late"}
		return nil
	})
	f.must(err)
	for _, got := range []snapshot.Info{info, f.load("run").Info, f.infos(snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCancelled}})[0]} {
		if got.Status != snapshot.StatusCancelled || !got.Due.Equal(at) || !got.Expires.Equal(at) || !got.Pinned || got.Restarts != 2 ||
			got.RetryTo != 3 || got.RefusedBy != "build" ||
			!slices.Equal(got.Metadata.Tags, []string{"late"}) || got.LastSeq != 3 || !got.Updated.After(before.Updated) {
			f.Errorf("the info is %+v", got)
		}
	}
	f.equal(f.load("run").Records, Records(1, 3), "run")
	why := errors.New("no")
	_, err = f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Pinned = false
		return why
	})
	f.is(err, why, "Update")
	if !f.load("run").Pinned {
		f.Error("a failed change was stored")
	}
	_, err = f.store.Update(f.Context(), "none", func(*snapshot.Info) error { return nil })
	f.is(err, snapshot.ErrNotFound, "Update")
}

func updatesOpen(f *fixture) {
	j := f.open("run")
	_, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Metadata.Description, i.Pinned = "changed", true
		return nil
	})
	f.must(err)
	_, err = f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Status = snapshot.StatusCancelled
		return nil
	})
	f.is(err, snapshot.ErrLocked, "Update of the status")
	f.must(j.Append(Records(1, 2)...))
	if info := f.load("run").Info; info.Status != snapshot.StatusRunning || !info.Open || info.Metadata.Description != "changed" {
		f.Errorf("while open, the run is %+v", info)
	}
	f.must(closeAs(j, snapshot.StatusCompleted))
	for _, info := range []snapshot.Info{f.load("run").Info, f.infos(snapshot.Filter{})[0]} {
		if info.Metadata.Description != "changed" || !info.Pinned || info.Open || info.Status != snapshot.StatusCompleted || info.LastSeq != 2 {
			f.Errorf("after Close, the run is %+v", info)
		}
	}
}

func notUpdated(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	for name, change := range map[string]func(*snapshot.Info){
		"run ID":     func(i *snapshot.Info) { i.RunID = "other" },
		"parent":     func(i *snapshot.Info) { i.ParentID = "other" },
		"created":    func(i *snapshot.Info) { i.Created = i.Created.Add(time.Hour) },
		"generation": func(i *snapshot.Info) { i.Generation++ },
		"last":       func(i *snapshot.Info) { i.LastSeq++ },
		"usage":      func(i *snapshot.Info) { i.Usage.InputTokens++ },
		"owner":      func(i *snapshot.Info) { i.Owner = "me" },
		"retry":      func(i *snapshot.Info) { i.Retry = snapshot.RetryLevels{snapshot.RetryOfAll: {}} },
		"running":    func(i *snapshot.Info) { i.Status = snapshot.StatusRunning },
		"status":     func(i *snapshot.Info) { i.Status = "done" },
		"time":       func(i *snapshot.Info) { i.Due = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		_, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
			change(i)
			return nil
		})
		if err == nil {
			f.Errorf("%s was changed", name)
		}
	}
	if info := f.load("run").Info; info.Status != snapshot.StatusPaused || info.LastSeq != 1 || info.Generation != 1 {
		f.Errorf("the refused updates changed the run to %+v", info)
	}
}

func manyUpdate(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	const n = 16
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			_, err := f.store.Update(f.Context(), "run", func(info *snapshot.Info) error {
				info.Metadata.Tags = append(info.Metadata.Tags, fmt.Sprint(i))
				return nil
			})
			if err != nil {
				f.Error(err)
			}
		})
	}
	wait.Wait()
	if tags := f.load("run").Metadata.Tags; len(tags) != n {
		f.Errorf("%d of %d updates were stored: %v", len(tags), n, tags)
	}
}

func due(f *fixture) {
	at := time.Unix(1_800_000_000, 7).UTC()
	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Owner: "worker-1"})
	f.must(err)
	f.must(j.Close(f.Context(), snapshot.End{Status: snapshot.StatusPaused, Due: at}))
	for _, info := range []snapshot.Info{f.load("run").Info, f.infos(snapshot.Filter{})[0]} {
		if info.Status != snapshot.StatusPaused || !info.Due.Equal(at) || info.Owner != "worker-1" {
			f.Errorf("the paused run is %+v", info)
		}
	}
	f.must(closeAs(f.open("run"), snapshot.StatusCompleted))
	if info := f.load("run").Info; !info.Due.IsZero() || info.Owner != "" {
		f.Errorf("after Close, the run is %+v", info)
	}
}

func consumed(f *fixture) {
	used := record.Usage{
		InputTokens: 1200, OutputTokens: 30, Cost: 0.5,
		CachedInputTokens: 1000, CacheWriteTokens: 7, ReasoningTokens: 20, Estimated: true,
	}
	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true})
	f.must(err)
	f.must(j.Append(Records(1, 3)...))
	f.must(j.Close(f.Context(), snapshot.End{Status: snapshot.StatusPaused, Usage: used}))
	check := func(when string) {
		f.Helper()
		info, err := f.store.Info(f.Context(), "run")
		f.must(err)
		for _, info := range []snapshot.Info{info, f.load("run").Info, f.infos(snapshot.Filter{})[0]} {
			if info.Usage != used {
				f.Errorf("%s, the usage of the run is %+v", when, info.Usage)
			}
		}
	}
	check("closed")
	_, err = f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Metadata.Description = "changed"
		return nil
	})
	f.must(err)
	check("updated")
	again := f.open("run")
	if got := again.Restored().Usage; got != used {
		f.Errorf("after Open, the usage of the run is %+v", got)
	}
	check("open")
	used.InputTokens++
	f.must(again.Close(f.Context(), snapshot.End{Status: snapshot.StatusCompleted, Usage: used}))
	check("closed again")
}

func pages(f *fixture) {
	const runs, each = 7, 3
	var want []string
	for n := range runs {
		id := fmt.Sprint("run-", n)
		f.begin(id, 1, snapshot.StatusCompleted)
		want = append([]string{id}, want...)
	}
	var got []string
	for filter, n := (snapshot.Filter{Limit: each}), 0; ; n++ {
		page, err := f.store.List(f.Context(), filter)
		f.must(err)
		if len(page.Runs) > each || n > runs {
			f.Fatalf("page %d has %d runs", n, len(page.Runs))
		}
		for _, info := range page.Runs {
			got = append(got, info.RunID)
		}
		if filter.After = page.Next; page.Next == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("List returned %v, want %v", got, want)
	}
	if _, err := f.store.List(f.Context(), snapshot.Filter{After: "yesterday"}); err == nil {
		f.Error("a list accepted a page token that no list has returned")
	}
}
