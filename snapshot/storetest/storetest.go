// Package storetest checks implementations of [snapshot.Store] and
// [snapshot.ArtifactStore] against the rules in their comments. It needs
// nothing but package testing:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(t.TempDir()) })
//	}
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// Run checks a store, and whether it keeps the rules of [snapshot.Inbox] if it
// is one. It calls open for an empty one in each of its tests.
func Run(t *testing.T, open func(t *testing.T) snapshot.Store) {
	for _, test := range slices.Concat(tests, inboxTests) {
		t.Run(test.name, func(t *testing.T) {
			test.run(&fixture{T: t, store: open(t)})
		})
	}
}

type test struct {
	name string
	run  func(*fixture)
}

var tests = []test{
	{"ARunThatIsBegunHasNoRecords", begun},
	{"ARunThatIsNotThereIsNotFound", notFound},
	{"ARunIDThatIsNoNameIsRefused", badRunIDs},
	{"AResumedRunHasAllThatWasAppended", resumed},
	{"EveryFieldOfARecordComesBack", fields},
	{"RecordsAppendedTogetherKeepTheirOrder", order},
	{"ARecordOutOfOrderBreaksTheJournal", outOfOrder},
	{"EveryOpeningIsAGeneration", generations},
	{"MetadataIsThatOfTheBeginning", metadata},
	{"RetryLevelsAreThoseOfTheLastOpeningThatHasSome", retryLevels},
	{"ARunHasOneWriter", locked},
	{"OneWhoWaitsGetsTheRunWhenItIsClosed", waits},
	{"WaitingEndsWithItsContext", waitEnds},
	{"ARunCanBeLoadedWhileItIsWritten", loadWhileWriting},
	{"ARunThatIsNotDecodedIsTheSame", lazily},
	{"WhatIsLoadedDoesNotChange", loadedIsACopy},
	{"NothingIsAppendedAfterClose", closed},
	{"ClosingTwiceIsFine", closeTwice},
	{"TheStatusIsThatOfTheLastClose", statuses},
	{"ListPicksAndOrders", list},
	{"ADeletedRunIsGone", deletes},
	{"AnOpenRunIsNotDeleted", deleteOpen},
	{"ManyRunsAreKeptApart", manyRuns},
	{"ManyGoroutinesSync", manySync},
	{"AContextThatHasEndedIsAnError", ended},
}

// A fixture is one test with its store.
type fixture struct {
	*testing.T
	store snapshot.Store
}

// open opens a run, which is begun if it is not there.
func (f *fixture) open(runID string) snapshot.Journal {
	f.Helper()
	j, err := f.store.Open(f.Context(), runID, snapshot.OpenOptions{Create: true})
	f.must(err)
	return j
}

// begin makes a run with n records that is closed.
func (f *fixture) begin(runID string, n int, status snapshot.Status) {
	f.Helper()
	j := f.open(runID)
	f.must(j.Append(Records(1, n)...))
	f.must(j.Close(status))
}

func (f *fixture) load(runID string) *snapshot.Snapshot {
	f.Helper()
	sn, err := f.store.Load(f.Context(), runID)
	f.must(err)
	return sn
}

func (f *fixture) list(filter snapshot.Filter) []string {
	f.Helper()
	all, err := f.store.List(f.Context(), filter)
	f.must(err)
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].RunID
	}
	return ids
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) is(err, want error, doing string) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: the error is %v, not %v", doing, err, want)
	}
}

// equal compares records, as far as every store keeps them.
func (f *fixture) equal(got, want []core.Record, runID string) {
	f.Helper()
	if len(got) != len(want) {
		f.Fatalf("there are %d records, not %d", len(got), len(want))
	}
	for i := range got {
		w := want[i]
		w.RunID = runID
		if !reflect.DeepEqual(got[i], w) { //nolint:govet // deepequalerrors: none of them has an error
			f.Fatalf("record %d is\n%+v, not\n%+v", i+1, got[i], w)
		}
	}
}

