package core_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func key(t *testing.T, ctx context.Context) string {
	t.Helper()
	k, err := core.IdempotencyKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(k) {
		t.Errorf("%q is not a key", k)
	}
	return k
}

// keys returns a tool that fails n times and appends the key of each attempt to *into.
func keys(t *testing.T, into *[]string, n int) *testkit.Definition {
	t.Helper()
	h := testkit.Failing(n, errFlaky)
	return testkit.Tool(t, "tool", atOnce, func(ctx context.Context, in string) (string, error) {
		*into = append(*into, key(t, ctx))
		return h(ctx, in)
	})
}

// The branches of a group in the run itself have no input, but they have different addresses.
func TestBranchesOfAGroupInTheRunHaveKeys(t *testing.T) {
	st := state.New()
	branch := func(ctx context.Context) (string, error) { return key(t, ctx), nil }
	keys, err := actors.Parallel(st.Context(t.Context()), actors.Group{Name: "g"}, branch, branch)
	assert.NoError(t, err)
	assert.Len(t, keys, 2)
	assert.NotEqual(t, keys[0], keys[1])
}

func same(t *testing.T, what string, ks []string, n int) {
	t.Helper()
	assert.Len(t, ks, n, what+": keys")
	for _, k := range ks {
		assert.Equal(t, ks[0], k, what)
	}
}

func TestIdempotencyKeyIsTheSameForEveryAttempt(t *testing.T) {
	_, ctx := testkit.Run(t)
	var ks []string
	out, err := testkit.Call(ctx, keys(t, &ks, 2))
	testkit.Completed(t, out, err)
	same(t, "attempts", ks, 3)
}

func TestIdempotencyKeyIsTheSameInEveryAttemptOfTheParents(t *testing.T) {
	_, ctx := testkit.Run(t)
	var ks []string
	child := keys(t, &ks, 0)
	middleFails, outerFails := testkit.Failing(1, errFlaky), testkit.Failing(1, errFlaky)
	middle := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "middle", Retry: &atOnce}, func(ctx context.Context, in string) (string, error) {
		_, _ = testkit.Call(ctx, child)
		return middleFails(ctx, in)
	})
	out, err := testkit.Call(ctx, testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "outer", Retry: &atOnce}, func(ctx context.Context, in string) (string, error) {
		if _, err := testkit.Call(ctx, middle); err != nil {
			return "", err
		}
		return outerFails(ctx, in)
	}))
	testkit.Completed(t, out, err)
	same(t, "parents' attempts", ks, 3)
}

func TestIdempotencyKeyIsTheSameInTheSameRunElsewhere(t *testing.T) {
	var ks []string
	for range 2 {
		_, ctx := testkit.Run(t, state.WithRunID("run-1"))
		_, _ = testkit.Call(ctx, keys(t, &ks, 0))
	}
	same(t, "same run", ks, 2)
}

func TestIdempotencyKeyIsTheSameInConditionsAndHandler(t *testing.T) {
	_, ctx := testkit.Run(t)
	var ks []string
	note := func(ctx context.Context) { ks = append(ks, key(t, ctx)) }
	d := testkit.Tool(t, "tool", atOnce, func(ctx context.Context, _ string) (string, error) { note(ctx); return "out", nil }).
		Require(func(ctx context.Context, _ string) error { note(ctx); return nil }).
		Ensure(func(ctx context.Context, _, _ string) error { note(ctx); return nil })
	out, err := testkit.Call(ctx, d)
	testkit.Completed(t, out, err)
	same(t, "conditions", ks, 3)
}

func TestIdempotencyKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, k string) {
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s share a key", what, other)
		}
		seen[k] = what
	}
	one := func(ctx context.Context, what, in string) {
		d := testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) { note(what, key(t, ctx)); return "out", nil })
		if _, err := d.Event().Execute(ctx, in); err != nil {
			t.Error(err)
		}
	}
	_, ctx := testkit.Run(t, state.WithRunID("run-1"))
	one(ctx, "first call", "in")
	one(ctx, "second call", "in")
	_, ctx = testkit.Run(t, state.WithRunID("run-2"))
	one(ctx, "other run", "in")
	_, ctx = testkit.Run(t, state.WithRunID("run-1"))
	one(ctx, "other input", "other")
	_, _ = testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		note("parent", key(t, ctx))
		one(ctx, "child", "in")
		branch := func(name string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				note(name, key(t, ctx))
				one(ctx, "call in "+name, "in")
				return "", nil
			}
		}
		_, err := group(ctx, "all", branch("branch 1"), branch("branch 2"))
		return "out", err
	}))
	assert.Len(t, seen, 10, "keys")
}

func TestIdempotencyKeyOfAMapDoesNotDependOnItsOrder(t *testing.T) {
	type input struct {
		Labels map[string]int
		Deep   []map[int]map[string]bool
		Any    map[string]any
	}
	fill := func(n, step int) input {
		in := input{Labels: map[string]int{}, Any: map[string]any{}, Deep: []map[int]map[string]bool{{}}}
		for i := range n {
			k := (i * step) % n // step and n are coprime, so each key occurs once, in a different order
			in.Labels[string(rune('a'+k))] = k
			in.Any[string(rune('a'+k))] = map[string]any{"k": k}
			in.Deep[0][k] = map[string]bool{"x": true, "y": false, string(rune('a' + k)): true}
		}
		return in
	}
	var ks []string
	for _, step := range []int{1, 3, 7, 11} {
		_, ctx := testkit.Run(t, state.WithRunID("run-1"))
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, func(ctx context.Context, _ input) (string, error) {
			for range 5 {
				ks = append(ks, key(t, ctx))
			}
			return "", nil
		})
		if _, err := d.Event().Execute(ctx, fill(20, step)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "maps", ks, 20)
}

func TestIdempotencyKeyNeedsACall(t *testing.T) {
	_, err := core.IdempotencyKey(t.Context())
	assert.ErrorIs(t, err, core.ErrNoRun)
	_, ctx := testkit.Run(t)
	if _, err := core.IdempotencyKey(ctx); err == nil {
		t.Error("a key outside any call")
	}
	// A call outside a run has no key either.
	_, err = testkit.Call(t.Context(), testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		_, err := core.IdempotencyKey(ctx)
		assert.ErrorIs(t, err, core.ErrNoRun)
		return "", err
	}))
	assert.ErrorIs(t, err, core.ErrNoRun)
}

func TestIdempotencyKeyOfAnInputWithoutEncodingIsAnError(t *testing.T) {
	_, ctx := testkit.Run(t)
	d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, func(ctx context.Context, _ func()) (string, error) {
		return core.IdempotencyKey(ctx)
	})
	if k, err := d.Event().Execute(ctx, func() {}); err == nil {
		t.Errorf("key %q", k)
	}
}
