package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// modelCall holds the optional features of a call in a random program.
type modelCall struct {
	noStore  bool          // its output is not kept
	fresh    bool          // the output that is not kept differs in each process
	cached   bool          // its output may come from a cache
	undone   bool          // a tool with a compensation
	breaks   bool          // an agent that fails after its calls
	prepares bool          // an agent that prepares its calls in order and executes the last first
	sleeps   time.Duration // the call is a sleep of this length; 0 for none
	version  int           // the call is core.Version with this version; 0 for none
	paid     []string      // root only: names of the calls that can be compensated, also in changed programs
}

// enrich adds optional features to calls of a random program.
func enrich(rng *rand.Rand, program *node) {
	defer func() { // a group that fails fast returns its branches' outputs, so they must not differ
		for _, n := range program.nodes() {
			for _, child := range n.children {
				child.fresh = child.fresh && !n.failFast
			}
		}
	}()
	for i, n := range program.nodes() {
		switch {
		case n.kind == record.KindAgent && !n.failFast:
			n.breaks = n != program && rng.IntN(8) == 0
			if n.parallel || rng.IntN(4) > 0 {
				break
			}
			switch rng.IntN(3) {
			case 0:
				n.prepares = true
			case 1:
				n.children = append(n.children, &node{name: fmt.Sprint("sleep ", i), kind: record.KindQuestion, modelCall: modelCall{sleeps: time.Duration(1+rng.IntN(90)) * time.Minute}})
			default:
				n.children = append([]*node{{name: fmt.Sprint("change ", i), kind: record.KindVersion, modelCall: modelCall{version: 1}}}, n.children...)
			}
		case n.kind == record.KindTool:
			switch rng.IntN(8) {
			case 0:
				n.kind, n.guarded = record.KindLLM, false
			case 1:
				n.undone, n.name = true, "paid"
			case 2:
				if !n.guarded { // the precondition of a guarded call writes its own value
					n.cached, n.name, n.fatal, n.failures = true, "cached", false, 0
				}
			case 3:
				n.noStore = true
			case 4:
				n.noStore, n.fresh = true, true
			}
		case n.kind == record.KindStep:
			n.noStore = rng.IntN(6) == 0
		}
	}
}

func (n *node) stepOptions() []core.StepOption {
	if n.noStore {
		return []core.StepOption{core.StepNoStore()}
	}
	return nil
}

func (n *node) caching(e *effects) []core.Interceptor {
	if !n.cached {
		return nil
	}
	return []core.Interceptor{e.cache.Interceptor(fmt.Sprint(n.boxed, n.renamed), 0)}
}

// secret returns an output that does not depend on the address of its call.
func (n *node) secret(e *effects) string {
	if n.fresh {
		return fmt.Sprintf("secret of %p", e)
	}
	return "secret"
}

// rememberPaid collects the names of the calls that can be compensated, in the program and in all
// its changed forms. It is needed because a run must know their compensations when it is opened.
func (n *node) rememberPaid() {
	n.paid = nil
	for _, one := range n.nodes() {
		if one.undone && !slices.Contains(n.paid, one.name) {
			n.paid = append(n.paid, one.name, one.name+"x", one.name+"xx")
		}
	}
}

// compensations returns the option with these compensations.
func (n *node) compensations(t testing.TB) state.Option {
	t.Helper()
	var all []state.Compensable
	for _, name := range n.paid {
		d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: name}, func(context.Context, int) (string, error) { return "", nil })
		require.NoError(t, err)
		all = append(all, d.Compensate(func(context.Context, int, string) error { return nil }))
	}
	return state.WithCompensations(all...)
}

// prepared prepares the children's calls in order and executes the last one first. Children that
// cannot be prepared are called after them.
func (e *effects) prepared(t testing.TB, ctx context.Context, n *node, place string) []string {
	t.Helper()
	results := make([]string, len(n.children))
	calls := make([]func() (string, error), len(n.children))
	for i, child := range n.children {
		at := fmt.Sprint(place, ".", i)
		if child.kind == record.KindTool && !child.boxed && !child.renamed {
			event, input := defineAs(t, e, child, at, func(text string) string { return text })
			call := event.Prepare(ctx, input)
			calls[i] = func() (string, error) { return call.Execute(ctx) }
		}
	}
	one := func(i int, call func() (string, error)) {
		out, err := call()
		switch {
		case err == nil && n.children[i].noStore:
			out = "a secret"
		case errors.Is(err, errFatal):
			out = "fatal"
		case err != nil:
			out = err.Error()
		}
		results[i] = out
	}
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i] != nil {
			one(i, calls[i])
		}
	}
	for i, child := range n.children {
		if calls[i] == nil {
			one(i, func() (string, error) { return e.callAt(t, ctx, child, fmt.Sprint(place, ".", i)) })
		}
	}
	return results
}

func newModelCache() *cache.Cache { return cache.New(cache.NewMemory(1<<20), cache.Options{}) }