// Records makes n records, the first of which has the number first.
func Records(first uint64, n int) []core.Record {
	records := make([]core.Record, n)
	for i := range records {
		seq := first + uint64(i)
		address, _ := core.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", seq+1))
		r := &records[i]
		*r = core.Record{
			Seq: seq, Time: time.Unix(1_700_000_000+int64(seq), int64(seq)).UTC(),
			Address: address, Name: "get_weather", Kind: core.KindTool, Status: core.StatusStarted, MaxAttempts: 3,
		}
		if seq%2 == 0 {
			r.Status, r.Duration, r.Elapsed = core.StatusCompleted, time.Duration(seq)*time.Millisecond, time.Second
			r.Detail = &core.Detail{Output: fmt.Appendf(nil, "the output of call %d", seq)}
		}
	}
	return records
}

func begun(f *fixture) {
	before := time.Now()
	j := f.open("run")
	sn := j.Restored()
	if sn.RunID != "run" || sn.Generation != 1 || sn.LastSeq != 0 || len(sn.Records) != 0 {
		f.Errorf("a run that was begun is %+v", sn)
	}
	if sn.Created.Before(before.Add(-time.Second)) || sn.Created.After(time.Now().Add(time.Second)) {
		f.Errorf("it was created at %v, but it is %v", sn.Created, before)
	}
	if found := f.load("run"); found.Status != snapshot.StatusRunning || len(found.Records) > 0 {
		f.Errorf("loaded, it is %+v", found)
	}
	f.must(j.Close(snapshot.StatusCompleted))
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
			f.must(j.Close(snapshot.StatusCompleted))
		}
		if _, err := f.store.Load(f.Context(), id); err == nil {
			f.Errorf("a run %q was loaded", id)
		}
		if err := f.store.Delete(f.Context(), id); err == nil {
			f.Errorf("a run %q was deleted", id)
		}
	}
	for _, id := range []string{"a", "A.b-c_9", "-", "_", fmt.Sprintf("%0128d", 1)} {
		f.must(f.open(id).Close(snapshot.StatusCompleted))
	}
}

func resumed(f *fixture) {
	want := Records(1, 7)
	j := f.open("run")
	f.must(j.Append(want[0]))
	f.must(j.Append(want[1], want[2], want[3]))
	f.must(j.Append())
	f.must(j.Close(snapshot.StatusInterrupted))

	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{})
	f.must(err)
	f.equal(j.Restored().Records, want[:4], "run")
	if sn := j.Restored(); sn.LastSeq != 4 || sn.Status != snapshot.StatusInterrupted {
		f.Errorf("its last number is %d, its status %s, not 4 and interrupted", sn.LastSeq, sn.Status)
	}
	f.must(j.Append(want[4:]...))
	f.must(j.Sync(7))
	f.must(j.Close(snapshot.StatusCompleted))

	sn := f.load("run")
	f.equal(sn.Records, want, "run")
	if sn.LastSeq != 7 || sn.Updated.Before(want[6].Time) {
		f.Errorf("the last number is %d, updated %v; the last record is %d, of %v", sn.LastSeq, sn.Updated, 7, want[6].Time)
	}
}

func fields(f *fixture) {
	address, err := core.ParseAddress("assistant@2/step:collect")
	f.must(err)
	full := core.Record{
		Seq: 1, Time: time.Unix(1_700_000_000, 123_456_789).UTC(), Address: address, Name: "collect",
		Kind: core.KindTool, Status: core.StatusFailed, Reason: core.ReasonExhausted, Stage: core.StageHandler,
		Class: core.ClassRateLimit, Waiting: core.SourceServer, Attempt: 2, MaxAttempts: 5, WillRetry: true,
		Duration: time.Millisecond, Elapsed: time.Second, Delay: time.Minute,
		Detail: &core.Detail{
			InputHash: core.Hash{1, 2, 3}, Input: []byte("in"), Output: []byte{0, 255}, Artifact: "abc",
			Usage: core.Usage{InputTokens: 1, OutputTokens: 2, Cost: 0.5}, Message: "größe", Severity: core.SeverityWarn,
			Metadata: map[string]any{"key": "value", "yes": true},
		},
	}
	failed := Records(2, 1)[0]
	failed.Err = errors.New("no answer")
	j := f.open("run")
	f.must(j.Append(full, failed))
	f.must(j.Close(snapshot.StatusFailed))
	got := f.load("run").Records
	if len(got) != 2 || got[1].Err == nil || got[1].Err.Error() != "no answer" {
		f.Fatalf("the error did not come back: %+v", got)
	}
	got[1].Err, failed.Err = nil, nil
	f.equal(got, []core.Record{full, failed}, "run")
}

