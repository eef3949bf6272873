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
	"github.com/reprise-go/reprise/record"
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
// are zero. The error is a *[core.CallError] that wraps a *[GroupError], or,
// when the surroundings of the group ended before all of it was done, the
// *[core.InterruptedError].
//
// The group is a call of kind [record.KindGroup], and each call of the actor a
// branch of it: assistant/group:name/3.
func Map[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs []In) ([]Out, error) {
	if actor == nil {
		return nil, fmt.Errorf("actors: Map in group %q: the actor is nil", g.Name)
	}
	return parallel(ctx, g, len(inputs), func(ctx context.Context, i int) *core.PreparedCall[In, Out] {
		return actor.Event().InBranch(i+1).Prepare(ctx, inputs[i])
	})
}

// Parallel runs the branches in parallel and returns their results in the
// order of submission, as [Map] does. Each is a call of kind
// [record.KindBranch], and what it calls belongs to it.
func Parallel[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) ([]T, error) {
	definitions := make([]*core.Definition[struct{}, T], len(branches))
	for i, branch := range branches {
		if branch == nil {
			return nil, fmt.Errorf("actors: Parallel in group %q: branch %d is nil", g.Name, i+1)
		}
		if err := g.check(); err != nil {
			return nil, err
		}
		var err error
		spec := core.Spec{Kind: record.KindBranch, Name: fmt.Sprintf("%s %d", g.Name, i+1)}
		definitions[i], err = core.NewDefinition(spec, func(ctx context.Context, _ struct{}) (T, error) { return branch(ctx) })
		if err != nil {
			return nil, err
		}
	}
	return parallel(ctx, g, len(branches), func(ctx context.Context, i int) *core.PreparedCall[struct{}, T] {
		return definitions[i].Event().InBranch(i+1).Prepare(ctx, struct{}{})
	})
}

func (g Group) check() error {
	if err := core.CheckName(g.Name); err != nil {
		return fmt.Errorf("actors: Group.Name, which is a part of addresses: %w", err)
	}
	if g.Workers < 0 {
		return fmt.Errorf("actors: Group.Workers is %d, want 1 or more, or 0 for all at once", g.Workers)
	}
	return nil
}

// parallel makes a group of n branches. Its results outlive its failure: those
// of the branches that succeeded are valid.
func parallel[In, Out any](ctx context.Context, g Group, n int, prepare func(context.Context, int) *core.PreparedCall[In, Out]) ([]Out, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	results := make([]Out, n)
	spec := core.Spec{Kind: record.KindGroup, Name: g.Name, Branches: n}
	group, err := core.NewDefinition(spec, func(ctx context.Context, _ struct{}) (struct{}, error) {
		clear(results)
		b := branches[In, Out]{group: g, results: results, errs: make([]error, n), calls: make([]*core.PreparedCall[In, Out], n)}
		for i := range b.calls { // in order, before any of them begins
			b.calls[i] = prepare(ctx, i)
		}
		return struct{}{}, b.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	group = group.Identify(func(struct{}) any { return n })
	_, err = group.Event().Execute(ctx, struct{}{})
	return results, err
}

// branches are those of a group that is made.
type branches[In, Out any] struct {
	group   Group
	calls   []*core.PreparedCall[In, Out]
	results []Out

	mu          sync.Mutex
	errs        []error
	notFinished []int // branches, from 1, in no order
	suspended   error // of a branch that stopped although the group goes on
	failed      bool  // the group fails, because a branch did
}

// run makes the branches: first those that have an outcome on record, which
// are recalled, and then the others. If one of those failed, the group has
// failed with it, and no other begins.
func (b *branches[In, Out]) run(ctx context.Context) error {
	var recorded, open []int
	for i, call := range b.calls {
		if call.Recorded() != 0 {
			recorded = append(recorded, i)
		} else {
			open = append(open, i)
		}
	}
	b.make(ctx, recorded, func(error) {})
	if b.failed {
		core.FailGroup(ctx, b.first())
	}
	b.make(ctx, open, func(err error) { core.FailGroup(ctx, err) })
	return b.err(ctx)
}

// make makes the branches, and calls fail with the first error that fails the
// group.
func (b *branches[In, Out]) make(ctx context.Context, which []int, fail func(error)) {
	workers := b.group.Workers
	if workers == 0 {
		workers = len(which)
	}
	one := func(n int) {
		i := which[n]
		if ctx.Err() != nil {
			b.ended(i, nil, fail)
			return
		}
		out, err := b.calls[i].Execute(ctx)
		if err != nil {
			b.ended(i, err, fail)
			return
		}
		b.results[i] = out
	}
	eachLimited(len(which), workers, one, func(n int, err error) { b.ended(which[n], err, fail) })
}

// ended takes in that a branch did not succeed; err is nil if it was not
// started.
func (b *branches[In, Out]) ended(i int, err error, fail func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.notFinished = append(b.notFinished, i+1)
	case core.IsSuspension(err):
		b.notFinished = append(b.notFinished, i+1)
		b.suspended = err
	default:
		b.errs[i] = err
		if !b.group.CollectAll && !b.failed {
			b.failed = true
			fail(err)
		}
	}
}

// first is the failure of the lowest number.
func (b *branches[In, Out]) first() error {
	for _, err := range b.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// err is that of the group.
func (b *branches[In, Out]) err(ctx context.Context) error {
	failed := &GroupError{Group: b.group.Name, Branches: len(b.errs)}
	for i, err := range b.errs {
		if err != nil {
			failed.Failed = append(failed.Failed, BranchError{i + 1, err})
		}
	}
	switch {
	case len(failed.Failed) > 0:
		slices.Sort(b.notFinished)
		failed.NotFinished = b.notFinished
		return failed
	case b.suspended != nil:
		return b.suspended
	case len(b.notFinished) > 0: // the surroundings of the group ended
		return context.Cause(ctx)
	}
	return nil
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
