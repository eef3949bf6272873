package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/runner"
)

// patience is the longest time that something may take to become true. It is so long that a correct
// queue never needs it.
const patience = 3 * time.Minute

// moment is how long a test waits before it concludes that a queue hands out nothing.
const moment = 200 * time.Millisecond

var program = runner.ProgramID{Name: "echo.v/1 größe", Version: "1.0"}

// Run checks a queue. Each of its tests calls open, which must return an empty queue.
func Run(t *testing.T, open func(t *testing.T) runner.Queue) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"AnEntryIsTakenOnce", takenOnce},
		{"AnEntryIsNotTakenBeforeItIsDue", notBeforeDue},
		{"WakeMakesAnEntryDue", wakes},
		{"AWakeIsNotLostWhileTheRunIsTaken", wakesTaken},
		{"AParkedRunComesWhenItIsDue", parks},
		{"OfManyTakersEachGetsOtherEntries", manyTakers},
		{"SeveralAreTakenTogether", severalTogether},
		{"TakeEndsWithItsContext", takeEnds},
		{"WhatWaitsIsCounted", counts},
		{"TheClockRuns", clockRuns},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(&fixture{t, open(t)}) })
	}
}

// RunOrdered checks that a queue hands out due entries in the order of their priorities, starting
// with the highest. open must return an empty queue.
func RunOrdered(t *testing.T, open func(t *testing.T) runner.Queue) {
	f := &fixture{t, open(t)}
	for i, priority := range []int{0, 5, -1, 3, 5, 0} {
		f.add(runner.QueueEntry{RunID: fmt.Sprint("run-", i), Program: program, Priority: priority, Due: time.Now()})
	}
	var got []int
	for range 6 {
		l := f.take()
		got = append(got, l.Entry().Priority)
		f.must(l.Done(f.Context()))
	}
	if want := []int{5, 5, 3, 0, 0, -1}; !slices.Equal(got, want) {
		f.Errorf("runs were taken with the priorities %v, want %v", got, want)
	}
}

// RunShared tests a queue that several processes share. Each of the tests calls open, which must
// create an empty queue and return a function. The test calls that function once for each process,
// to get the queue as that process sees it.
func RunShared(t *testing.T, open func(t *testing.T) (another func() runner.Queue)) {
	for _, test := range []struct {
		name string
		run  func(here, there *fixture)
	}{
		{"AnEntryIsTakenByOneProcess", takenByOne},
		{"AProcessTakesRunsOfItsProgramsAlone", ownPrograms},
		{"OneProcessWakesWhatAnotherHasAdded", wakesThere},
		{"WhatAnotherProcessHasTakenDoesNotWait", countsThere},
	} {
		t.Run(test.name, func(t *testing.T) {
			another := open(t)
			test.run(&fixture{t, another()}, &fixture{t, another()})
		})
	}
}

type fixture struct {
	*testing.T
	queue runner.Queue
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// add adds an entry for a run, which must not have one yet.
func (f *fixture) add(e runner.QueueEntry) {
	f.Helper()
	added, err := f.queue.Add(f.Context(), e)
	f.must(err)
	if !added {
		f.Fatalf("Add of run %s reports false, but the run has no entry", e.RunID)
	}
}

func (f *fixture) take() runner.Lease {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	return f.takeUpTo(ctx, 1)[0]
}

func (f *fixture) takeUpTo(ctx context.Context, n int) []runner.Lease {
	f.Helper()
	taken, err := f.queue.Take(ctx, []runner.ProgramID{program}, n)
	f.must(err)
	if len(taken) == 0 || len(taken) > n {
		f.Fatalf("Take returned %d runs, want 1 to %d", len(taken), n)
	}
	return taken
}

func (f *fixture) takesNothing(programs ...runner.ProgramID) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), moment)
	defer cancel()
	if len(programs) == 0 {
		programs = []runner.ProgramID{program}
	}
	taken, err := f.queue.Take(ctx, programs, 10)
	if err == nil {
		f.Fatalf("Take returned %+v, but nothing is due", taken[0].Entry())
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("Take: got %v, want the cause of its context", err)
	}
}

