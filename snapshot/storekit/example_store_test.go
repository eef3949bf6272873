package storekit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A table keeps two values of each run, as a database may. The methods that it
// lacks are those of the interface: package storetest checks them all.
type table struct {
	snapshot.Store

	mu      sync.Mutex
	infos   map[string][]byte // see snapshot.AppendInfo
	records map[string][]byte // see snapshot.AppendRecord, one after the other
	open    map[string]bool   // a store of many processes has locks or leases
}

func (t *table) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if err := errors.Join(snapshot.CheckRunID(runID), context.Cause(ctx)); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.load(runID)
}

// load makes a run of what is encoded. The lock is held.
func (t *table) load(runID string) (*snapshot.Run, error) {
	if t.infos[runID] == nil {
		return nil, fmt.Errorf("%w: run %s", snapshot.ErrNotFound, runID)
	}
	info, err := snapshot.DecodeInfo(t.infos[runID])
	if err != nil {
		return nil, err
	}
	info.Open = t.open[runID] // it is not encoded
	if info.Status == snapshot.StatusRunning && !info.Open {
		info = storekit.Crashed(info)
	}
	run, err := snapshot.NewRun(info, nil)
	if err == nil {
		run, _, err = run.Extend(t.records[runID])
	}
	return run, err
}

func (t *table) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if err := errors.Join(snapshot.CheckRunID(runID), context.Cause(ctx)); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	run, err := t.load(runID)
	if o.Create && errors.Is(err, snapshot.ErrNotFound) {
		run, err = snapshot.NewRun(storekit.Begun(runID, &o), nil)
	}
	if err != nil {
		return nil, err
	}
	if run.Open { // with o.Wait, wait for it until ctx ends
		return nil, &snapshot.LockedError{RunID: runID, Owner: run.Owner}
	}
	restored, now, err := storekit.Opened(run.Info, &o)
	if err != nil {
		return nil, err
	}
	if t.infos[runID], err = snapshot.AppendInfo(nil, &now); err != nil {
		return nil, err
	}
	t.open[runID] = true
	run.Info = restored
	return &tableJournal{table: t, restored: run, last: run.LastSeq, notify: make(chan struct{}, 1)}, nil
}

type tableJournal struct {
	table    *table
	restored *snapshot.Run
	last     uint64
	notify   chan struct{} // Post sends to it
	err      error         // what broke the journal, or snapshot.ErrClosed
	closeErr error
}

func (j *tableJournal) Restored() *snapshot.Run { return j.restored }
func (j *tableJournal) Notify() <-chan struct{} { return j.notify }
func (j *tableJournal) Lost() <-chan struct{}   { return nil }

func (j *tableJournal) Append(records ...record.Record) error {
	j.table.mu.Lock()
	defer j.table.mu.Unlock()
	if j.err != nil || len(records) == 0 {
		return j.err
	}
	id, last := j.restored.RunID, j.last
	all := j.table.records[id]
	for i := range records {
		if last++; records[i].Seq != last {
			j.err = fmt.Errorf("run %s: got record %d, want record %d", id, records[i].Seq, last)
			return j.err
		}
		if all, j.err = snapshot.AppendRecord(all, &records[i]); j.err != nil {
			return j.err
		}
	}
	j.table.records[id], j.last = all, last
	return nil
}

// Sync has nothing to do: in memory, all is as durable as it gets.
func (j *tableJournal) Sync(context.Context, uint64) error {
	j.table.mu.Lock()
	defer j.table.mu.Unlock()
	if errors.Is(j.err, snapshot.ErrClosed) {
		return j.closeErr
	}
	return j.err
}

func (j *tableJournal) Close(_ context.Context, end snapshot.End) error {
	j.table.mu.Lock()
	defer j.table.mu.Unlock()
	if errors.Is(j.err, snapshot.ErrClosed) {
		return j.closeErr
	}
	if j.err != nil {
		end.Status, end.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptStore}
	}
	id := j.restored.RunID
	now, err := snapshot.DecodeInfo(j.table.infos[id]) // with what Update has changed
	if err == nil {
		now = storekit.Closed(now, end)
		j.table.infos[id], err = snapshot.AppendInfo(nil, &now)
	}
	delete(j.table.open, id)
	j.closeErr, j.err = errors.Join(j.err, err), snapshot.ErrClosed
	return j.closeErr
}

// Writing a store: what is kept of a run, how it is opened, appended to, closed
// and loaded.
func Example_writingAStore() {
	ctx := context.Background()
	s := &table{infos: make(map[string][]byte), records: make(map[string][]byte), open: make(map[string]bool)}
	var store snapshot.Store = s

	j, err := store.Open(ctx, "weather-42", snapshot.OpenOptions{Create: true})
	if err == nil {
		err = j.Append(storetest.Records(1, 3)...)
	}
	fmt.Println(err)
	delete(s.open, "weather-42") // as if the process was killed

	j, err = store.Open(ctx, "weather-42", snapshot.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	restored := j.Restored()
	fmt.Println(restored.Status, restored.Stop, restored.Generation, restored.Len())
	fmt.Println(j.Append(storetest.Records(4, 2)...))
	_, err = store.Open(ctx, "weather-42", snapshot.OpenOptions{})
	fmt.Println(err)
	fmt.Println(j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted}))

	run, err := store.Load(ctx, "weather-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Status, run.Generation, run.LastSeq)
	// Output:
	// <nil>
	// interrupted crash 2 3
	// <nil>
	// snapshot: run weather-42 is open for writing elsewhere
	// <nil>
	// completed 2 5
}
