package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// node is a call in a random program.
type node struct {
	name     string
	kind     record.Kind
	failures int  // number of attempts that fail before one succeeds
	fatal    bool // every attempt fails, and the call fails for good
	takes    time.Duration
	guarded  bool // a precondition writes a value, which the handler reads at its end
	children []*node
	parallel bool
	failFast bool // the children are a group that fails as soon as one child fails
	loops    int

	// The fields below are set only by tests that change a program or ask questions.
	input   int  // 0 means 1
	boxed   bool // its output is a struct
	renamed bool // the struct's field is renamed
	loose   bool // the branches are plain goroutines instead of a group

	modelCall
}

func randomTree(rng *rand.Rand, depth int) *node {
	n := &node{name: fmt.Sprintf("agent%d", rng.IntN(3)), kind: record.KindAgent, loops: 1 + rng.IntN(2), parallel: rng.IntN(3) == 0}
	// Which calls a failing group stops depends on timing. To keep its result predictable, its
	// calls make no calls themselves.
	n.failFast = rng.IntN(4) == 0
	n.guarded = rng.IntN(3) == 0
	for i := range 1 + rng.IntN(3) {
		if depth > 0 && !n.failFast && rng.IntN(3) == 0 {
			n.children = append(n.children, randomTree(rng, depth-1))
			continue
		}
		leaf := &node{name: fmt.Sprintf("tool%d", rng.IntN(2)), kind: record.KindTool}
		if n.failFast {
			leaf.takes = time.Duration(1+(5*i+3)%7) * time.Minute // no two leaves end at the same time
		}
		switch rng.IntN(5) {
		case 0:
			leaf.failures = 1 + rng.IntN(2)
		case 1:
			leaf.fatal = true
		case 2:
			leaf.kind, leaf.name = record.KindStep, fmt.Sprintf("step%d", rng.IntN(2))
		}
		leaf.guarded = leaf.kind == record.KindTool && !n.failFast && rng.IntN(3) == 0
		n.children = append(n.children, leaf)
	}
	return n
}

// effects counts, by address, how often the handler of each leaf ran and how often it succeeded.
type effects struct {
	mu        sync.Mutex
	ran       map[string]int
	succeeded map[string]int
	order     []string          // the addresses whose handlers ran, each listed once
	places    map[string]string // where these calls are in the program, by address
	changed   string            // the place of the call whose input was changed
	cache     *cache.Cache
}

func newEffects() *effects {
	return &effects{ran: map[string]int{}, succeeded: map[string]int{}, places: map[string]string{}, cache: newModelCache()}
}

// call makes the call that a node describes.
func (e *effects) call(t testing.TB, ctx context.Context, n *node) (string, error) {
	t.Helper()
	return e.callAt(t, ctx, n, "root")
}

func (e *effects) callAt(t testing.TB, ctx context.Context, n *node, place string) (string, error) {
	t.Helper()
	switch {
	case n.sleeps > 0:
		return "slept", core.Sleep(ctx, n.sleeps)
	case n.version > 0:
		_ = core.Version(ctx, n.name, n.version) // a changed program may have a different version
		return "version", nil
	case n.kind == record.KindQuestion:
		return core.Await[string](ctx, n.name)
	case n.renamed:
		out, err := callAs(t, ctx, e, n, place, func(text string) renamedBox { return renamedBox{text} })
		return out.Content, err
	case n.boxed:
		out, err := callAs(t, ctx, e, n, place, func(text string) box { return box{text} })
		return out.Text, err
	}
	return callAs(t, ctx, e, n, place, func(text string) string { return text })
}

// box is an output that is a struct. renamedBox is the same struct with its field renamed.
type (
	box struct {
		Text string `json:"text"`
	}
	renamedBox struct {
		Content string `json:"content"`
	}
)

// callAs makes the call with an output of type Out.
func callAs[Out any](t testing.TB, ctx context.Context, e *effects, n *node, place string, wrap func(string) Out) (Out, error) {
	t.Helper()
	if n.kind == record.KindStep {
		return core.Step(ctx, n.name, func(ctx context.Context) (Out, error) {
			text, err := e.leaf(ctx, n, place, 0)
			return wrap(text), err
		}, n.stepOptions()...)
	}
	event, input := defineAs(t, e, n, place, wrap)
	return event.Execute(ctx, input)
}

// defineAs defines the call of a node and returns it together with its input.
func defineAs[Out any](t testing.TB, e *effects, n *node, place string, wrap func(string) Out) (core.ExecutionEvent[int, Out], int) {
	t.Helper()
	spec := core.Spec{Kind: n.kind, Name: n.name, NoStore: n.noStore, Interceptors: n.caching(e)}
	if n.kind != record.KindAgent || n.failures > 0 {
		spec.Retry = &core.RetryConfig{MaxAttempts: 5, InitialDelay: time.Hour, MaxDelay: time.Hour}
	}
	d, err := core.NewDefinition(spec, func(ctx context.Context, input int) (Out, error) {
		run := e.leaf
		if n.kind == record.KindAgent {
			run = func(ctx context.Context, n *node, place string, _ int) (string, error) {
				return e.agent(t, ctx, n, place)
			}
		}
		text, err := run(ctx, n, place, input)
		return wrap(text), err
	})
	require.NoError(t, err)
	if n.guarded {
		d = d.Require(func(ctx context.Context, _ int) error { return state.Put(ctx, valueKey(ctx), "written") })
	}
	if n.undone {
		d = d.Compensate(func(context.Context, int, Out) error { return nil })
	}
	input := max(n.input, 1)
	if place == e.changed {
		input = 2
	}
	return d.Event(), input
}

