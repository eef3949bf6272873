package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Run checks a store. Each of its tests calls open once to obtain an empty store.
func Run(t *testing.T, open func(t *testing.T) snapshot.Store) {
	for _, test := range slices.Concat(tests, inboxTests, createTests, updateTests, listTests, followTests) {
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
	{"AnInvalidRunIDIsRefused", badRunIDs},
	{"AResumedRunHasAllThatWasAppended", resumed},
	{"EveryFieldOfARecordComesBack", fields},
	{"RecordsAppendedTogetherKeepTheirOrder", order},
	{"ARecordOutOfOrderBreaksTheJournal", outOfOrder},
	{"EveryOpeningIsAGeneration", generations},
	{"ARunThatIsRefusedByItsCheckIsNotOpened", refusedByCheck},
	{"MetadataIsThatOfTheBeginning", metadata},
	{"MetadataThatNoReaderTakesIsRefused", hugeMetadata},
	{"RetryLevelsAreThoseOfTheLastOpeningThatHasSome", retryLevels},
	{"ARunHasOneWriter", locked},
	{"OneWhoWaitsGetsTheRunWhenItIsClosed", waitsForClose},
	{"WaitingEndsWithItsContext", waitEnds},
	{"ARunCanBeLoadedWhileItIsWritten", loadWhileWriting},
	{"TheRecordsAfterOneAreReadWhileTheyAreWritten", recordsAfter},
	{"WhatIsLoadedDoesNotChange", loadedIsACopy},
	{"SyncReturnsAlsoAfterTheEnd", syncs},
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

// A fixture is a running test and the store that it checks.
type fixture struct {
	*testing.T
	store snapshot.Store
}

// open opens a run. It creates the run if it does not exist.
func (f *fixture) open(runID string) snapshot.Journal {
	f.Helper()
	j, err := f.store.Open(f.Context(), runID, snapshot.OpenOptions{Create: true})
	f.must(err)
	return j
}

// begin opens a run, appends n records, and closes the run.
func (f *fixture) begin(runID string, n int, status snapshot.Status) {
	f.Helper()
	j := f.open(runID)
	f.must(j.Append(Records(1, n)...))
	f.must(closeAs(j, status))
}

func (f *fixture) load(runID string) *snapshot.Snapshot {
	f.Helper()
	run, err := f.store.Load(f.Context(), runID)
	f.must(err)
	return f.decode(run)
}

func (f *fixture) decode(run *snapshot.Run) *snapshot.Snapshot {
	f.Helper()
	sn, err := run.Snapshot()
	f.must(err)
	return sn
}

// closeAs closes a journal with a status.
func closeAs(j snapshot.Journal, status snapshot.Status) error {
	return j.Close(context.Background(), snapshot.End{Status: status})
}

func (f *fixture) list(filter snapshot.Filter) []string {
	f.Helper()
	ids := []string{}
	for _, info := range f.infos(filter) {
		ids = append(ids, info.RunID)
	}
	return ids
}

func (f *fixture) infos(filter snapshot.Filter) []snapshot.Info {
	f.Helper()
	page, err := f.store.List(f.Context(), filter)
	f.must(err)
	return page.Runs
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
		f.Errorf("%s: the error is %v, want %v", doing, err, want)
	}
}

// equal requires that the records equal those in want, with RunID set to runID.
func (f *fixture) equal(got, want []record.Record, runID string) {
	f.Helper()
	if len(got) != len(want) {
		f.Fatalf("there are %d records, want %d", len(got), len(want))
	}
	for i := range got {
		w := want[i]
		w.RunID = runID
		if !reflect.DeepEqual(got[i], w) { //nolint:govet // deepequalerrors: none of them has an error
			f.Fatalf("record %d is\n%+v, want\n%+v", i+1, got[i], w)
		}
	}
}

// Records returns n records with consecutive numbers, beginning with first.
func Records(first uint64, n int) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		seq := first + uint64(i)
		address, _ := record.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", seq+1))
		r := &records[i]
		*r = record.Record{
			Seq: seq, Time: time.Unix(1_700_000_000+int64(seq), int64(seq)).UTC(),
			Address: address, Name: "get_weather", Kind: record.KindTool, Status: record.StatusStarted, MaxAttempts: 3,
		}
		if seq%2 == 0 {
			r.Status, r.Duration, r.Elapsed = record.StatusCompleted, time.Duration(seq)*time.Millisecond, time.Second
			r.Detail = &record.Detail{Output: fmt.Appendf(nil, "the output of call %d", seq)}
		}
	}
	return records
}
