package actors

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// A BranchOutput is the output of a branch that has ended.
type BranchOutput[T any] struct {
	Branch int // counted from 1; 0 if the error yielded with it is the group's error
	Output T   // zero if the branch failed
}

// MapSeq calls actor with each of the inputs, as [Map] does. When a branch ends, MapSeq yields its
// number and its output or error. With CollectAll it continues until all branches have ended;
// otherwise it yields nothing after the first failure. If the group ends for another reason before
// all its branches have ended, the last pair contains the group's error, and its Branch is 0.
// Breaking out of the loop interrupts the branches that have not ended, and the group completes. If
// the loop is left because a call in its body was suspended, the branches run to completion, and
// the group is suspended as well: it continues when the run is resumed.
//
// The order is recorded, and is the same when the run is resumed. Calls in the body of the loop are
// made by the attempt that ctx belongs to, not by the group, although the group is still running.
func MapSeq[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs []In) iter.Seq2[BranchOutput[Out], error] {
	return func(yield func(BranchOutput[Out], error) bool) {
		if actor == nil {
			yield(BranchOutput[Out]{}, fmt.Errorf("actors: MapSeq in group %q: the actor is nil", g.Name))
			return
		}
		failFast, whole := !g.CollectAll, false // whole is true once nothing is left to yield
		g.CollectAll = true                     // f.each ends the group
		err := group(ctx, g, len(inputs), func(ctx context.Context) error {
			f := &finishedIterator[In, Out]{ctx: ctx, failFast: failFast, ended: make(chan int, len(inputs))}
			f.branches = newBranches(ctx, g, make([]Out, len(inputs)), func(ctx context.Context, i int) *core.PreparedCall[In, Out] {
				return event(&g, actor, i).Prepare(ctx, inputs[i])
			})
			n := 0
			return f.run(func(out BranchOutput[Out], err error) bool {
				n++
				more := yield(out, err)
				whole = !more || n == len(inputs) || err != nil && failFast
				return more
			})
		})
		if err != nil && !whole {
			yield(BranchOutput[Out]{}, err)
		}
	}
}

// finishedIterator yields the branches of a group in the order in which they end.
type finishedIterator[In, Out any] struct {
	*branches[In, Out]
	ctx      context.Context // the context of the group's handler
	failFast bool
	ended    chan int // branches that succeeded or failed, each once
	arrived  []int    // received from ended, not yielded yet
	misfit   error    // error for a recorded choice of a branch that does not exist; nil if none
}

func (f *finishedIterator[In, Out]) run(yield func(BranchOutput[Out], error) bool) error {
	f.succeeded = func(i int) { f.ended <- i }
	f.notSucceeded = func(i int) {
		if f.errOf(i) != nil {
			f.ended <- i
		}
	}
	for _, call := range f.calls {
		f.closed = f.closed || f.failFast && call.Recorded() == record.StatusFailed
	}
	var (
		wg  sync.WaitGroup
		err error
	)
	wg.Go(func() {
		defer close(f.ended)
		err = f.branches.run(f.ctx)
	})
	left := true // stays true if the caller's loop panics or calls runtime.Goexit
	defer func() {
		if left {
			engine.EndGroup(f.ctx, nil)
			wg.Wait()
		}
	}()
	failure, enough := f.each(yield)
	left = false
	switch {
	case failure != nil:
		engine.EndGroup(f.ctx, failure)
	case enough:
		engine.LeaveGroup(f.ctx)
	}
	wg.Wait()
	switch {
	case enough:
		return nil
	case f.misfit != nil:
		return f.misfit
	}
	return err
}

// each yields one branch after another, until a branch makes the group fail or the caller leaves
// the loop.
func (f *finishedIterator[In, Out]) each(yield func(BranchOutput[Out], error) bool) (failure error, enough bool) {
	for range f.calls {
		next := -1
		choice := prepareChoice(f.ctx, "next", func() (int, error) { return next, nil })
		if choice.Recorded() != record.StatusCompleted {
			if _, ended := engine.GroupRecorded(f.ctx); ended {
				break // the group ended before another branch was yielded
			}
			if next = f.awaitAny(); next < 0 {
				break
			}
		}
		i, err := choice.Execute(f.ctx)
		if err == nil && i >= len(f.calls) {
			recorded, asked := fmt.Sprint("branch ", i), fmt.Sprintf("branch %d ended next, but there are %d branches", i, len(f.calls))
			f.misfit = engine.MisfitChoice(f.ctx, choice.Address(), recorded, asked)
			break
		}
		if err != nil || !f.await(i) {
			break // the group has ended and returns the reason
		}
		failure = f.errOf(i)
		more := yield(BranchOutput[Out]{i + 1, f.results[i]}, failure)
		switch {
		case failure != nil && f.failFast:
			return failure, false
		case !more:
			return nil, true
		}
	}
	return nil, false
}

// awaitAny waits until a branch has ended and returns it, or -1 if no other branch
// will end.
func (f *finishedIterator[In, Out]) awaitAny() int {
	if len(f.arrived) == 0 && !f.receive() {
		return -1
	}
	return f.arrived[0]
}

// await waits until branch i has ended, and removes it from arrived. It returns
// false if the branch will not end.
func (f *finishedIterator[In, Out]) await(i int) bool {
	for !slices.Contains(f.arrived, i) {
		if !f.receive() {
			return false
		}
	}
	at := slices.Index(f.arrived, i)
	f.arrived = slices.Delete(f.arrived, at, at+1)
	return true
}

func (f *finishedIterator[In, Out]) receive() bool {
	i, ok := <-f.ended
	if ok {
		f.arrived = append(f.arrived, i)
	}
	return ok
}

func (f *finishedIterator[In, Out]) errOf(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs[i]
}