func takenOnce(f *fixture) {
	e := runner.QueueEntry{RunID: "run.1", Program: program, Priority: 7, Due: time.Now().Round(0)}
	f.add(e)
	added, err := f.queue.Add(f.Context(), e)
	f.must(err)
	if added {
		f.Error("Add reports true for a run that has an entry")
	}
	l := f.take()
	if got := l.Entry(); got.RunID != e.RunID || got.Program != e.Program || got.Priority != e.Priority {
		f.Errorf("Take returned %+v, want %+v", got, e)
	}
	f.takesNothing()
	f.must(l.Done(f.Context()))
	f.takesNothing()
	f.add(e) // the run no longer has an entry
}

func notBeforeDue(f *fixture) {
	due := time.Now().Add(time.Second)
	f.add(runner.QueueEntry{RunID: "late", Program: program, Due: time.Now().Add(time.Hour)})
	f.add(runner.QueueEntry{RunID: "soon", Program: program, Due: due})
	l := f.take()
	if l.Entry().RunID != "soon" || time.Now().Before(due) {
		f.Errorf("%s was taken %v before it was due", l.Entry().RunID, time.Until(due))
	}
	f.must(l.Done(f.Context()))
	f.takesNothing()
}

func wakes(f *fixture) {
	e := runner.QueueEntry{RunID: "run", Program: program, Due: time.Now().Add(time.Hour)}
	f.add(e)
	f.must(f.queue.Wake(f.Context(), e))
	f.must(f.take().Done(f.Context()))
	f.takesNothing()
	f.must(f.queue.Wake(f.Context(), e)) // the run has no entry
	f.must(f.take().Done(f.Context()))
	f.takesNothing()
}

func wakesTaken(f *fixture) {
	e := runner.QueueEntry{RunID: "run", Program: program, Due: time.Now()}
	f.add(e)
	first := f.take()
	f.must(f.queue.Wake(f.Context(), e))
	f.must(first.Done(f.Context())) // must not remove the entry that Wake added
	f.must(f.take().Done(f.Context()))
	f.takesNothing()
}

func parks(f *fixture) {
	f.add(runner.QueueEntry{RunID: "run", Program: program, Due: time.Now()})
	due := time.Now().Add(time.Second)
	f.must(f.take().Park(f.Context(), due))
	l := f.take()
	if time.Now().Before(due) {
		f.Errorf("the run was taken %v before it is due", time.Until(due))
	}
	f.must(l.Done(f.Context()))
	f.takesNothing()
}

