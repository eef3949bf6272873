package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

	// Timeout bounds the group: when it is over, the branches that have not
	// ended are interrupted, and the group fails with [core.ErrGroupTimeout]. A
	// group that is resumed has all of it again. Defaults to none.
	Timeout time.Duration

	// YieldWaits makes work items of the branches of [Map]: one that waits for
	// its next attempt lets the next begin, and goes on when a worker is free.
	// So Workers limits the attempts that run at once, and not the branches that
	// are under way.
	YieldWaits bool

	// Breaker refuses attempts of the branches of [Map] while what they call is
	// failing, beside that of their actor. Defaults to none.
	Breaker core.Breaker

	// RetryBudget limits the retries of the branches of [Map] together, beside
	// that of their actor. Defaults to none.
	RetryBudget *core.RetryBudget
}

// event is a call of the actor as branch i, from 0.
func event[In, Out any](g *Group, actor Actor[In, Out], i int) core.ExecutionEvent[In, Out] {
	return actor.Event().InBranch(i + 1).WithBreaker(g.Breaker).WithRetryBudget(g.RetryBudget)
}

// A GroupError says which branches failed. errors.Is and errors.As look into
// each of them.
type GroupError struct {
	Group    string
	Branches int           // all there were
	Failed   []BranchError // in the order of submission

	// NotFinished are the branches, from 1, that were stopped or not started
	// because of a failure or the group's timeout. All others succeeded, and
	// their results are valid.
	NotFinished []int

	// Err is core.ErrGroupTimeout if the time of the group passed, else nil.
	Err error
}

// A BranchError is the failure of one branch.
type BranchError struct {
	Branch int // from 1
	Err    error
}

// Error lists the failures, as the text of the *[core.CallError] that names the
// group. A branch whose error begins with its address is not numbered.
func (e *GroupError) Error() string { return e.text((*BranchError).line) }

// text lists the failures, each by its line.
func (e *GroupError) text(line func(*BranchError) string) string {
	var b strings.Builder
	if e.Err != nil {
		fmt.Fprintf(&b, "%v, %d of %d branches not finished", e.Err, len(e.NotFinished), e.Branches)
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

// line is the text of the error, which names the branch.
func (e *BranchError) line() string {
	text := fmt.Sprint(e.Err)
	var call *core.CallError
	if errors.As(e.Err, &call) && !call.Address.IsZero() && strings.HasPrefix(text, call.Address.String()) {
		return text
	}
	return fmt.Sprintf("branch %d: %s", e.Branch, text)
}

// Unwrap returns the errors of the branches, and Err.
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
		return event(&g, actor, i).Prepare(ctx, inputs[i])
	})
}

// Parallel runs the branches in parallel and returns their results in the
// order of submission, as [Map] does. Each is a call of kind
// [record.KindBranch], and what it calls belongs to it.
func Parallel[T any](ctx context.Context, g Group, branches ...func(context.Context) (T, error)) ([]T, error) {
	prepare, err := branchesOf(g, branches)
	if err != nil {
		return nil, err
	}
	return parallel(ctx, g, len(branches), prepare)
}

