package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// listTests check that lists contain the infos of runs, and can be sorted, searched and counted.
var listTests = []test{
	{"TheEndOfAGenerationStoresTheSummary", summary},
	{"AListIsSortedByEachOrder", sorted},
	{"AListIsSearched", searched},
	{"AListCountsTheRunsOfAllPages", counted},
	{"AnInvalidFilterIsRefused", senseless},
}

// fullSummary returns a summary with every field set.
func fullSummary(text string) snapshot.Summary {
	at := time.Unix(1_700_000_000, 7).UTC()
	return snapshot.Summary{
		Calls: 9, Failed: 1, Retries: 4, Asking: 3,
		Questions: []snapshot.OpenQuestion{
			{ID: "agent/refund?1", Text: text, Awaits: record.AwaitAnswer, Asked: at},
			{ID: "agent/pay?1", Text: "was it paid?", Awaits: record.AwaitDecision, Asked: at, Due: at.Add(time.Hour)},
		},
		LastError: &snapshot.Failure{Address: "agent/pay", Class: "transient", Message: "503", Time: at},
	}
}

func summary(f *fixture) {
	want := fullSummary("refund it?")
	j := f.open("run")
	f.must(j.Append(Records(1, 3)...))
	f.must(j.Close(f.Context(), snapshot.End{Status: snapshot.StatusPaused, Summary: want}))
	check := func(when string) {
		f.Helper()
		info, err := f.store.Info(f.Context(), "run")
		f.must(err)
		for _, info := range []snapshot.Info{info, f.load("run").Info, f.infos(snapshot.Filter{})[0]} {
			if !info.Summary.Equal(want) {
				f.Errorf("%s, the summary is %+v", when, info.Summary)
			}
		}
	}
	check("closed")
	_, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Metadata.Description = "changed"
		return nil
	})
	f.must(err)
	check("updated")
	if _, err := f.store.Update(f.Context(), "run", func(i *snapshot.Info) error {
		i.Summary.Asking = 0
		return nil
	}); err == nil {
		f.Error("the summary was changed by an update")
	}
	again := f.open("run")
	check("open")
	want = snapshot.Summary{Calls: 10}
	f.must(again.Close(f.Context(), snapshot.End{Status: snapshot.StatusCompleted, Summary: want}))
	check("closed again")
}

// makeSortableRuns creates runs whose order differs between most sort orders. With the most
// recently updated first, the order is run-4 to run-0.
func makeSortableRuns(f *fixture) {
	for n, status := range []snapshot.Status{
		snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusPaused, snapshot.StatusCompleted, snapshot.StatusFailed,
	} {
		id := fmt.Sprint("run-", n)
		j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true, Metadata: snapshot.Metadata{Description: fmt.Sprint("Order ", n)}})
		f.must(err)
		f.must(j.Append(Records(1, 2)...))
		end := snapshot.End{Status: status, Usage: record.Usage{InputTokens: (n * 3) % 5, OutputTokens: 1, Cost: float64((n*2)%5) / 8}}
		end.Summary.Retries = (n * 4) % 5
		if status != snapshot.StatusCompleted {
			end.Summary = fullSummary("Refund " + id)
			end.Summary.Retries = (n * 4) % 5
			end.Summary.LastError.Class = []string{"permanent", "transient"}[n%2]
		}
		f.must(j.Close(f.Context(), end))
	}
}

func sorted(f *fixture) {
	makeSortableRuns(f)
	for sort, want := range map[snapshot.Sort]string{
		snapshot.SortUpdated: "4 3 2 1 0",
		snapshot.SortCreated: "4 3 2 1 0",
		snapshot.SortEnded:   "4 3 1 0 2",
		snapshot.SortCost:    "2 4 1 3 0",
		snapshot.SortTokens:  "3 1 4 2 0",
		snapshot.SortRetries: "1 2 3 4 0",
	} {
		want := strings.Fields(want)
		for i := range want {
			want[i] = "run-" + want[i]
		}
		f.requirePages(snapshot.Filter{Sort: sort}, want)
		slices.Reverse(want)
		f.requirePages(snapshot.Filter{Sort: sort, Ascending: true}, want)
	}
	durations := f.infos(snapshot.Filter{Sort: snapshot.SortDuration})
	if !slices.IsSortedFunc(durations, func(a, b snapshot.Info) int {
		return int(b.Updated.Sub(b.Created) - a.Updated.Sub(a.Created))
	}) {
		f.Error("the list is not sorted by duration")
	}
}

