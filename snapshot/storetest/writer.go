package storetest

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// These tests check that a run has one writer until it is closed.

func locked(f *fixture) {
	j := f.open("run")
	other := f.open("other") // the lock of another run has no effect
	_, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true})
	f.is(err, snapshot.ErrLocked, "Open")
	f.must(j.Append(Records(1, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.must(closeAs(other, snapshot.StatusCompleted))
	f.must(closeAs(f.open("run"), snapshot.StatusCompleted))
}

func waitsForClose(f *fixture) {
	j := f.open("run")
	const n = 4
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Wait: true})
			if err == nil {
				last := j.Restored().LastSeq
				err = errors.Join(j.Append(Records(last+1, 1)...), closeAs(j, snapshot.StatusCompleted))
			}
			if err != nil {
				f.Error(err)
			}
		})
	}
	f.must(j.Append(Records(1, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	wait.Wait()
	sn := f.load("run")
	f.equal(sn.Records, Records(1, n+1), "run")
	if sn.Generation != n+1 {
		f.Errorf("the generation is %d, want %d", sn.Generation, n+1)
	}
}

func waitEnds(f *fixture) {
	j := f.open("run")
	open := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(f.Context(), timeout)
		defer cancel()
		_, err := f.store.Open(ctx, "run", snapshot.OpenOptions{Wait: true})
		return err
	}
	timeout := 20 * time.Millisecond
	err := open(timeout)
	for !errors.Is(err, snapshot.ErrLocked) && timeout < time.Second { // a server may not have answered yet
		timeout *= 5
		err = open(timeout)
	}
	f.is(err, context.DeadlineExceeded, "Open")
	f.is(err, snapshot.ErrLocked, "Open")
	f.must(closeAs(j, snapshot.StatusCompleted))
}

func closed(f *fixture) {
	j := f.open("run")
	f.must(j.Append(Records(1, 1)...))
	f.must(closeAs(j, snapshot.StatusCompleted))
	f.is(j.Append(Records(2, 1)...), snapshot.ErrClosed, "Append")
	next := f.open("run")
	f.is(j.Append(Records(2, 1)...), snapshot.ErrClosed, "Append, with the run open again")
	f.must(next.Append(Records(2, 1)...))
	f.must(closeAs(next, snapshot.StatusCompleted))
	f.equal(f.load("run").Records, Records(1, 2), "run")
}

func syncs(f *fixture) {
	j := f.open("run")
	f.must(j.Append(Records(1, 3)...))
	ctx, cancel := context.WithTimeout(f.Context(), 10*time.Second)
	defer cancel()
	sync := func(when string) {
		f.Helper()
		for _, seq := range []uint64{0, 2, 3, 4, math.MaxUint64} {
			if err := j.Sync(ctx, seq); err != nil {
				f.Errorf("%s, with records up to 3, Sync(%d): the error is %v", when, seq, err)
			}
		}
	}
	sync("open")
	f.must(closeAs(j, snapshot.StatusPaused))
	sync("closed")
	next := f.open("run")
	f.must(next.Append(Records(4, 1)...))
	sync("open again")
	f.must(closeAs(next, snapshot.StatusCompleted))
}

func closeTwice(f *fixture) {
	j := f.open("run")
	f.must(closeAs(j, snapshot.StatusPaused))
	f.must(closeAs(j, snapshot.StatusFailed))
	if sn := f.load("run"); sn.Status != snapshot.StatusPaused {
		f.Errorf("the status is %s, want paused", sn.Status)
	}
	next := f.open("run")
	f.must(closeAs(j, snapshot.StatusFailed))
	_, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{})
	f.is(err, snapshot.ErrLocked, "Open, after an older journal was closed again")
	f.must(closeAs(next, snapshot.StatusCompleted))
}

func statuses(f *fixture) {
	for _, status := range []snapshot.Status{
		snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusFailed, snapshot.StatusCompleted,
	} {
		j := f.open("run")
		if sn := f.load("run"); sn.Status != snapshot.StatusRunning {
			f.Errorf("the status of an open run is %s", sn.Status)
		}
		f.must(closeAs(j, status))
		all := f.infos(snapshot.Filter{})
		if sn := f.load("run"); sn.Status != status || all[0].Status != status {
			f.Errorf("the status is %s, in the list %s, want %s", sn.Status, all[0].Status, status)
		}
	}
}
