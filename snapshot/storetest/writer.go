package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A run has one writer, until it is closed.

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
