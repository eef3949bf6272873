package state_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// shelf is a store of several runs, each on a tape.
type shelf struct {
	snapshot.Store
	tapes map[string]*tape
}

func (s *shelf) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if s.tapes[runID] == nil {
		s.tapes[runID] = new(tape)
	}
	return s.tapes[runID].Open(ctx, runID, o)
}

func (s *shelf) Messages(context.Context, string) ([]snapshot.Message, error) { return nil, nil }

func (s *shelf) Create(_ context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if s.tapes[run.RunID] != nil {
		return snapshot.Info{}, snapshot.ErrExists
	}
	created, err := run.Snapshot()
	s.tapes[run.RunID] = &tape{records: created.Records}
	return run.Info, err
}

func (s *shelf) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if s.tapes[runID] == nil {
		return nil, snapshot.ErrNotFound
	}
	return s.tapes[runID].Load(ctx, runID)
}

func TestForkKeepsWhatCameBeforeAndMakesTheRestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "agent", kind: record.KindAgent, loops: 1, children: []*node{
			{name: "a", kind: record.KindTool},
			{name: "inner", kind: record.KindAgent, loops: 1, children: []*node{
				{name: "b", kind: record.KindTool, failures: 1}, {name: "c", kind: record.KindTool},
			}},
			{name: "d", kind: record.KindTool},
		}}
		whole := new(tape)
		want := resumed(t, whole, newEffects(), program)
		store := &shelf{tapes: map[string]*tape{"old": whole}}
		before := slices.Clone(whole.records)

		at, err := record.ParseAddress("agent/inner/c")
		require.NoError(t, err)
		require.NoError(t, state.Fork(t.Context(), store, "old", at, "new", state.ForkOptions{}))
		st, err := state.Open(t.Context(), store, "new")
		require.NoError(t, err)
		e := newEffects()
		got, err := e.call(t, st.Context(t.Context()), program)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Equal(t, want, got)
		assert.Equal(t, map[string]int{"agent/inner/c": 1, "agent/d": 1}, e.ran)
		assert.Equal(t, before, whole.records, "the old run is never written to")

		none, err := record.ParseAddress("agent/nobody")
		require.NoError(t, err)
		require.ErrorContains(t, state.Fork(t.Context(), store, "old", none, "third", state.ForkOptions{}),
			`state: fork run old: no call at "agent/nobody"; want one of `)
		_, err = store.Load(t.Context(), "third")
		require.ErrorIs(t, err, snapshot.ErrNotFound, "no fork is created")
		require.ErrorContains(t, state.Fork(t.Context(), store, "old", at, "new", state.ForkOptions{}), "run new already exists")
		require.ErrorIs(t, state.Fork(t.Context(), store, "lost", at, "third", state.ForkOptions{}), snapshot.ErrNotFound)
	})
}

// A fork leaves out calls that had no outcome, but knows that they were claimed.
// So the same program can continue the fork.
func TestForkKnowsClaimsThatItDoesNotKeep(t *testing.T) {
	s := memstore.New()
	first := true
	program, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ string) (string, error) {
		slow := testkit.Tool(t, "slow", once, func(ctx context.Context, _ string) (string, error) {
			if first {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "slow", nil
		}).Event().Prepare(ctx, "in")
		out, err := testkit.Call(ctx, testkit.Tool(t, "quick", once, testkit.Succeed))
		if err != nil {
			return "", err
		}
		if first {
			if _, err := testkit.Call(ctx, testkit.Tool(t, "last", once, testkit.Succeed)); err != nil {
				return "", err
			}
			state.From(ctx).Interrupt(snapshot.Stop{})
		}
		late, err := slow.Execute(ctx)
		if err != nil {
			return "", err
		}
		last, err := testkit.Call(ctx, testkit.Tool(t, "last", once, testkit.Succeed))
		return out + late + last, err
	})
	require.NoError(t, err)
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), program)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())
	at, err := record.ParseAddress("agent/last")
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), s, "run-1", at, "run-2", state.ForkOptions{}))
	info, err := s.Info(t.Context(), "run-2")
	require.NoError(t, err)
	assert.Equal(t, "fork: this run was forked from run run-1 at "+at.String(), info.Stop.String(), "not a crash")
	first = false
	st, err = state.Open(t.Context(), s, "run-2")
	require.NoError(t, err)
	out, err := testkit.Call(st.Context(t.Context()), program)
	require.NoError(t, err)
	assert.Equal(t, "outslowout", out)
	require.NoError(t, st.Close())
}

func TestChangedInputIsTrustedAndReportedOrFails(t *testing.T) {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	require.NoError(t, err)
	tape := new(tape)
	var published []any
	listen := testkit.Publisher(func(r record.Record) {
		if r.Status == record.StatusRecovered && r.Detail != nil {
			published = append(published, r.Detail.Metadata["diverged"])
		}
	})
	run := func(in int, options ...state.Option) (int, state.Report, error) {
		published = nil
		options = append(options, state.WithPublisher(listen))
		st, err := state.Open(t.Context(), tape, "run-1", options...)
		require.NoError(t, err)
		defer st.Close()
		out, err := d.Event().Execute(st.Context(t.Context()), in)
		return out, st.Report(), err
	}
	out, _, err := run(1)
	require.NoError(t, err)
	require.Equal(t, 2, out)

	out, report, err := run(5, state.WithDivergence(state.DivergenceTrust))
	require.NoError(t, err)
	assert.Equal(t, 2, out, "the outcome recorded at the address is used")
	assert.Equal(t, []any{true}, published)
	require.Len(t, report.Diverged, 1)
	assert.Equal(t, "tool", report.Diverged[0].String())

	_, _, err = run(5)
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.ErrorContains(t, err, "Use a new run ID for another input")
	out, report, err = run(1)
	require.NoError(t, err)
	assert.Equal(t, 2, out)
	assert.Empty(t, report.Diverged)
	assert.Equal(t, []any{nil}, published)
}

