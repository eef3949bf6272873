package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot"
)

// RunFencing checks a store whose processes may lose their open runs although the processes are
// still alive, for example when a lease expires. Each of its tests calls open once. The function
// open must return two stores that share the same, initially empty data, as if two processes had
// opened one store. It must also return a function that takes the open runs away from the first
// process without the process noticing.
func RunFencing(t *testing.T, open func(t *testing.T) (first, second snapshot.Store, takeAway func())) {
	for _, test := range []struct {
		name string
		run  func(first, second *fixture, takeAway func())
	}{
		{"WhatWasConfirmedIsThereAndNothingComesAfterIt", fencedAmidAppends},
		{"OneThatWasFencedChangesNothing", fencedChangesNothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			first, second, takeAway := open(t)
			test.run(&fixture{T: t, store: first}, &fixture{T: t, store: second}, takeAway)
		})
	}
}

// isLost reports whether err means that the journal may no longer own the run.
func isLost(err error) bool {
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrMaybeStored) || errors.Is(err, snapshot.ErrLease)
}

// requireLost checks that err reports that a journal may no longer own its run.
func (f *fixture) requireLost(err error, what string) {
	f.Helper()
	if !isLost(err) {
		f.Errorf("%s of a fenced process: got %v; want ErrFenced, ErrMaybeStored or ErrLease", what, err)
	}
}

func fencedAmidAppends(first, second *fixture, takeAway func()) {
	j := first.open("run")
	confirmed := uint64(0)
	some, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	var wait sync.WaitGroup
	wait.Go(func() {
		for seq := uint64(1); ; seq++ {
			err := j.Append(Records(seq, 1)...)
			if err == nil {
				err = j.Sync(first.Context(), seq)
			}
			if err != nil {
				once.Do(func() { close(some) })
				ended <- err
				return
			}
			confirmed = seq
			if seq == 5 {
				once.Do(func() { close(some) })
			}
		}
	})
	<-some
	takeAway()
	next := second.open("run")
	n := uint64(next.Restored().Len())
	second.must(next.Append(Records(n+1, 5)...))
	second.must(next.Sync(second.Context(), n+5))
	wait.Wait()
	first.requireLost(<-ended, "Append or Sync")
	if confirmed > n {
		first.Errorf("records up to %d were confirmed, but the next process found only %d", confirmed, n)
	}
	first.requireLost(closeAs(j, snapshot.StatusCompleted), "Close")
	second.must(closeAs(next, snapshot.StatusPaused))
	second.equal(second.load("run").Records, Records(1, int(n)+5), "run")
}

func fencedChangesNothing(first, second *fixture, takeAway func()) {
	j := first.open("run")
	first.must(j.Append(Records(1, 3)...))
	first.must(j.Sync(first.Context(), 3))
	takeAway()
	next := second.open("run")
	second.must(next.Append(Records(4, 1)...))
	second.must(next.Sync(second.Context(), 4))
	err := j.Append(Records(4, 2)...)
	if err == nil {
		err = j.Sync(first.Context(), 5)
	}
	first.requireLost(err, "Append or Sync")
	if j.Lost() == nil {
		first.Error("Lost returns nil, although the process can lose the run")
	} else {
		<-j.Lost()
	}
	first.requireLost(j.Append(Records(6, 1)...), "Append")
	first.requireLost(closeAs(j, snapshot.StatusCompleted), "Close")
	if info := second.info("run"); !info.Open || info.Status != snapshot.StatusRunning || info.Generation != 2 {
		second.Errorf("after Close of a fenced process, the run is %+v", info)
	}
	second.must(closeAs(next, snapshot.StatusPaused))
	if loaded := second.load("run"); loaded.Status != snapshot.StatusPaused {
		second.Errorf("the run is %s, not paused", loaded.Status)
	} else {
		second.equal(loaded.Records, Records(1, 4), "run")
	}
}