func order(f *fixture) {
	want := Records(1, 200)
	j := f.open("run")
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 1+len(rest)%5)
		f.must(j.Append(rest[:n]...))
		rest = rest[n:]
	}
	f.must(j.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, want, "run")
}

func outOfOrder(f *fixture) {
	for name, seq := range map[string]uint64{"again": 2, "hole": 4, "zero": 0} {
		j := f.open(name)
		f.must(j.Append(Records(1, 2)...))
		first := j.Append(Records(seq, 1)...)
		if first == nil {
			f.Fatalf("record %d was appended after record 2", seq)
		}
		if err := j.Append(Records(3, 1)...); err == nil {
			f.Error("a journal that is broken went on")
		}
		if err := j.Sync(2); err == nil {
			f.Error("a journal that is broken synced")
		}
		if err := j.Close(snapshot.StatusCompleted); err == nil {
			f.Error("a journal that is broken was closed without an error")
		}
		_ = j.Close(snapshot.StatusCompleted)
		sn := f.load(name)
		f.equal(sn.Records, Records(1, 2), name)
		if sn.Status != snapshot.StatusInterrupted {
			f.Errorf("its status is %s, not interrupted", sn.Status)
		}
		f.must(f.open(name).Close(snapshot.StatusCompleted))
	}
}

func generations(f *fixture) {
	created := time.Time{}
	for generation := uint64(1); generation <= 4; generation++ {
		j := f.open("run")
		sn := j.Restored()
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
		f.must(j.Close(snapshot.StatusPaused))
	}
	if sn := f.load("run"); sn.Generation != 4 {
		f.Errorf("the generation after closing is %d, not 4", sn.Generation)
	}
}

func metadata(f *fixture) {
	m := snapshot.Metadata{Description: "daily", Pipeline: "report", Tags: []string{"a", "b"}, Custom: map[string]string{"k": "v"}}
	want := m.Clone()
	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Metadata: m, ParentID: "parent"})
	f.must(err)
	m.Tags[0], m.Custom["k"] = "changed", "changed"
	f.must(j.Close(snapshot.StatusCompleted))
	other := snapshot.OpenOptions{Create: true, Metadata: snapshot.Metadata{Pipeline: "other"}, ParentID: "other"}
	j, err = f.store.Open(f.Context(), "run", other)
	f.must(err)
	f.must(j.Close(snapshot.StatusCompleted))
	all, err := f.store.List(f.Context(), snapshot.Filter{})
	f.must(err)
	for _, info := range []snapshot.Info{f.load("run").Info, j.Restored().Info, all[0]} {
		if info.ParentID != "parent" || !reflect.DeepEqual(info.Metadata, want) {
			f.Errorf("the parent is %q, the metadata %+v, not %+v", info.ParentID, info.Metadata, want)
		}
	}
}

func retryLevels(f *fixture) {
	level := snapshot.RetryLevel{MaxAttempts: 5, Backoff: "linear", InitialDelay: time.Second, Multiplier: 1.5, Jitter: -1, Functions: []string{"RetryOn"}}
	first, second := snapshot.RetryLevels{snapshot.AllCalls: level}, snapshot.RetryLevels{"llm_call": {Disabled: true, MaxAttempts: 1}}
	for _, opening := range []struct{ given, want snapshot.RetryLevels }{
		{first, first}, {nil, first}, {second, second}, {snapshot.RetryLevels{}, nil},
	} {
		j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Retry: opening.given.Clone()})
		f.must(err)
		while := f.load("run")
		f.must(j.Close(snapshot.StatusCompleted))
		all, err := f.store.List(f.Context(), snapshot.Filter{})
		f.must(err)
		for _, info := range []snapshot.Info{while.Info, f.load("run").Info, j.Restored().Info, all[0]} {
			if !reflect.DeepEqual(info.Retry, opening.want) {
				f.Errorf("opened with %+v, the levels are %+v, not %+v", opening.given, info.Retry, opening.want)
			}
		}
	}
}

