package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// A Group configures how [Map] and [Parallel] make independent calls in parallel. Each call is a
// branch with its own scope. Branches are numbered in the order of submission, so their calls have
// the same addresses in every run.
type Group struct {
	// Name is the name of the group in addresses, such as
	// assistant/group:name/3/weather. It is required.
	Name string

	// Workers limits how many branches run at once. Defaults to no limit.
	Workers int

	// CollectAll lets every branch run to completion, whatever happens to the others. By default,
	// the first failure interrupts the other branches, and branches that are waiting for a worker
	// are not started. The same holds when the run is resumed: after a recorded failure, the
	// branches without a recorded outcome do not begin. The branches with a recorded outcome are
	// recalled before any others begin, so they must not wait for those.
	CollectAll bool

	// Timeout limits the duration of the group: when it expires, branches that have not ended are
	// interrupted, and the group fails with [core.ErrGroupTimeout]. When the run is resumed, the
	// timeout starts again. Defaults to no limit.
	Timeout time.Duration

	// YieldWaits lets a branch of [Map] release its worker while it waits for its next attempt:
	// another branch can begin, and the waiting branch continues when a worker is free. Workers
	// then limits how many attempts run at the same time, not how many branches have begun.
	YieldWaits bool

	// OnFailure, if set, is called for each branch that fails, in the goroutine of the branch, with
	// the branch's number, counted from 1. It is for branches that depend on each other: for
	// example, one branch may begin when another has failed. When a resumed run enters the group
	// again, a failed branch does not run again, but OnFailure is called for it again, before any
	// branch without a recorded outcome begins. A completed group is recalled without its branches,
	// except with [MapSeq]. If OnFailure panics or calls runtime.Goexit, this is added to the
	// branch's error.
	OnFailure func(branch int, err error)

	// Interceptors wrap the attempts of the branches of [Map], inside the actor's own interceptors.
	Interceptors []core.Interceptor
}

// event returns a call to the actor as branch i, counted from 0.
func event[In, Out any](g *Group, actor Actor[In, Out], i int) core.ExecutionEvent[In, Out] {
	return actor.Event().InBranch(i + 1).WithInterceptors(g.Interceptors...)
}

// A GroupError lists the branches that failed. errors.Is and errors.As examine
// the error of each branch.
type GroupError struct {
	Group    string
	Branches int           // the total number of branches
	Failed   []BranchError // in the order of submission

	// NotEnded lists the branches, counted from 1, that were interrupted or not started because of
	// a failure or the group's timeout. All branches that neither failed nor are listed here
	// succeeded, and their results are valid.
	NotEnded []int

	// Err is core.ErrGroupTimeout if the group's Timeout expired, and nil otherwise.
	Err error
}

// A BranchError is the failure of one branch.
type BranchError struct {
	Branch int // counted from 1
	Err    error
}

// Error lists the failures. It does not name the group, since the *[core.CallError] around it does
// so. It includes the number of a branch only if the branch's error does not begin with an address.
func (e *GroupError) Error() string { return e.text((*BranchError).line) }

// text lists the failures, each with the text that line returns.
func (e *GroupError) text(line func(*BranchError) string) string {
	var b strings.Builder
	if e.Err != nil {
		fmt.Fprintf(&b, "%v, %d of %d branches not ended", e.Err, len(e.NotEnded), e.Branches)
	}
	if len(e.Failed) > 0 && e.Err != nil {
		b.WriteString("; ")
	}
	if len(e.Failed) > 0 || e.Err == nil {
		fmt.Fprintf(&b, "%d of %d branches failed", len(e.Failed), e.Branches)
	}
	for i := range e.Failed {
		b.WriteString("; " + line(&e.Failed[i]))
	}
	return b.String()
}

// line returns the text of the branch's error, preceded by the branch's number if the text does not
// begin with an address.
func (e *BranchError) line() string {
	text := fmt.Sprint(e.Err)
	var call *core.CallError
	if errors.As(e.Err, &call) && !call.Address.IsZero() && strings.HasPrefix(text, call.Address.String()) {
		return text
	}
	return fmt.Sprintf("branch %d: %s", e.Branch, text)
}

