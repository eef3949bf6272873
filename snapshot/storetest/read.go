package storetest

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/reprise-go/reprise/snapshot"
)

// These tests read runs while they are being written.

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
				run, err := f.store.Load(f.Context(), "run")
				var sn *snapshot.Snapshot
				if err == nil {
					sn, err = run.Snapshot()
				}
				if err != nil {
					f.Error(err)
					return
				}
				if len(sn.Records) < least || len(sn.Records) < last {
					f.Errorf("%d records are loaded; before that, %d were appended and %d loaded", len(sn.Records), least, last)
					return
				}
				last = len(sn.Records)
				for i := range sn.Records {
					if sn.Records[i].Seq != want[i].Seq {
						f.Errorf("record number %d of the run has the sequence number %d", i+1, sn.Records[i].Seq)
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
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, want, "run")
}

func loadedIsACopy(f *fixture) {
	j := f.open("run")
	f.must(j.Append(Records(1, 2)...))
	sn := f.load("run")
	f.must(j.Append(Records(3, 2)...))
	f.equal(sn.Records, Records(1, 2), "run")
	_ = append(sn.Records, Records(9, 1)...)
	sn.Records[0].Name = "changed"
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 4), "run")
}

func list(f *fixture) {
	begin := func(id, pipeline string, status snapshot.Status, tags ...string) {
		m := snapshot.Metadata{Pipeline: pipeline, Tags: tags}
		j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true, Metadata: m})
		f.must(err)
		f.must(j.Append(Records(1, 3)...))
		f.must(closeAs(j, status))
	}
	begin("first", "report", snapshot.StatusCompleted, "daily", "eu")
	begin("second", "report", snapshot.StatusFailed, "daily")
	begin("third", "import", snapshot.StatusPaused)
	running := f.open("open")
	f.must(running.Append(Records(1, 1)...))

	all := f.infos(snapshot.Filter{})
	if ids := f.list(snapshot.Filter{}); !slices.Equal(ids, []string{"open", "third", "second", "first"}) {
		f.Fatalf("List returned %v", ids)
	}
	for _, info := range all[1:] {
		if loaded := f.load(info.RunID).Info; !reflect.DeepEqual(info, loaded) {
			f.Errorf("the listed info is %+v, the loaded one %+v", info, loaded)
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
			f.Errorf("%s: List returned %v, want %v", name, ids, test.want)
		}
	}
	f.must(closeAs(running, snapshot.StatusCompleted))
}

// recordsAfter reads the records that follow various record numbers while the run is being written.
func recordsAfter(f *fixture) {
	const n = 300
	want := Records(1, n)
	j := f.open("run")
	var (
		mu       sync.Mutex
		appended int
		wait     sync.WaitGroup
		done     = make(chan struct{})
	)
	for reader := range 4 {
		wait.Go(func() {
			for after := reader; ; after = (after + 37) % (n + 10) {
				mu.Lock()
				least := appended
				mu.Unlock()
				last := after
				for rec, err := range f.store.Records(f.Context(), "run", uint64(after)) {
					if err != nil || rec.Seq != uint64(last+1) || rec.Address != want[last].Address || rec.RunID != "run" {
						f.Errorf("after record %d: got record %d of run %q, %v", last, rec.Seq, rec.RunID, err)
						return
					}
					last++
				}
				if last < least {
					f.Errorf("the records after %d end with %d, although %d were appended", after, last, least)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for at := 0; at < n; at += 3 {
		f.must(j.Append(want[at : at+3]...))
		mu.Lock()
		appended = at + 3
		mu.Unlock()
	}
	close(done)
	wait.Wait()
	f.must(closeAs(j, snapshot.StatusCompleted))
	for _, after := range []uint64{0, 1, 150, n - 1, n, n + 1, math.MaxUint64} {
		whole, last := f.load("run").Records, min(after, n)
		for rec, err := range f.store.Records(f.Context(), "run", after) {
			f.must(err)
			got, err := snapshot.AppendRecord(nil, &rec)
			f.must(err)
			want, err := snapshot.AppendRecord(nil, &whole[last])
			f.must(err)
			if last++; !bytes.Equal(got, want) {
				f.Errorf("after record %d came record %d, which differs from the one in the run", after, rec.Seq)
			}
		}
		if last != n {
			f.Errorf("the records after %d end with %d, want %d", after, last, n)
		}
	}
	for rec, err := range f.store.Records(f.Context(), "run", 7) {
		if err != nil || rec.Seq != 8 {
			f.Errorf("after record 7: got record %d, %v", rec.Seq, err)
		}
		break
	}
	for _, id := range []string{"none", "../run"} {
		count := 0
		for _, err := range f.store.Records(f.Context(), id, 0) {
			if count++; err == nil || id == "none" && !errors.Is(err, snapshot.ErrNotFound) {
				f.Errorf("run %s: %v", id, err)
			}
		}
		if count != 1 {
			f.Errorf("run %s: %d errors", id, count)
		}
	}
}