// requirePages lists runs in pages of various lengths and requires that the runs on all pages
// together are those in want.
func (f *fixture) requirePages(filter snapshot.Filter, want []string) {
	f.Helper()
	for limit := range len(want) + 2 {
		filter.Limit, filter.After = limit, ""
		var got []string
		for {
			page, err := f.store.List(f.Context(), filter)
			f.must(err)
			for i := range page.Runs {
				got = append(got, page.Runs[i].RunID)
			}
			if filter.After = page.Next; page.Next == "" || len(got) > len(want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			f.Errorf("sorted by %q, ascending %v, in pages of %d: got %v, want %v", filter.Sort, filter.Ascending, limit, got, want)
		}
	}
}

func searched(f *fixture) {
	makeSortableRuns(f)
	_, err := f.store.Create(f.Context(), &snapshot.Run{Info: snapshot.Info{
		RunID: "child", ParentID: "run-1", Status: snapshot.StatusQueued, Program: "orders", Version: "v2",
	}})
	f.must(err)
	for name, test := range map[string]struct {
		filter snapshot.Filter
		want   []string
	}{
		"id":          {snapshot.Filter{Text: "UN-3"}, []string{"run-3"}},
		"description": {snapshot.Filter{Text: "order 2"}, []string{"run-2"}},
		"question":    {snapshot.Filter{Text: "refund"}, []string{"run-4", "run-2", "run-1"}},
		"error":       {snapshot.Filter{Text: "503", Status: []snapshot.Status{snapshot.StatusFailed}}, []string{"run-4", "run-1"}},
		"class":       {snapshot.Filter{ErrorClass: "permanent"}, []string{"run-4", "run-2"}},
		"asking":      {snapshot.Filter{Asking: true}, []string{"run-4", "run-2", "run-1"}},
		"parent":      {snapshot.Filter{Parent: "run-1"}, []string{"child"}},
		"version":     {snapshot.Filter{Program: "orders", Version: "v2"}, []string{"child"}},
		"another":     {snapshot.Filter{Program: "orders", Version: "v1"}, []string{}},
		"only":        {snapshot.Filter{Only: func(id string) bool { return id >= "run-3" }}, []string{"run-4", "run-3"}},
		"nothing":     {snapshot.Filter{Text: "nowhere"}, []string{}},
	} {
		if ids := f.list(test.filter); !slices.Equal(ids, test.want) {
			f.Errorf("%s: List returned %v, want %v", name, ids, test.want)
		}
		f.requirePages(test.filter, append([]string(nil), test.want...))
	}
}

func counted(f *fixture) {
	makeSortableRuns(f)
	open := f.open("open")
	for _, filter := range []snapshot.Filter{{}, {Limit: 1}, {Limit: 2, Sort: snapshot.SortCost}, {Status: []snapshot.Status{snapshot.StatusPaused}}} {
		filter.Count = true
		page, err := f.store.List(f.Context(), filter)
		f.must(err)
		want := map[snapshot.Status]int{snapshot.StatusCompleted: 2, snapshot.StatusFailed: 2, snapshot.StatusPaused: 1, snapshot.StatusRunning: 1}
		if !maps.Equal(page.Counts, want) {
			f.Errorf("%+v: the counts are %v", filter, page.Counts)
		}
	}
	page, err := f.store.List(f.Context(), snapshot.Filter{Count: true, Text: "order", Status: []snapshot.Status{snapshot.StatusRunning}})
	f.must(err)
	if want := map[snapshot.Status]int{snapshot.StatusCompleted: 2, snapshot.StatusFailed: 2, snapshot.StatusPaused: 1}; !maps.Equal(page.Counts, want) || len(page.Runs) > 0 {
		f.Errorf("the counts are %v, and %d runs are listed", page.Counts, len(page.Runs))
	}
	f.must(closeAs(open, snapshot.StatusCompleted))
}

func senseless(f *fixture) {
	makeSortableRuns(f)
	page, err := f.store.List(f.Context(), snapshot.Filter{Sort: snapshot.SortCost, Limit: 1})
	f.must(err)
	for name, filter := range map[string]snapshot.Filter{
		"sort":   {Sort: "colour"},
		"status": {Status: []snapshot.Status{"asleep"}},
		"order":  {Sort: snapshot.SortTokens, After: page.Next},
		"after":  {Sort: snapshot.SortCost, After: "cost-:x/y"},
		"latest": {After: page.Next},
	} {
		if _, err := f.store.List(f.Context(), filter); err == nil || !strings.Contains(err.Error(), "want") {
			f.Errorf("%s: the error is %v", name, err)
		}
	}
}
