package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// clone copies a program.
func (n *node) clone() *node {
	c := *n
	c.children = nil
	for _, child := range n.children {
		c.children = append(c.children, child.clone())
	}
	return &c
}

// nodes returns all nodes of a program.
func (n *node) nodes() []*node {
	all := []*node{n}
	for _, child := range n.children {
		all = append(all, child.nodes()...)
	}
	return all
}

// mutate changes one thing in a program, and returns a description of the change.
func (n *node) mutate(rng *rand.Rand) string {
	extra := &node{name: "tool9", kind: record.KindTool}
	all := slices.DeleteFunc(n.nodes(), func(n *node) bool { return len(n.children) == 0 })
	if len(all) == 0 {
		n.children = []*node{extra}
		return "inserted"
	}
	at := all[rng.IntN(len(all))]
	i := rng.IntN(len(at.children))
	switch rng.IntN(5) {
	case 0:
		at.children[i].name += "x"
		return "renamed"
	case 1:
		at.children = slices.Delete(at.children, i, i+1)
		return "removed"
	case 2:
		at.children = slices.Insert(at.children, i, extra)
		return "inserted"
	case 3:
		j := rng.IntN(len(at.children))
		at.children[i], at.children[j] = at.children[j], at.children[i]
		return "swapped"
	}
	at.children = append(at.children, extra)
	return "appended"
}

// steps returns an agent that calls tools by name, in order, each with an input.
func steps(t *testing.T, calls ...string) *testkit.Definition {
	return testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		all := ""
		for _, name := range calls {
			out, err := testkit.Tool(t, name, once, func(context.Context, string) (string, error) { return "of " + name, nil }).Event().Execute(ctx, "in")
			if err != nil {
				return "", err
			}
			all += out + ";"
		}
		return all, nil
	})
}

// stopped begins a run with an agent that is interrupted after its calls.
func stopped(t *testing.T, s snapshot.Store, calls ...string) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	stopping := testkit.Agent(t, "agent", once, func(ctx context.Context, in string) (string, error) {
		for _, name := range calls {
			if _, err := testkit.Tool(t, name, once, func(context.Context, string) (string, error) { return "of " + name, nil }).Event().Execute(ctx, in); err != nil {
				return "", err
			}
		}
		state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
		return "", ctx.Err()
	})
	_, err = stopping.Event().Execute(st.Context(t.Context()), "in")
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())
}

func TestChangedOrderIsRefusedWithTheRecordedCallAndALikelyEdit(t *testing.T) {
	for name, tc := range map[string]struct {
		now  []string
		want []string
	}{
		"renamed":  {[]string{"search", "reserve", "pay"}, []string{"call 2 of agent: recorded agent/book (tool), now agent/reserve (tool)", "inserted or renamed"}},
		"removed":  {[]string{"search", "pay"}, []string{"call 2 of agent: recorded agent/book (tool), now agent/pay (tool)", "was removed", "Prepare"}},
		"inserted": {[]string{"search", "check", "book", "pay"}, []string{"call 2 of agent: recorded agent/book (tool), now agent/check (tool)", "inserted or renamed"}},
		"same":     {[]string{"search", "search", "pay"}, []string{"call 2 of agent: recorded agent/book (tool), now agent/search#2 (tool)"}},
		"shorter":  {[]string{"search", "book"}, []string{"agent ended without its recorded call 3, agent/pay (tool). No other call ran in its place. Run"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fileStore(t, t.TempDir())
			stopped(t, s, "search", "book", "pay")
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), steps(t, tc.now...))
			require.NoError(t, st.Close())
			var d *core.DivergenceError
			require.ErrorAs(t, err, &d)
			require.ErrorIs(t, err, core.ErrInterrupted, "the call has not failed")
			for _, want := range append(tc.want, "reprise --dir DIR fork run-1 'agent/", "state.WithDivergence", "core.Version") {
				assert.ErrorContains(t, err, want)
			}
			info, err := s.Load(t.Context(), "run-1")
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusInterrupted, info.Status)
			assert.Equal(t, snapshot.Stop{Reason: record.InterruptDiverge, Message: d.Difference()}, info.Stop)

			st, err = state.Open(t.Context(), s, "run-1") // with the original program
			require.NoError(t, err)
			out, err := testkit.Call(st.Context(t.Context()), steps(t, "search", "book", "pay"))
			require.NoError(t, err)
			assert.Equal(t, "of search;of book;of pay;", out)
			assert.Equal(t, 3, st.Report().Restored)
			require.NoError(t, st.Close())
		})
	}
}

