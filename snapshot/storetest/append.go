package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// These tests check that appended records are read back unchanged.

func resumed(f *fixture) {
	want := Records(1, 7)
	j := f.open("run")
	f.must(j.Append(want[0]))
	f.must(j.Append(want[1], want[2], want[3]))
	f.must(j.Append())
	f.must(closeAs(j, snapshot.StatusInterrupted))

	j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{})
	f.must(err)
	f.equal(f.decode(j.Restored()).Records, want[:4], "run")
	if sn := f.decode(j.Restored()); sn.LastSeq != 4 || sn.Status != snapshot.StatusInterrupted {
		f.Errorf("the last record is %d and the status %s; want 4 and interrupted", sn.LastSeq, sn.Status)
	}
	f.must(j.Append(want[4:]...))
	f.must(j.Sync(context.Background(), 7))
	f.must(closeAs(j, snapshot.StatusCompleted))

	sn := f.load("run")
	f.equal(sn.Records, want, "run")
	if sn.LastSeq != 7 {
		f.Errorf("the last record is %d, want 7", sn.LastSeq)
	}
}

func fields(f *fixture) {
	address, err := record.ParseAddress("assistant@2/step:collect")
	f.must(err)
	full := record.Record{
		Seq: 1, Time: time.Unix(1_700_000_000, 123_456_789).UTC(), Address: address, Name: "collect",
		Kind: record.KindTool, Status: record.StatusFailed, Reason: record.ReasonExhausted, Stage: record.StageHandler,
		Class: record.ClassRateLimit, DelaySource: record.SourceServer, Attempt: 2, MaxAttempts: 5, WillRetry: true,
		Duration: time.Millisecond, Elapsed: time.Second, Delay: time.Minute,
		Detail: &record.Detail{
			InputHash: record.Hash{1, 2, 3}, WholeInput: record.Hash{4, 5, 6}, Input: []byte("in"), Output: []byte{0, 255}, Artifact: "abc",
			Usage: record.Usage{InputTokens: 1, OutputTokens: 2, Cost: 0.5}, Message: "größe", Severity: slog.LevelWarn,
			Metadata: map[string]any{"key": "value", "yes": true},
		},
	}
	failed := Records(2, 1)[0]
	failed.Err = errors.New("no answer")
	j := f.open("run")
	f.must(j.Append(full, failed))
	f.must(closeAs(j, snapshot.StatusFailed))
	got := f.load("run").Records
	if len(got) != 2 || got[1].Err == nil || got[1].Err.Error() != "no answer" {
		f.Fatalf("the error did not come back: %+v", got)
	}
	got[1].Err, failed.Err = nil, nil
	f.equal(got, []record.Record{full, failed}, "run")
}

func order(f *fixture) {
	want := Records(1, 200)
	j := f.open("run")
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 1+len(rest)%5)
		f.must(j.Append(rest[:n]...))
		rest = rest[n:]
	}
	f.must(closeAs(j, snapshot.StatusCompleted))
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
			f.Error("a broken journal appended a record")
		}
		if err := j.Sync(context.Background(), 2); err == nil {
			f.Error("a broken journal synced")
		}
		if err := closeAs(j, snapshot.StatusCompleted); err == nil {
			f.Error("a broken journal was closed without an error")
		}
		_ = closeAs(j, snapshot.StatusCompleted)
		sn := f.load(name)
		f.equal(sn.Records, Records(1, 2), name)
		if sn.Status != snapshot.StatusInterrupted {
			f.Errorf("the status is %s, want interrupted", sn.Status)
		}
		f.must(closeAs(f.open(name), snapshot.StatusCompleted))
	}
}

func manyRuns(f *fixture) {
	const runs = 20
	var wait sync.WaitGroup
	for n := range runs {
		wait.Go(func() {
			id := fmt.Sprintf("run-%d", n)
			j, err := f.store.Open(f.Context(), id, snapshot.OpenOptions{Create: true})
			if err == nil {
				err = errors.Join(j.Append(Records(1, n+1)...), j.Sync(context.Background(), uint64(n)+1), closeAs(j, snapshot.StatusCompleted))
			}
			if err != nil {
				f.Error(err)
			}
		})
	}
	wait.Wait()
	if ids := f.list(snapshot.Filter{}); len(ids) != runs {
		f.Errorf("%d runs are listed, want %d", len(ids), runs)
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
				if err := errors.Join(err, j.Sync(context.Background(), seq)); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	f.must(j.Sync(f.Context(), 0))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, goroutines*each), "run")
}