func locked(f *fixture) {
	j := f.open("run")
	other := f.open("other") // which is none of its business
	_, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true})
	f.is(err, snapshot.ErrLocked, "Open")
	f.must(j.Append(Records(1, 1)...))
	f.must(j.Close(snapshot.StatusCompleted))
	f.must(other.Close(snapshot.StatusCompleted))
	f.must(f.open("run").Close(snapshot.StatusCompleted))
}

func waits(f *fixture) {
	j := f.open("run")
	const n = 4
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Wait: true})
			if err == nil {
				last := j.Restored().LastSeq
				err = errors.Join(j.Append(Records(last+1, 1)...), j.Close(snapshot.StatusCompleted))
			}
			if err != nil {
				f.Error(err)
			}
		})
	}
	f.must(j.Append(Records(1, 1)...))
	f.must(j.Close(snapshot.StatusCompleted))
	wait.Wait()
	sn := f.load("run")
	f.equal(sn.Records, Records(1, n+1), "run")
	if sn.Generation != n+1 {
		f.Errorf("the generation is %d, not %d", sn.Generation, n+1)
	}
}

func waitEnds(f *fixture) {
	j := f.open("run")
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := f.store.Open(ctx, "run", snapshot.OpenOptions{Wait: true})
	f.is(err, context.DeadlineExceeded, "Open")
	f.is(err, snapshot.ErrLocked, "Open")
	f.must(j.Close(snapshot.StatusCompleted))
}