func TestTrustedDivergenceIsRecordedAndTheRunContinues(t *testing.T) {
	s := fileStore(t, t.TempDir())
	stopped(t, s, "search", "book", "pay")
	run := func(options ...state.Option) error {
		st, err := state.Open(t.Context(), s, "run-1", options...)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), steps(t, "search", "check", "book", "pay"))
		if err == nil {
			assert.Equal(t, "of search;of check;of book;of pay;", out)
		}
		require.NoError(t, st.Close())
		return err
	}
	require.ErrorIs(t, run(), core.ErrDivergence)
	require.NoError(t, run(state.WithDivergence(state.DivergenceTrust)))
	found, err := s.Load(t.Context(), "run-1")
	require.NoError(t, err)
	warnings := 0
	for r, err := range found.Records() {
		require.NoError(t, err)
		if r.Kind == record.KindLog && r.Reason == record.ReasonDivergence {
			warnings++
		}
	}
	assert.Equal(t, 1, warnings)
	require.NoError(t, run(), "a divergence that was trusted is not refused later")
}

func TestRunOfAnotherQuestionIsRefused(t *testing.T) {
	s := memstore.New()
	ask := func(question string) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		_, err = testkit.Agent(t, "agent", once, func(_ context.Context, in string) (string, error) { return "about " + in, nil }).Event().Execute(st.Context(t.Context()), question)
		return err
	}
	require.NoError(t, ask("Oslo"))
	require.NoError(t, ask("Oslo"))
	err := ask("Bergen")
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, "Use a new run ID for another input")

	info, err := s.Info(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status, "the outcome of a run is final")
	assert.Zero(t, info.Stop)
	require.ErrorIs(t, state.Cancel(t.Context(), s, "run-1", snapshot.Stop{By: "ann", Message: "too late"}), state.ErrEnded)
	out, err := state.Result[string](t.Context(), s, "run-1")
	require.NoError(t, err)
	assert.Equal(t, "about Oslo", out)
	require.NoError(t, ask("Oslo"))
}

func TestFinishedRunKeepsItsStatusWhenAReplayOfItIsInterrupted(t *testing.T) {
	s := memstore.New()
	want := errors.New("no")
	ask := func(interrupt bool) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		if interrupt {
			st.Interrupt(snapshot.Stop{By: "ann", Message: "not now"})
		}
		_, err = testkit.Agent(t, "agent", once, func(context.Context, string) (string, error) { return "", want }).Event().Execute(st.Context(t.Context()), "?")
		return err
	}
	require.ErrorContains(t, ask(false), "no")
	require.Error(t, ask(true))
	info, err := s.Info(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusFailed, info.Status)
}

func TestIdentityDecidesWhichInputsDiffer(t *testing.T) {
	type order struct {
		ID    string
		Trace string
		New   *int // a new field, which old callers leave nil
	}
	s := memstore.New()
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "order"}, func(_ context.Context, o order) (string, error) { return o.ID, nil })
	require.NoError(t, err)
	d = d.Identify(func(o order) any { return o.ID })
	run := func(o order) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		_, err = d.Event().Execute(st.Context(t.Context()), o)
		return err
	}
	require.NoError(t, run(order{ID: "7", Trace: "a"}))
	require.NoError(t, run(order{ID: "7", Trace: "b"}))
	require.ErrorIs(t, run(order{ID: "8", Trace: "a"}), core.ErrDivergence)
	for name, f := range map[string]func(order) any{
		"panics": func(order) any { panic("oops") }, "unencodable": func(order) any { return func() {} },
	} {
		ran := false
		d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "order"}, func(context.Context, order) (string, error) { ran = true; return "", nil })
		require.NoError(t, err)
		st, err := state.Open(t.Context(), s, "run-"+name)
		require.NoError(t, err)
		_, err = d.Identify(f).Event().Execute(st.Context(t.Context()), order{})
		require.Error(t, err, name)
		assert.False(t, ran, name)
		require.NoError(t, st.Close())
	}
}

