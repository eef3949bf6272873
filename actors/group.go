package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/reprise-go/reprise/core"
)

// A Group says how independent calls are made in parallel by [Map] and
// [Parallel]. Each is a branch with a scope of its own, numbered in the order
// of submission, so its calls have the same addresses in every run.
type Group struct {
	// Name is that of the group in addresses: assistant/group:name/3/weather.
	Name string

	// Workers is how many branches run at once. Defaults to all.
	Workers int

	// CollectAll lets every branch end, whatever happens to the others. By
	// default the first failure interrupts the other branches, and those that
	// wait for a worker are not started.
	CollectAll bool
}

// A GroupError tells which branches failed. errors.Is and errors.As look into
// each of them.
type GroupError struct {
	Group    string
	Branches int           // all there were
	Failed   []BranchError // in the order of submission
}

// A BranchError is the failure of one branch.
type BranchError struct {
	Branch int // from 1
	Err    error
}

// Error lists the failures.
func (e *GroupError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group %s: %d of %d branches failed", e.Group, len(e.Failed), e.Branches)
	for _, f := range e.Failed {
		fmt.Fprintf(&b, "; branch %d: %v", f.Branch, f.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the branches.
func (e *GroupError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	return errs
}

// An Actor is something that can be called: a [Tool], an [LLM], an [Agent].
type Actor[In, Out any] interface {
	Event() core.ExecutionEvent[In, Out]
}

// Map calls actor with each of the inputs, in parallel, and returns the
// outputs in the order of the inputs; those of branches that failed are zero.
// The error is a *[GroupError], or, when the run was interrupted, the
// *[core.InterruptedError].
func Map[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs []In) ([]Out, error) {
	branches := make([]func(context.Context) (Out, error), len(inputs))
	for i, in := range inputs {
		branches[i] = func(ctx context.Context) (Out, error) { return actor.Event().Execute(ctx, in) }
	}
	return Parallel(ctx, g, branches...)
}

// Parallel runs the branches in parallel and returns their results in the
// order of submission, as [Map] does. Whatever a branch calls belongs to it.
func Parallel[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) ([]T, error) {
	if err := g.check(len(branches)); err != nil {
		return nil, err
	}
	scope := core.NewGroup(ctx, g.Name)
	defer scope.Cancel(nil)
	contexts := make([]context.Context, len(branches))
	for i := range branches {
		contexts[i] = scope.Branch(i + 1)
	}
	results := make([]T, len(branches))
	o := outcome{group: g, errs: make([]error, len(branches)), cancel: scope.Cancel}
	workers := g.Workers
	if workers == 0 {
		workers = len(branches)
	}
	eachLimited(len(branches), workers, func(i int) {
		if o.stopped() {
			return
		}
		var err error
		results[i], err = runBranch(contexts[i], branches[i])
		o.ended(i, err)
	})
	return results, o.err(ctx)
}

func (g Group) check(branches int) error {
	if err := core.CheckName(g.Name); err != nil {
		return fmt.Errorf("actors: Group.Name: %w", err)
	}
	if g.Workers < 0 {
		return fmt.Errorf("actors: Group.Workers is %d; allowed is 1 or more, or 0 for all at once", g.Workers)
	}
	return nil
}

// runBranch keeps a panic of a branch from ending the process: it would be in
// a goroutine that the user cannot recover in.
func runBranch[T any](ctx context.Context, branch func(context.Context) (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &core.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return branch(ctx)
}

// outcome gathers how the branches of a group ended.
type outcome struct {
	group  Group
	cancel func(error)

	mu    sync.Mutex
	errs  []error
	first error // that made a group fail fast
}

func (o *outcome) stopped() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first != nil
}

func (o *outcome) ended(branch int, err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if isSuspension(err) {
		if o.first == nil {
			o.errs[branch] = err // not one that this group's own end brought about
		}
		return
	}
	o.errs[branch] = err
	if o.first == nil && !o.group.CollectAll {
		o.first = err
		o.cancel(err)
	}
}

func isSuspension(err error) bool { return errors.Is(err, core.ErrInterrupted) }

// err is that of the group: the failures, or else the suspension.
func (o *outcome) err(ctx context.Context) error {
	failed := &GroupError{Group: o.group.Name, Branches: len(o.errs)}
	var suspended error
	for i, err := range o.errs {
		switch {
		case err == nil:
		case isSuspension(err):
			suspended = err
		default:
			failed.Failed = append(failed.Failed, BranchError{i + 1, err})
		}
	}
	if suspended != nil {
		return suspended
	}
	if len(failed.Failed) > 0 {
		return failed
	}
	return nil
}

// eachLimited calls f for 0 … n-1, at most workers at once and begun in
// order, and returns when all have returned. The caller's goroutine is one of
// the workers.
func eachLimited(n, workers int, f func(i int)) {
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
	)
	work := func() {
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= n {
				return
			}
			f(i)
		}
	}
	for range min(n, workers) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