// branchesOf makes definitions of functions.
func branchesOf[T any](g Group, branches []func(context.Context) (T, error)) (preparing[struct{}, T], error) {
	if g.Breaker != nil || g.RetryBudget != nil {
		return nil, fmt.Errorf("actors: group %q: Group.Breaker and Group.RetryBudget are for the branches of Map; give them to the actors that these branches call", g.Name)
	}
	definitions := make([]*core.Definition[struct{}, T], len(branches))
	for i, branch := range branches {
		if branch == nil {
			return nil, fmt.Errorf("actors: group %q: branch %d is nil", g.Name, i+1)
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
		return fmt.Errorf("actors: Group.Timeout is %v, want more than 0, or 0 for none", g.Timeout)
	}
	return nil
}

// parallel makes a group of n branches. Its results outlive its failure: those
// of the branches that succeeded are valid.
func parallel[In, Out any](ctx context.Context, g Group, n int, prepare preparing[In, Out]) ([]Out, error) {
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

// group makes the call that the group is; run makes its n branches.
func group(ctx context.Context, g Group, n int, run func(context.Context) error) error {
	if err := g.check(); err != nil {
		return err
	}
	spec := core.Spec{Kind: record.KindGroup, Name: g.Name, Branches: n}
	d, err := core.NewDefinition(spec, func(ctx context.Context, _ struct{}) (struct{}, error) {
		if g.Timeout > 0 {
			over := time.AfterFunc(g.Timeout, func() { core.EndGroup(ctx, core.ErrGroupTimeout) })
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

	closed       bool        // what has no outcome on record does not begin
	succeeded    func(i int) // nil, or called by the goroutine of a branch that did
	notSucceeded func(i int) // the same
}

// preparing claims the address of the branch of that number, from 0.
type preparing[In, Out any] func(context.Context, int) *core.PreparedCall[In, Out]

// newBranches claims the addresses of all branches, in order, before any of
// them begins.
func newBranches[In, Out any](ctx context.Context, g Group, results []Out, prepare preparing[In, Out]) *branches[In, Out] {
	n := len(results)
	b := &branches[In, Out]{group: g, results: results, errs: make([]error, n), calls: make([]*core.PreparedCall[In, Out], n)}
	for i := range b.calls {
		b.calls[i] = prepare(ctx, i)
	}
	return b
}

// run makes the branches: first those that have an outcome on record, which
// are recalled, and then the others. If one of those failed, the group has
// failed with it, and no other begins; nor does one where the group has ended.
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
		core.EndGroup(ctx, b.first())
	}
	if b.closed || core.GroupRecorded(ctx) {
		for _, i := range open {
			b.ended(i, nil, nil)
		}
	} else {
		b.make(ctx, open, func(err error) { core.EndGroup(ctx, err) })
	}
	return b.err(ctx)
}

// make makes the branches, and calls fail with the first error that fails the
// group.
func (b *branches[In, Out]) make(ctx context.Context, which []int, fail func(error)) {
	one := func(n int, slot core.Slot) {
		i := which[n]
		if ctx.Err() != nil {
			b.ended(i, nil, fail)
			return
		}
		if slot != nil {
			b.calls[i].InSlot(slot)
		}
		out, err := b.calls[i].Execute(ctx)
		if err != nil {
			b.ended(i, err, fail)
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
	each(len(which), workers, one, func(n int, err error) { b.ended(which[n], err, fail) })
}

// ended takes in that a branch did not succeed; err is nil if it was not
// started.
func (b *branches[In, Out]) ended(i int, err error, fail func(error)) {
	if b.notSucceeded != nil {
		defer b.notSucceeded(i)
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
	slices.Sort(b.notFinished)
	failed.NotFinished = b.notFinished
	if len(b.notFinished) > 0 && (errors.Is(groupEnd(ctx), core.ErrGroupTimeout) || core.GroupRecorded(ctx) && len(failed.Failed) == 0) {
		failed.Err = core.ErrGroupTimeout
	}
	switch {
	case len(failed.Failed) > 0, failed.Err != nil:
		return failed
	case b.suspended != nil:
		return b.suspended
	case len(b.notFinished) > 0: // the surroundings of the group ended
		return context.Cause(ctx)
	}
	return nil
}

// groupEnd is why the group itself was ended, nil if it was not.
func groupEnd(ctx context.Context) error {
	var e *core.InterruptedError
	if errors.As(context.Cause(ctx), &e) && e.Reason == record.InterruptGroup {
		return e.Cause
	}
	return nil
}

// errLeft is the error of a function that left its goroutine.
var errLeft = errors.New("it ended its goroutine without returning (runtime.Goexit)")
