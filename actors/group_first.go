package actors

import (
	"context"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// First runs the branches in parallel, returns the result of the branch that succeeds first, and
// interrupts the others. A branch that fails does not affect the others. First needs at least one
// branch. If all branches fail, the group fails with a *[core.CallError] that wraps a
// *[GroupError]. The group is a call, as with [Parallel]. When the run is resumed, the group has
// the same winner and the same result. If the run is retried after the winner was compensated, the
// winner is called again, and if it fails, so does the group.
func First[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) (T, error) {
	var won T
	g.CollectAll = true
	prepare, err := branchesOf(g, branches)
	if err != nil {
		return won, err
	}
	if len(branches) == 0 {
		return won, fmt.Errorf("actors: First in group %q: there is no branch", g.Name)
	}
	err = group(ctx, g, len(branches), func(ctx context.Context) error {
		f := race[T]{ctx: ctx, winner: -1}
		b := newBranches(ctx, g, make([]T, len(branches)), prepare)
		f.choice = prepareChoice(ctx, "first", func() (int, error) { return f.winner, nil })
		if f.choice.Recorded() == record.StatusCompleted {
			i, err := f.choice.Execute(ctx)
			if err != nil {
				return err
			}
			if i >= len(branches) {
				return engine.MisfitChoice(ctx, f.choice.Address(), fmt.Sprint("branch ", i), fmt.Sprintf("branch %d was first, but there are %d branches", i, len(branches)))
			}
			b.recallFailures(ctx, i)
			won, err = b.calls[i].Execute(ctx)
			return err
		}
		b.succeeded = func(i int) {
			if !f.succeeded(i) {
				b.noteEnd(i, nil, nil)
			}
		}
		err := b.run(ctx)
		if f.winner >= 0 {
			won = b.results[f.winner]
			return f.err
		}
		return err
	})
	if err != nil {
		won = *new(T) // the winner came too late
	}
	return won, err
}

// race determines the winner of a group.
type race[T any] struct {
	ctx    context.Context // the context of the group's handler
	choice *core.PreparedCall[struct{}, int]

	mu     sync.Mutex
	winner int   // -1 if there is none yet
	err    error // the error from recording the winner
}

// succeeded makes the first branch that succeeds the winner, and ends the group. It returns false
// if the group had already ended.
func (f *race[T]) succeeded(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.winner >= 0 {
		return true
	}
	if _, recorded := engine.GroupRecorded(f.ctx); recorded || groupEnd(f.ctx) != nil {
		return false
	}
	f.winner = i
	if _, f.err = f.choice.Execute(f.ctx); f.err == nil {
		engine.EndGroup(f.ctx, nil)
	} else if groupEnd(f.ctx) != nil {
		f.winner = -1
		return false
	}
	return true
}

// prepareChoice prepares a step that records the index of a branch. If the process ends while the
// step is running, the step chooses again, since nobody has seen the first choice.
func prepareChoice(ctx context.Context, name string, choose func() (int, error)) *core.PreparedCall[struct{}, int] {
	d := must(core.NewDefinition(core.Spec{Kind: record.KindStep, Name: name}, func(context.Context, struct{}) (int, error) { return choose() }))
	again := core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}
	return d.Event().WithTag(name).WithRetry(again).Prepare(ctx, struct{}{})
}