func TestOutputWithFieldsThatItsTypeLostIsRefused(t *testing.T) {
	type before struct {
		Name  string `json:"name"`
		Price int    `json:"price"`
	}
	type after struct {
		Name string `json:"name"`
		Cost int    `json:"cost"`
	}
	s := memstore.New()
	old, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(_ context.Context, price int) (before, error) { return before{"x", price}, nil })
	require.NoError(t, err)
	renamed, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(_ context.Context, price int) (after, error) { return after{"x", price}, nil })
	require.NoError(t, err)
	for id, price := range map[string]int{"priced": 12, "free": 0} {
		st, err := state.Open(t.Context(), s, id)
		require.NoError(t, err)
		_, err = old.Event().Execute(st.Context(t.Context()), price)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		st, err = state.Open(t.Context(), s, id)
		require.NoError(t, err)
		_, err = renamed.Event().Execute(st.Context(t.Context()), price)
		if price == 0 {
			require.NoError(t, err, "nothing is lost")
		} else {
			require.ErrorIs(t, err, core.ErrDivergence)
			require.ErrorContains(t, err, "price: 12")
		}
		require.NoError(t, st.Close())
	}
}

func TestParallelBranchesNeverDivergeByTiming(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			rng := rand.New(rand.NewPCG(seed, 3))
			stop := true
			program := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				inputs := []string{"a", "b", "c", "d"}
				waits := rng.Perm(4)
				tool := testkit.Tool(t, "tool", once, func(ctx context.Context, in string) (string, error) {
					return "of " + in, testkit.Pause(ctx, time.Duration(1+waits[slices.Index(inputs, in)])*time.Second)
				})
				out, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1 + rng.IntN(4)}, tool, inputs)
				if err == nil && stop {
					state.From(ctx).Interrupt(snapshot.Stop{})
					return "", ctx.Err()
				}
				return fmt.Sprint(out), err
			})
			for range 3 {
				st, err := state.Open(t.Context(), s, "run-1")
				require.NoError(t, err)
				out, err := testkit.Call(st.Context(t.Context()), program)
				if !stop {
					require.NoError(t, err)
					assert.Equal(t, "[of a of b of c of d]", out)
				}
				require.NoError(t, st.Close())
				stop = false
			}
		})
	}
}

func TestEachClaimIsListedOnce(t *testing.T) {
	s := memstore.New()
	for opening := range 3 {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			for i := range 4 * (opening + 1) {
				if _, err := testkit.Call(ctx, testkit.Tool(t, fmt.Sprint("tool", i), once, testkit.Succeed)); err != nil {
					return "", err
				}
			}
			prepared := make([]*core.PreparedCall[string, string], 4)
			for i := range prepared {
				prepared[i] = testkit.Tool(t, "prepared", once, testkit.Succeed).Event().Prepare(ctx, "in")
			}
			if opening < 2 {
				state.From(ctx).Interrupt(snapshot.Stop{})
				return "", ctx.Err()
			}
			for _, p := range slices.Backward(prepared) {
				if _, err := p.Execute(ctx); err != nil {
					return "", err
				}
			}
			return "", nil
		})
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.Equal(t, opening < 2, err != nil, "%v", err)
		require.NoError(t, st.Close())
	}
	found, err := s.Load(t.Context(), "run-1")
	require.NoError(t, err)
	listed := make(map[record.Address]int)
	for r, err := range found.Records() {
		require.NoError(t, err)
		if r.Detail != nil {
			for _, c := range r.Detail.Unrecorded {
				listed[c.Address]++
			}
		}
	}
	want := make(map[record.Address]int)
	for _, path := range []string{"agent/prepared", "agent/prepared#2", "agent/prepared#3"} {
		a, err := record.ParseAddress(path)
		require.NoError(t, err)
		want[a] = 1
	}
	assert.Equal(t, want, listed)
}