func manyTakers(f *fixture) {
	const n = 50
	for i := range n {
		f.add(runner.QueueEntry{RunID: fmt.Sprint("run-", i), Program: program, Due: time.Now()})
	}
	var mu sync.Mutex
	taken := make(map[string]int)
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			for left := n / 5; left > 0; {
				ctx, cancel := context.WithTimeout(f.Context(), patience)
				leases, err := f.queue.Take(ctx, []runner.ProgramID{program}, min(left, 1+left%3))
				cancel()
				if err != nil {
					f.Error(err)
					return
				}
				left -= len(leases)
				for _, l := range leases {
					mu.Lock()
					taken[l.Entry().RunID]++
					mu.Unlock()
					if err := l.Done(f.Context()); err != nil {
						f.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	if len(taken) != n {
		f.Errorf("Take returned %d runs, want %d: %v", len(taken), n, taken)
	}
	f.takesNothing()
}

// severalTogether checks that runs taken together end separately. The queue may decide how many
// runs it returns together.
func severalTogether(f *fixture) {
	for i := range 5 {
		f.add(runner.QueueEntry{RunID: fmt.Sprint("run-", i), Program: program, Due: time.Now()})
	}
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	taken := make(map[string]bool)
	var all []runner.Lease
	for len(all) < 5 {
		for _, l := range f.takeUpTo(ctx, 3) {
			taken[l.Entry().RunID] = true
			all = append(all, l)
		}
	}
	if len(taken) != 5 {
		f.Errorf("Take returned %v, want five runs", taken)
	}
	due := time.Now().Add(time.Second)
	f.must(all[0].Park(ctx, due))
	for _, l := range all[1:] {
		f.must(l.Done(ctx))
	}
	again := f.take()
	if again.Entry().RunID != all[0].Entry().RunID {
		f.Errorf("Take returned %s, want %s, which was parked", again.Entry().RunID, all[0].Entry().RunID)
	}
	f.must(again.Done(ctx))
	f.takesNothing()
}

func takeEnds(f *fixture) {
	ctx, cancel := context.WithCancelCause(f.Context())
	over := errors.New("over")
	ended := make(chan error, 1)
	go func() {
		_, err := f.queue.Take(ctx, []runner.ProgramID{program}, 1)
		ended <- err
	}()
	cancel(over)
	if err := <-ended; !errors.Is(err, over) {
		f.Errorf("Take: got %v, want the cause of its context", err)
	}
}

// awaits waits until the queue counts the given numbers of due and parked entries.
func (f *fixture) awaits(due, parked int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	tick := time.NewTicker(moment / 4)
	defer tick.Stop()
	for {
		gotDue, gotParked, err := f.queue.Waiting(f.Context(), []runner.ProgramID{program})
		f.must(err)
		if gotDue == due && gotParked == parked {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Fatalf("Waiting counts %d due and %d parked entries, want %d and %d", gotDue, gotParked, due, parked)
		}
	}
}

func counts(f *fixture) {
	f.awaits(0, 0)
	for i := range 20 {
		f.add(runner.QueueEntry{RunID: fmt.Sprint("due-", i), Program: program, Priority: i%3 - 1, Due: time.Now()})
	}
	for i := range 5 {
		f.add(runner.QueueEntry{RunID: fmt.Sprint("late-", i), Program: program, Due: time.Now().Add(time.Hour)})
	}
	f.awaits(20, 5)
	first, second := f.take(), f.take()
	f.awaits(18, 5)
	f.must(first.Done(f.Context()))
	f.must(second.Park(f.Context(), time.Now().Add(time.Hour)))
	f.awaits(18, 6)
	f.must(f.queue.Wake(f.Context(), runner.QueueEntry{RunID: "late-1", Program: program}))
	f.awaits(19, 5)
	for range 19 {
		f.must(f.take().Done(f.Context()))
	}
	f.awaits(0, 5)
}

func clockRuns(f *fixture) {
	before, err := f.queue.Now(f.Context())
	f.must(err)
	if before.IsZero() {
		f.Error("the clock shows the zero Time")
	}
	tick := time.NewTicker(moment)
	defer tick.Stop()
	<-tick.C
	after, err := f.queue.Now(f.Context())
	f.must(err)
	if after.Sub(before) < moment/2 {
		f.Errorf("in %v the clock advanced by %v", moment, after.Sub(before))
	}
}

func countsThere(here, there *fixture) {
	other := runner.ProgramID{Name: program.Name, Version: "2.0"}
	here.add(runner.QueueEntry{RunID: "other", Program: other, Due: time.Now()})
	for i := range 3 {
		here.add(runner.QueueEntry{RunID: fmt.Sprint("run-", i), Program: program, Due: time.Now()})
	}
	there.awaits(3, 0)
	l := here.take()
	there.awaits(2, 0)
	here.must(l.Park(here.Context(), time.Now().Add(time.Hour)))
	there.awaits(2, 1)
}

func takenByOne(here, there *fixture) {
	e := runner.QueueEntry{RunID: "run", Program: program, Due: time.Now()}
	here.add(e)
	added, err := there.queue.Add(there.Context(), e)
	there.must(err)
	if added {
		there.Error("Add reports true for a run that has an entry from another process")
	}
	l := there.take()
	here.takesNothing()
	there.must(l.Done(there.Context()))
	here.takesNothing()
	there.takesNothing()
}

func ownPrograms(here, there *fixture) {
	other := runner.ProgramID{Name: program.Name, Version: "2.0"}
	here.add(runner.QueueEntry{RunID: "run", Program: program, Due: time.Now()})
	there.takesNothing(other)
	there.must(there.take().Done(there.Context()))
}

func wakesThere(here, there *fixture) {
	e := runner.QueueEntry{RunID: "run", Program: program, Due: time.Now().Add(time.Hour)}
	here.add(e)
	there.must(there.queue.Wake(there.Context(), e))
	here.must(here.take().Done(here.Context()))
	there.takesNothing()
}
