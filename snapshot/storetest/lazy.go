package storetest

import (
	"reflect"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

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
