package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
)

// A Group says how independent calls are made in parallel by [Map] and
// [Parallel]. Each is a branch with a scope of its own, numbered in the order
// of submission, so its calls have the same addresses in every run.
type Group struct {
	// Name is that of the group in addresses: assistant/group:name/3/weather.
	// It is required.
	Name string

	// Workers is how many branches run at once. Defaults to all.
	Workers int

	// CollectAll lets every branch end, whatever happens to the others. By
	// default the first failure interrupts the other branches, and those that
	// wait for a worker are not started. That stays so when the run is resumed:
	// branches that failed are recalled first, one after another, and so must
	// not wait for others.
	CollectAll bool
}

// A GroupError tells which branches failed. errors.Is and errors.As look into
// each of them.
type GroupError struct {
	Group    string
	Branches int           // all there were
	Failed   []BranchError // in the order of submission

	// NotFinished are the branches, from 1, that were stopped or not started
	// because of a failure. All others succeeded, and their results are valid.
	NotFinished []int
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
// outputs in the order of the inputs; those of branches that did not succeed
// are zero. The error is a *[GroupError], or, when the surroundings of the
// group ended before all of it was done, the *[core.InterruptedError].
func Map[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs []In) ([]Out, error) {
	if actor == nil {
		return nil, fmt.Errorf("actors: Map in group %q: the actor is nil", g.Name)
	}
	branches := make([]func(context.Context) (Out, error), len(inputs))
	for i, in := range inputs {
		branches[i] = func(ctx context.Context) (Out, error) { return actor.Event().Execute(ctx, in) }
	}
	return Parallel(ctx, g, branches...)
}

// Parallel runs the branches in parallel and returns their results in the
// order of submission, as [Map] does. Whatever a branch calls belongs to it.
func Parallel[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) ([]T, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	for i, branch := range branches {
		if branch == nil {
			return nil, fmt.Errorf("actors: Parallel in group %q: branch %d is nil", g.Name, i+1)
		}
	}
	scope := core.NewGroup(ctx, g.Name)
	defer scope.Cancel(nil)
	contexts := make([]context.Context, len(branches))
	for i := range branches {
		contexts[i] = scope.Branch(i + 1)
	}
	results := make([]T, len(branches))
	o := outcome{group: g, scope: scope, contexts: contexts, errs: make([]error, len(branches))}
	o.makeAll(func(i int) {
		if err := contexts[i].Err(); err != nil {
			o.ended(i, err)
			return
		}
		out, err := branches[i](contexts[i])
		if err != nil {
			o.ended(i, err)
			return
		}
		results[i] = out
	})
	return results, o.err(ctx)
}

func (g Group) check() error {
	if err := core.CheckName(g.Name); err != nil {
		return fmt.Errorf("actors: Group.Name, which is a part of addresses: %w", err)
	}
	if g.Workers < 0 {
		return fmt.Errorf("actors: Group.Workers is %d; allowed is 1 or more, or 0 for all at once", g.Workers)
	}
	return nil
}

// outcome gathers how the branches of a group ended.
type outcome struct {
	group    Group
	scope    *core.Group
	contexts []context.Context // of the branches

	mu        sync.Mutex
	suspended error // of a branch that stopped without anything around it having ended
	errs      []error
	stopped   []int // branches, from 1, in no order
	first     error // why the group failed fast
	recalling bool  // the branches that failed on record are made again
}

// makeAll makes the branches, each by a call of one.
func (o *outcome) makeAll(one func(i int)) {
	workers, left := o.group.Workers, make([]int, len(o.contexts))
	if workers == 0 {
		workers = len(left)
	}
	for i := range left {
		left[i] = i
	}
	each := func(branches []int, workers int) {
		eachLimited(len(branches), workers, func(n int) { one(branches[n]) }, func(n int, err error) { o.ended(branches[n], err) })
	}
	if !o.group.CollectAll {
		if recalled := o.scope.Recall(); recalled != nil {
			left = o.resume(recalled, left, workers, each)
		}
	}
	each(left, workers)
}

// resume makes those of the branches that may have failed when they were
// recorded, until one fails again: it was the first. Then those that ended by
// then are recalled, and no other is made. It returns what is left to make.
func (o *outcome) resume(recalled *core.RecalledGroup, left []int, workers int, each func([]int, int)) []int {
	pick := func(numbers []int) (branches []int) {
		for _, number := range numbers {
			if i := slices.Index(left, number-1); i >= 0 {
				branches, left = append(branches, left[i]), slices.Delete(left, i, i+1)
			}
		}
		return branches
	}
	first, ended := pick(recalled.First), pick(recalled.Ended)
	o.recalling = true
	for o.first == nil && len(first) > 0 {
		each(first[:1], 1)
		first = first[1:]
	}
	o.recalling = false
	if o.first == nil {
		return slices.Sorted(slices.Values(append(left, ended...)))
	}
	o.scope.End(o.first)
	each(append(first, ended...), workers)
	o.scope.Cancel(o.first)
	for _, i := range left {
		o.stopped = append(o.stopped, i+1)
	}
	return nil
}

// ended takes in that a branch did not succeed. Whether it failed or was
// stopped is decided by its context, not by its error.
func (o *outcome) ended(branch int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed *core.CallError
	suspension, goesOn := core.IsSuspension(err), o.contexts[branch].Err() == nil
	if o.first != nil && (suspension || !errors.As(err, &failed)) {
		o.stopped = append(o.stopped, branch+1)
		return
	}
	if suspension && goesOn {
		o.suspended = err // which fails no group
		return
	}
	o.errs[branch] = err
	if !goesOn || o.group.CollectAll || o.first != nil {
		return
	}
	o.first = err
	if !o.recalling {
		o.scope.Cancel(err)
	}
}

// err is that of the group: the end of its surroundings, or else what failed.
func (o *outcome) err(ctx context.Context) error {
	failed := &GroupError{Group: o.group.Name, Branches: len(o.errs)}
	for i, err := range o.errs {
		if err != nil {
			failed.Failed = append(failed.Failed, BranchError{i + 1, err})
		}
	}
	if len(failed.Failed) == 0 {
		return o.suspended
	}
	slices.Sort(o.stopped)
	failed.NotFinished = o.stopped
	if e := core.Interruption(ctx); e != nil {
		return e
	}
	return failed
}

// errLeft is the error of a function that left its goroutine.
var errLeft = errors.New("it ended its goroutine without returning (runtime.Goexit)")

// eachLimited calls f for 0 … n-1, at most workers at once and begun in
// order, and returns when all are done. Where f panics or leaves its
// goroutine, broken is called instead of f returning.
func eachLimited(n, workers int, f func(i int), broken func(i int, err error)) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	var work func()
	one := func(i int) {
		returned := false
		defer func() {
			if returned {
				return
			}
			if p := recover(); p != nil {
				broken(i, &core.PanicError{Value: p, Stack: debug.Stack()})
				return
			}
			broken(i, errLeft)
			wg.Go(work) // this goroutine is ending; another takes its place
		}()
		f(i)
		returned = true
	}
	work = func() {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			one(int(i - 1))
		}
	}
	for range min(n, workers) {
		wg.Go(work)
	}
	wg.Wait()
}