func TestOutputOfAnotherTypeIsAnErrorThatNamesTheAddress(t *testing.T) {
	type before struct {
		Name string `json:"name"`
	}
	type after struct {
		Name int `json:"name"`
	}
	tape := new(tape)
	old, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (before, error) { return before{"x"}, nil })
	require.NoError(t, err)
	st, err := state.Open(t.Context(), tape, "run-1")
	require.NoError(t, err)
	_, err = old.Event().Execute(st.Context(t.Context()), 1)
	require.NoError(t, err)
	require.NoError(t, st.Close())

	changed, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (after, error) { return after{}, nil })
	require.NoError(t, err)
	st, err = state.Open(t.Context(), tape, "run-1")
	require.NoError(t, err)
	defer st.Close()
	_, err = changed.Event().Execute(st.Context(t.Context()), 1)
	var d *core.DivergenceError
	require.ErrorAs(t, err, &d)
	assert.Equal(t, "output", d.How)
	require.ErrorContains(t, err, "the recorded output of tool does not fit its type: codec: decode into *state_test.after: name: got a string, want int")
}

// A branch next to the one in which the fork begins had received an answer and continued. It has
// not ended, so it asks again in the fork. The calls that it made after the answer keep their
// positions in the order.
func TestForkNextToABranchThatHasItsAnswer(t *testing.T) {
	s := memstore.New()
	noted, begun := make(chan struct{}), make(chan struct{})
	first := true
	effects := map[string]int{}
	var mu sync.Mutex
	tool := func(name string) *testkit.Definition {
		return testkit.Tool(t, name, once, func(context.Context, string) (string, error) {
			mu.Lock()
			effects[name]++
			mu.Unlock()
			if first && name == "send" {
				close(begun)
			}
			return name, nil
		})
	}
	note, sent, after := tool("note"), tool("send"), tool("after")
	branch := func(name, question string, calls ...*testkit.Definition) func(context.Context) (string, error) {
		return calling(testkit.Agent(t, name, once, func(ctx context.Context, _ string) (string, error) {
			if _, err := core.Await[string](ctx, question); err != nil {
				return "", err
			}
			if first && name == "sender" {
				<-noted
			}
			for i, call := range calls {
				if first && i == 1 {
					<-begun
				}
				if _, err := testkit.Call(ctx, call); err != nil {
					return "", err
				}
				if first && name == "writer" && i == 0 {
					close(noted) // its outcome is recorded, so a fork before send keeps it
				}
			}
			return name, nil
		}))
	}
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		out, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 2}, branch("writer", "write?", note, after), branch("sender", "send?", sent))
		return strings.Join(out, " "), err
	})
	finish := func(runID string) (out string) {
		for range 3 {
			st, err := state.Open(t.Context(), s, runID)
			require.NoError(t, err)
			out, err = testkit.Call(st.Context(t.Context()), agent)
			require.NoError(t, st.Close())
			if err == nil {
				return out
			}
			require.ErrorIs(t, err, core.ErrAwaiting)
			open, err := state.Questions(t.Context(), s, runID)
			require.NoError(t, err)
			for _, q := range open {
				require.NoError(t, state.Answer(t.Context(), s, runID, q.ID, "", "yes"))
			}
		}
		require.FailNow(t, "the run does not end")
		return ""
	}
	want := finish("old")
	first = false
	require.NoError(t, state.Fork(t.Context(), s, "old", testkit.Address(t, "agent/group:g/2/sender/send"), "new", state.ForkOptions{}))
	assert.Equal(t, want, finish("new"))
	assert.Equal(t, map[string]int{"note": 1, "after": 2, "send": 2}, effects)
}

func TestForkAtNoCallListsTheCalls(t *testing.T) {
	tool := testkit.Tool(t, "look", once, testkit.Succeed)
	for calls, want := range map[int]string{
		0:  `state: fork run old: no call at "agent/nobody"; the run has no calls to fork at`,
		2:  `state: fork run old: no call at "agent/nobody"; want one of look, look#2`,
		12: `want one of the run's 12 calls; the first are look, look#2, look#3, look#4, look#5, look#6, look#7, look#8, look#9, look#10`,
	} {
		store := memstore.New()
		st, err := state.Open(t.Context(), store, "old")
		require.NoError(t, err)
		for range calls {
			_, err := testkit.Call(st.Context(t.Context()), tool)
			require.NoError(t, err)
		}
		require.NoError(t, st.Close())
		before := testkit.LoadRun(t, store, "old")
		require.ErrorContains(t, state.Fork(t.Context(), store, "old", testkit.Address(t, "agent/nobody"), "new", state.ForkOptions{}), want)
		_, err = store.Load(t.Context(), "new")
		require.ErrorIs(t, err, snapshot.ErrNotFound, "no fork is created")
		assert.Equal(t, before, testkit.LoadRun(t, store, "old"))
	}
}