func loadWhileWriting(f *fixture) {
	const n = 300
	want := Records(1, n)
	j := f.open("run")
	var (
		mu       sync.Mutex
		appended int
		wait     sync.WaitGroup
		done     = make(chan struct{})
	)
	for range 4 {
		wait.Go(func() {
			for last := 0; ; {
				mu.Lock()
				least := appended
				mu.Unlock()
				sn, err := f.store.Load(f.Context(), "run")
				if err != nil {
					f.Error(err)
					return
				}
				if len(sn.Records) < least || len(sn.Records) < last {
					f.Errorf("%d records are loaded; %d had been appended, %d loaded before", len(sn.Records), least, last)
					return
				}
				last = len(sn.Records)
				for i := range sn.Records {
					if sn.Records[i].Seq != want[i].Seq {
						f.Errorf("record %d has the number %d", i+1, sn.Records[i].Seq)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range want {
		if err := j.Append(want[i]); err != nil {
			f.Error(err)
			break
		}
		mu.Lock()
		appended++
		mu.Unlock()
	}
	close(done)
	wait.Wait()
	f.must(j.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, want, "run")
}

// lazily is for all stores: those that cannot leave records undecoded are
// helped out by package snapshot.
func lazily(f *fixture) {
	_, err := snapshot.LoadLazy(f.Context(), f.store, "none")
	f.is(err, snapshot.ErrNotFound, "LoadLazy")
	f.begin("run", 5, snapshot.StatusPaused)
	j := f.open("run")
	f.must(j.Append(Records(6, 3)...))
	f.sameLazily(snapshot.RestoredLazy(j), j.Restored())
	loaded, err := snapshot.LoadLazy(f.Context(), f.store, "run")
	f.must(err)
	f.sameLazily(loaded, f.load("run"))
	f.must(j.Append(Records(9, 1)...))
	if loaded.Len() != 8 {
		f.Errorf("it has %d records now, not 8", loaded.Len())
	}
	f.must(j.Close(snapshot.StatusCompleted))
	f.equalRecords(loaded, Records(1, 8), "run")
	_, err = loaded.Record(9)
	if _, zero := loaded.Record(0); err == nil || zero == nil {
		f.Error("there are records 0 and 9 of 8")
	}
}

func (f *fixture) sameLazily(l *snapshot.Lazy, want *snapshot.Snapshot) {
	f.Helper()
	if !reflect.DeepEqual(l.Info, want.Info) {
		f.Errorf("what is known of it is\n%+v, not\n%+v", l.Info, want.Info)
	}
	f.equalRecords(l, want.Records, want.RunID)
	decoded, err := l.Snapshot()
	f.must(err)
	f.equal(decoded.Records, want.Records, want.RunID)
}

func (f *fixture) equalRecords(l *snapshot.Lazy, want []core.Record, runID string) {
	f.Helper()
	got := make([]core.Record, l.Len())
	for i := range got {
		var err error
		got[i], err = l.Record(uint64(i) + 1)
		f.must(err)
	}
	f.equal(got, want, runID)
	for head, err := range l.Heads() {
		f.must(err)
		w := want[head.Seq-1]
		w.RunID, w.Err, w.Detail = runID, nil, nil
		if !reflect.DeepEqual(head.Record, w) { //nolint:govet // deepequalerrors: none of them has an error
			f.Errorf("the head of record %d is\n%+v, not\n%+v", head.Seq, head.Record, w)
		}
	}
}

func loadedIsACopy(f *fixture) {
	j := f.open("run")
	f.must(j.Append(Records(1, 2)...))
	sn := f.load("run")
	f.must(j.Append(Records(3, 2)...))
	f.equal(sn.Records, Records(1, 2), "run")
	_ = append(sn.Records, Records(9, 1)...)
	sn.Records[0].Name = "changed"
	f.must(j.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 4), "run")
}

func closed(f *fixture) {
	j := f.open("run")
	f.must(j.Append(Records(1, 1)...))
	f.must(j.Close(snapshot.StatusCompleted))
	f.is(j.Append(Records(2, 1)...), snapshot.ErrClosed, "Append")
	next := f.open("run")
	f.is(j.Append(Records(2, 1)...), snapshot.ErrClosed, "Append, with the run open again")
	f.must(next.Append(Records(2, 1)...))
	f.must(next.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 2), "run")
}

func closeTwice(f *fixture) {
	j := f.open("run")
	f.must(j.Close(snapshot.StatusPaused))
	f.must(j.Close(snapshot.StatusFailed))
	if sn := f.load("run"); sn.Status != snapshot.StatusPaused {
		f.Errorf("the status is %s, not paused", sn.Status)
	}
	next := f.open("run")
	f.must(j.Close(snapshot.StatusFailed))
	_, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{})
	f.is(err, snapshot.ErrLocked, "Open, after an older journal was closed again")
	f.must(next.Close(snapshot.StatusCompleted))
}

func statuses(f *fixture) {
	for _, status := range []snapshot.Status{
		snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusFailed, snapshot.StatusCompleted,
	} {
		j := f.open("run")
		if sn := f.load("run"); sn.Status != snapshot.StatusRunning {
			f.Errorf("the status of an open run is %s", sn.Status)
		}
		f.must(j.Close(status))
		all, err := f.store.List(f.Context(), snapshot.Filter{})
		f.must(err)
		if sn := f.load("run"); sn.Status != status || all[0].Status != status {
			f.Errorf("the status is %s, listed %s, not %s", sn.Status, all[0].Status, status)
		}
	}
}

func list(f *fixture) {
	begin := func(id, pipeline string, status snapshot.Status, tags ...string) {
		m := snapshot.Metadata{Pipeline: pipeline, Tags: tags}
		j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true, Metadata: m})
		f.must(err)
		f.must(j.Append(Records(1, 3)...))
		f.must(j.Close(status))
	}
	begin("first", "report", snapshot.StatusCompleted, "daily", "eu")
	begin("second", "report", snapshot.StatusFailed, "daily")
	begin("third", "import", snapshot.StatusPaused)
	running := f.open("open")
	f.must(running.Append(Records(1, 1)...))

	all, err := f.store.List(f.Context(), snapshot.Filter{})
	f.must(err)
	if ids := f.list(snapshot.Filter{}); !slices.Equal(ids, []string{"open", "third", "second", "first"}) {
		f.Fatalf("listed are %v", ids)
	}
	for _, info := range all[1:] {
		if loaded := f.load(info.RunID).Info; !reflect.DeepEqual(info, loaded) {
			f.Errorf("listed is %+v, loaded %+v", info, loaded)
		}
	}
	for name, test := range map[string]struct {
		filter snapshot.Filter
		want   []string
	}{
		"status":   {snapshot.Filter{Status: []snapshot.Status{snapshot.StatusFailed, snapshot.StatusPaused}}, []string{"third", "second"}},
		"running":  {snapshot.Filter{Status: []snapshot.Status{snapshot.StatusRunning}}, []string{"open"}},
		"tag":      {snapshot.Filter{Tags: []string{"daily"}}, []string{"second", "first"}},
		"tags":     {snapshot.Filter{Tags: []string{"eu", "daily"}}, []string{"first"}},
		"pipeline": {snapshot.Filter{Pipeline: "import"}, []string{"third"}},
		"since":    {snapshot.Filter{Since: all[2].Updated}, []string{"open", "third", "second"}},
		"until":    {snapshot.Filter{Until: all[2].Updated}, []string{"first"}},
		"limit":    {snapshot.Filter{Limit: 2}, []string{"open", "third"}},
		"both":     {snapshot.Filter{Tags: []string{"daily"}, Limit: 1}, []string{"second"}},
		"nothing":  {snapshot.Filter{Pipeline: "none"}, []string{}},
	} {
		if ids := f.list(test.filter); !slices.Equal(ids, test.want) {
			f.Errorf("%s: listed are %v, not %v", name, ids, test.want)
		}
	}
	f.must(running.Close(snapshot.StatusCompleted))
}

func deletes(f *fixture) {
	f.begin("run", 3, snapshot.StatusCompleted)
	f.begin("other", 2, snapshot.StatusCompleted)
	f.must(f.store.Delete(f.Context(), "run"))
	f.is(f.store.Delete(f.Context(), "run"), snapshot.ErrNotFound, "Delete again")
	_, err := f.store.Load(f.Context(), "run")
	f.is(err, snapshot.ErrNotFound, "Load")
	if ids := f.list(snapshot.Filter{}); !slices.Equal(ids, []string{"other"}) {
		f.Errorf("listed are %v", ids)
	}
	j := f.open("run")
	if sn := j.Restored(); sn.Generation != 1 || len(sn.Records) > 0 {
		f.Errorf("a run that is begun again is %+v", sn)
	}
	f.must(j.Close(snapshot.StatusCompleted))
}

func deleteOpen(f *fixture) {
	j := f.open("run")
	f.is(f.store.Delete(f.Context(), "run"), snapshot.ErrLocked, "Delete")
	f.must(j.Append(Records(1, 1)...))
	f.must(j.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 1), "run")
	f.must(f.store.Delete(f.Context(), "run"))
}

