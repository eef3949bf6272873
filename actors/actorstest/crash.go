package actorstest

import (
	"context"
	"iter"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// AfterEachRecord simulates processes that are killed right after the first record of a run, right
// after the second, and so on up to the last. For each of them, AfterEachRecord yields the records
// so far and a new in-memory store that contains the run, from which state.Open or a runner can
// continue it. The original run may have any status, but it must not be open; it is not changed. If
// there is an error, it is reported to t and the sequence ends.
//
// If a call has ended according to [Endings], the continued run must reuse its output instead of
// producing it again. A call that has begun but not ended may or may not have had its effect, since
// the process could have ended before or after it. By default, such a call is made again with the
// same idempotency key; if its actor was made with actors.WithIrreversible, a person is asked
// instead. The store does not contain answers and signals that are not yet in the records.
//
// A [Script] always begins with its first step, so an agent that continues a run needs another
// model: one that derives its answer from the request.
func AfterEachRecord(t T, store snapshot.Store, runID string) iter.Seq2[[]record.Record, *memstore.Store] {
	return func(yield func([]record.Record, *memstore.Store) bool) {
		t.Helper()
		ctx := context.Background()
		run, err := store.Load(ctx, runID)
		if err != nil {
			t.Errorf("actorstest: AfterEachRecord: %v", err)
			return
		}
		whole, err := run.Snapshot()
		if err != nil {
			t.Errorf("actorstest: AfterEachRecord: %v", err)
			return
		}
		for n := range whole.Records {
			records := whole.Records[: n+1 : n+1]
			left, err := crashed(ctx, store, &whole.Info, records)
			if err != nil {
				t.Errorf("actorstest: AfterEachRecord: after record %d: %v", n+1, err)
				return
			}
			if !yield(records, left) {
				return
			}
		}
	}
}

// crashed returns a store with a run that contains only the given records, as if the run's process
// had died without closing it.
func crashed(ctx context.Context, store snapshot.Store, info *snapshot.Info, records []record.Record) (*memstore.Store, error) {
	left := memstore.New()
	for i := range records {
		for reference := range records[i].Artifacts() {
			data, err := store.Get(ctx, reference)
			if err != nil {
				return nil, err
			}
			if _, err := left.Put(ctx, data); err != nil {
				return nil, err
			}
		}
	}
	// The other fields of the info are written when a run is closed, or describe what
	// happened later.
	run, err := (&snapshot.Snapshot{Info: snapshot.Info{
		RunID: info.RunID, ParentID: info.ParentID, Status: snapshot.StatusRunning,
		Metadata: info.Metadata, Retry: info.Retry, Created: info.Created,
		Generation: records[len(records)-1].Generation,
		Program:    info.Program, Version: info.Version, Priority: info.Priority,
	}, Records: records}).Run()
	if err != nil {
		return nil, err
	}
	_, err = left.Create(ctx, run)
	return left, err
}