// Unwrap returns the errors of the branches, followed by Err if it is not nil.
func (e *GroupError) Unwrap() []error {
	errs := make([]error, len(e.Failed), len(e.Failed)+1)
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// An Actor is something that can be called: a [Tool], an [LLM] or an [Agent].
type Actor[In, Out any] interface {
	Event() core.ExecutionEvent[In, Out]
}

// Map calls actor with each of the inputs in parallel, and returns the outputs in the order of the
// inputs. The outputs of branches that did not succeed are zero. The error is a *[core.CallError]
// that wraps a *[GroupError], or an *[core.InterruptedError] if a branch waits for an answer, a
// signal or a point in time, or if a call around the group ended first. If there are no inputs, Map
// makes a group without branches and succeeds.
//
// The group is a call of kind [record.KindGroup], and each call to the actor is a branch of the
// group, for example assistant/group:name/3.
func Map[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs []In) ([]Out, error) {
	if actor == nil {
		return nil, fmt.Errorf("actors: Map in group %q: the actor is nil", g.Name)
	}
	return parallel(ctx, g, len(inputs), func(ctx context.Context, i int) *core.PreparedCall[In, Out] {
		return event(&g, actor, i).Prepare(ctx, inputs[i])
	})
}

// Parallel runs the branches in parallel and returns their results in the order of submission, as
// [Map] does. Each branch is a call of kind [record.KindBranch], and the calls made in a branch
// belong to that branch. When the run is resumed, a completed branch does not run again: its result
// is recalled. The only exception is a branch that called an actor with WithNoStore: it runs again,
// because its result may be the actor's output. If T cannot be stored, Parallel returns an error
// and runs nothing.
func Parallel[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) ([]T, error) {
	prepare, err := branchesOf(g, branches)
	if err != nil {
		return nil, err
	}
	return parallel(ctx, g, len(branches), prepare)
}

// branchesOf returns the function that prepares the branches of a group of functions.
func branchesOf[T any](g Group, branches []func(context.Context) (T, error)) (prepareFunc[struct{}, T], error) {
	if len(g.Interceptors) > 0 {
		return nil, fmt.Errorf("actors: group %q: Group.Interceptors are for the branches of Map; give them to the actors that these branches call", g.Name)
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	definitions := make([]*core.Definition[struct{}, T], len(branches))
	for i, branch := range branches {
		if branch == nil {
			return nil, fmt.Errorf("actors: group %q: branch %d is nil", g.Name, i+1)
		}
		var err error
		spec := core.Spec{Kind: record.KindBranch, Name: fmt.Sprintf("%s %d", g.Name, i+1)}
		definitions[i], err = core.NewDefinition(spec, func(ctx context.Context, _ struct{}) (T, error) { return branch(ctx) })
		if err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, i int) *core.PreparedCall[struct{}, T] {
		return definitions[i].Event().InBranch(i+1).Prepare(ctx, struct{}{})
	}, nil
}

func (g Group) check() error {
	if err := core.CheckName(g.Name); err != nil {
		return fmt.Errorf("actors: Group.Name, which is a part of addresses: %w", err)
	}
	if g.Workers < 0 {
		return fmt.Errorf("actors: Group.Workers is %d, want 1 or more, or 0 for all at once", g.Workers)
	}
	if g.Timeout < 0 {
		return fmt.Errorf("actors: Group.Timeout is %v, want a positive duration, or 0 for none", g.Timeout)
	}
	return nil
}

// parallel executes a group of n branches. It returns the results even if the group fails; the
// results of branches that succeeded are valid.
func parallel[In, Out any](ctx context.Context, g Group, n int, prepare prepareFunc[In, Out]) ([]Out, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	results := make([]Out, n)
	err := group(ctx, g, n, func(ctx context.Context) error {
		clear(results)
		b := newBranches(ctx, g, results, prepare)
		return b.run(ctx)
	})
	return results, err
}

// group makes the call for the group; run executes the group's n branches.
func group(ctx context.Context, g Group, n int, run func(context.Context) error) error {
	if err := g.check(); err != nil {
		return err
	}
	spec := core.Spec{Kind: record.KindGroup, Name: g.Name, Branches: n}
	d, err := core.NewDefinition(spec, func(ctx context.Context, _ struct{}) (struct{}, error) {
		if g.Timeout > 0 {
			over := time.AfterFunc(g.Timeout, func() { engine.EndGroup(ctx, core.ErrGroupTimeout) })
			defer over.Stop()
		}
		return struct{}{}, run(ctx)
	})
	if err != nil {
		return err
	}
	_, err = d.Identify(func(struct{}) any { return n }).Event().Execute(ctx, struct{}{})
	return err
}

// branches executes the branches of a group.
type branches[In, Out any] struct {
	group   Group
	calls   []*core.PreparedCall[In, Out]
	results []Out

	mu          sync.Mutex
	errs        []error
	notFinished []int // branches, counted from 1, in no particular order
	suspended   error // the error of a branch that suspended although nothing had ended the group
	failed      bool  // the group fails because a branch has failed

	closed       bool        // if true, branches without a recorded outcome do not begin
	succeeded    func(i int) // called by the goroutine of a branch that succeeded; may be nil
	notSucceeded func(i int) // called for a branch that did not succeed; may be nil
}

// prepareFunc claims the address of branch i, counted from 0.
type prepareFunc[In, Out any] func(context.Context, int) *core.PreparedCall[In, Out]

// newBranches claims the addresses of all branches, in order, before any of
// them begins.
func newBranches[In, Out any](ctx context.Context, g Group, results []Out, prepare prepareFunc[In, Out]) *branches[In, Out] {
	n := len(results)
	b := &branches[In, Out]{group: g, results: results, errs: make([]error, n), calls: make([]*core.PreparedCall[In, Out], n)}
	for i := range b.calls {
		b.calls[i] = prepare(ctx, i)
	}
	return b
}

// run executes the branches: first those with a recorded outcome, which are recalled, and then the
// others. The others do not begin if the failure of a recalled branch makes the group fail, or if
// the group has ended.
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
		engine.EndGroup(ctx, b.firstFailure())
	}
	if _, recorded := engine.GroupRecorded(ctx); b.closed || recorded {
		for _, i := range open {
			b.noteEnd(i, nil, nil)
		}
	} else {
		b.make(ctx, open, func(err error) { engine.EndGroup(ctx, err) })
	}
	return b.err(ctx)
}