func manyRuns(f *fixture) {
	const runs = 20
	var wait sync.WaitGroup
	for n := range runs {
		wait.Go(func() {
			id := fmt.Sprintf("run-%d", n)
			j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true})
			if err == nil {
				err = errors.Join(j.Append(Records(1, n+1)...), j.Sync(uint64(n)+1), j.Close(snapshot.StatusCompleted))
			}
			if err != nil {
				f.Error(err)
			}
		})
	}
	wait.Wait()
	if ids := f.list(snapshot.Filter{}); len(ids) != runs {
		f.Errorf("%d runs are listed, not %d", len(ids), runs)
	}
	for n := range runs {
		id := fmt.Sprintf("run-%d", n)
		f.equal(f.load(id).Records, Records(1, n+1), id)
	}
}

func manySync(f *fixture) {
	const goroutines, each = 16, 20
	j := f.open("run")
	var (
		mu   sync.Mutex
		last uint64
		wait sync.WaitGroup
	)
	for range goroutines {
		wait.Go(func() {
			for range each {
				mu.Lock()
				last++
				seq := last
				err := j.Append(Records(seq, 1)...)
				mu.Unlock()
				if err := errors.Join(err, j.Sync(seq)); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	f.must(j.Sync(0))
	f.must(j.Close(snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, goroutines*each), "run")
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