// valueKey returns the key of the value that the call's precondition writes.
func valueKey(ctx context.Context) string { return "of " + core.ScopeOf(ctx).Address().String() }

// values returns the values that are visible to everyone, according to the records.
func values(t testing.TB, ctx context.Context, records []record.Record) map[string]string {
	t.Helper()
	seen := make(map[string]string)
	for i := range records {
		if r := &records[i]; r.Kind == record.KindValue {
			v, ok, err := state.Get[string](ctx, r.Name)
			require.NoError(t, err)
			if ok {
				seen[r.Name] = v
			}
		}
	}
	return seen
}

// guard returns an error unless the handler sees the value written by its precondition.
func (n *node) guard(ctx context.Context) error {
	if v, _, err := state.Get[string](ctx, valueKey(ctx)); err != nil || n.guarded && v != "written" {
		return fmt.Errorf("%w: the value of its precondition is %q, %w", errFatal, v, err)
	}
	return nil
}

func (e *effects) leaf(ctx context.Context, n *node, place string, input int) (string, error) {
	s := core.ScopeOf(ctx)
	address := s.Address().String()
	e.mu.Lock()
	if e.ran[address]++; e.ran[address] == 1 {
		e.order, e.places[address] = append(e.order, address), place
	}
	e.mu.Unlock()
	if err := testkit.Pause(ctx, n.takes); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case n.fatal:
		return "", errFatal
	case s.Attempt() < n.failures:
		return "", core.Retryable(errors.New("not yet"))
	}
	e.succeeded[address]++
	if n.noStore || n.cached {
		return n.secret(e), n.guard(ctx)
	}
	return fmt.Sprint("result of ", address, " for ", input), n.guard(ctx)
}

var errFatal = errors.New("fatal")

func init() { record.RegisterError("state_test.fatal", errFatal) }

func (e *effects) agent(t testing.TB, ctx context.Context, n *node, place string) (string, error) {
	t.Helper()
	var all []string
	for loop := range n.loops {
		results := make([]string, len(n.children))
		one := func(ctx context.Context, i int) string {
			out, err := e.callAt(t, ctx, n.children[i], fmt.Sprint(place, "/", loop, ".", i))
			if n.children[i].noStore && err == nil {
				out = "a secret" // the real output may differ in the next process
			}
			if errors.Is(err, errFatal) {
				out = "fatal" // like an agent that checks errors with errors.Is
			} else if err != nil {
				out = err.Error()
			}
			return out
		}
		switch {
		case n.prepares:
			results = e.prepared(t, ctx, n, fmt.Sprint(place, "/", loop))
		case n.failFast:
			results = e.failFast(t, ctx, n, fmt.Sprint(place, "/", loop))
		case n.loose:
			var all sync.WaitGroup
			for i := range n.children {
				all.Go(func() { results[i] = one(ctx, i) })
			}
			all.Wait()
		case !n.parallel:
			for i := range n.children {
				results[i] = one(ctx, i)
			}
		default:
			branches := make([]func(context.Context) (string, error), len(n.children))
			for i := range branches {
				branches[i] = func(ctx context.Context) (string, error) { return one(ctx, i), nil }
			}
			var err error
			if results, err = actors.Parallel(ctx, actors.Group{Name: "g"}, branches...); err != nil {
				return "", err
			}
		}
		all = append(all, results...)
	}
	if core.ScopeOf(ctx).Attempt() < n.failures {
		return "", core.Retryable(errors.New("not yet"))
	}
	if n.breaks {
		return "", errFatal
	}
	return strings.Join(all, ";"), n.guard(ctx)
}

// failFast runs the children as branches of a group that fails as soon as one of them fails.
func (e *effects) failFast(t testing.TB, ctx context.Context, n *node, place string) []string {
	t.Helper()
	branches := make([]func(context.Context) (string, error), len(n.children))
	for i, child := range n.children {
		branches[i] = func(ctx context.Context) (string, error) { return e.callAt(t, ctx, child, fmt.Sprint(place, ".", i)) }
	}
	results, err := actors.Parallel(ctx, actors.Group{Name: "fast"}, branches...)
	if err != nil {
		results = []string{fmt.Sprint("the group failed, fatally: ", errors.Is(err, errFatal))}
	}
	return results
}

// TestRunCutAnywhereResumesToTheSameResult cuts the records of a random program of nested, parallel
// and repeated calls at every possible point, and resumes the run. The run must have the same
// result as if it had not been cut, and no call that had succeeded may run again.
func TestRunCutAnywhereResumesToTheSameResult(t *testing.T) {
	for seed := range testkit.Seeds(100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				program := randomTree(rand.New(rand.NewPCG(seed, 7)), 2)
				whole := new(tape)
				first := newEffects()
				want, left := resumedWithValues(t, whole, first, program)
				for n := 1; n < len(whole.records); n++ {
					if whole.records[n-1].WillRetry {
						continue // a failed record and its retrying record are written together
					}
					done := completedLeaves(whole.records[:n])
					again := newEffects()
					tape := whole.cut(n)
					got, leftAgain := resumedWithValues(t, tape, again, program)
					require.Equal(t, want, got, "cut after record %d", n)
					require.Equal(t, left, leftAgain, "values, cut after record %d", n)
					for address := range done {
						require.Zero(t, again.ran[address], "%s had ended before the cut after record %d", address, n)
					}
					for _, group := range failedGroups(whole.records[:n]) {
						for address := range again.ran {
							require.False(t, strings.HasPrefix(address, group+"/"), "%s was started, and its group had failed before the cut after record %d", address, n)
						}
					}
					requireAttemptsWithin(t, tape.records, 5)
				}
			})
		})
	}
}