// recallFailures recalls the branches that are recorded as failed, except the winner.
func (b *branches[In, Out]) recallFailures(ctx context.Context, winner int) {
	var failed []int
	for i, call := range b.calls {
		if i != winner && call.Recorded() == record.StatusFailed {
			failed = append(failed, i)
		}
	}
	b.make(ctx, failed, func(error) {})
}

// make executes the given branches. It calls fail with the error that makes the group fail.
func (b *branches[In, Out]) make(ctx context.Context, which []int, fail func(error)) {
	one := func(ctx context.Context, n int, slot engine.Slot) {
		i := which[n]
		if ctx.Err() != nil && b.calls[i].Recorded() == 0 {
			b.noteEnd(i, nil, fail)
			return
		}
		if slot != nil {
			b.calls[i].InSlot(slot)
		}
		out, err := b.calls[i].Execute(ctx)
		if err != nil {
			b.noteEnd(i, err, fail)
			return
		}
		b.results[i] = out
		if b.succeeded != nil {
			b.succeeded(i)
		}
	}
	workers := b.group.Workers
	if workers == 0 {
		workers = len(which)
	}
	each := eachLimited
	if b.group.YieldWaits && workers < len(which) {
		each = eachYielding
	}
	each(ctx, len(which), workers, one, func(n int, err error) { b.noteEnd(which[n], err, fail) })
}

// noteEnd records that a branch did not succeed. err is nil if the branch was not started.
func (b *branches[In, Out]) noteEnd(i int, err error, fail func(error)) {
	if b.hasFailed(i) { // its OnFailure called runtime.Goexit
		return
	}
	if b.notSucceeded != nil {
		defer b.notSucceeded(i)
	}
	if b.group.OnFailure != nil && err != nil && !core.IsSuspension(err) {
		defer b.notifyFailure(i, err)
	}
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

func (b *branches[In, Out]) hasFailed(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errs[i] != nil
}

// notifyFailure calls the group's OnFailure. If OnFailure panics or calls runtime.Goexit, this is
// added to the branch's error.
func (b *branches[In, Out]) notifyFailure(i int, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		broken := fmt.Errorf("Group.OnFailure: %w", errLeft)
		if p := recover(); p != nil {
			broken = &core.PanicError{Value: p, Stack: debug.Stack()}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errs[i] = errors.Join(err, broken)
	}()
	b.group.OnFailure(i+1, err)
	returned = true
}

// firstFailure returns the error of the first failed branch, in the order of submission.
func (b *branches[In, Out]) firstFailure() error {
	for _, err := range b.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// err returns the group's error.
func (b *branches[In, Out]) err(ctx context.Context) error {
	failed := &GroupError{Group: b.group.Name, Branches: len(b.errs)}
	for i, err := range b.errs {
		if err != nil {
			failed.Failed = append(failed.Failed, BranchError{i + 1, err})
		}
	}
	slices.Sort(b.notFinished)
	failed.NotEnded = b.notFinished
	if len(b.notFinished) > 0 && hasTimedOut(ctx) {
		failed.Err = core.ErrGroupTimeout
	}
	switch {
	case len(failed.Failed) > 0, failed.Err != nil:
		return failed
	case b.suspended != nil:
		return b.suspended
	case len(b.notFinished) > 0: // a call around the group has ended
		return context.Cause(ctx)
	}
	return nil
}

// hasTimedOut reports whether the group's timeout has ended the group, either now or according to
// the group's record.
func hasTimedOut(ctx context.Context) bool {
	reason, _ := engine.GroupRecorded(ctx)
	return reason == record.ReasonGroupTimeout || groupEnd(ctx) == core.ErrGroupTimeout //nolint:errorlint // the error itself, not an inner group's
}

// groupEnd returns why the group itself has ended, or nil if it has not.
func groupEnd(ctx context.Context) error {
	var e *core.InterruptedError
	if errors.As(context.Cause(ctx), &e) && e != nil && e.Reason == record.InterruptGroup {
		return e.Cause
	}
	return nil
}

// errLeft is the error of a branch or a tool call that ended its goroutine outside a call.
var errLeft = errors.New("it ended its goroutine without returning (runtime.Goexit)")
