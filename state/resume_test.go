package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// tape is a store of one run that holds records and nothing else, so that a
// test can cut it anywhere.
type tape struct {
	snapshot.Store
	mu      sync.Mutex
	records []core.Record
	fail    error // of Append
}

func (s *tape) Open(_ context.Context, runID string, _ snapshot.OpenOptions) (snapshot.Journal, error) {
	return &tapeJournal{s, &snapshot.Snapshot{Info: snapshot.Info{RunID: runID}, Records: slices.Clone(s.records)}}, nil
}

func (s *tape) Load(_ context.Context, runID string) (*snapshot.Snapshot, error) {
	return &snapshot.Snapshot{Info: snapshot.Info{RunID: runID}, Records: slices.Clone(s.records)}, nil
}

// cut is a tape with the first n records.
func (s *tape) cut(n int) *tape { return &tape{records: slices.Clone(s.records[:n])} }

type tapeJournal struct {
	tape  *tape
	found *snapshot.Snapshot
}

func (j *tapeJournal) Restored() *snapshot.Snapshot { return j.found }
func (j *tapeJournal) Sync(uint64) error            { return nil }
func (j *tapeJournal) Close(snapshot.Status) error  { return nil }

func (j *tapeJournal) Append(records ...core.Record) error {
	j.tape.mu.Lock()
	defer j.tape.mu.Unlock()
	if j.tape.fail != nil {
		return j.tape.fail
	}
	for _, r := range records {
		if want := uint64(len(j.tape.records)) + 1; r.Seq != want {
			return fmt.Errorf("record %d comes as number %d", r.Seq, want)
		}
		if r.Err != nil && r.Status != core.StatusInterrupted {
			r.Err = core.Recorded(r.Err) // as from a file
		}
		j.tape.records = append(j.tape.records, r)
	}
	return nil
}

// node is a call of a random program.
type node struct {
	name     string
	kind     core.Kind
	failures int  // attempts that fail before one succeeds
	fatal    bool // it fails for good instead
	takes    time.Duration
	guarded  bool // a precondition writes a value, which the handler reads in the end
	children []*node
	parallel bool
	failFast bool // the children are a group that fails with the first of them
	loops    int
}

func randomTree(rng *rand.Rand, depth int) *node {
	n := &node{name: fmt.Sprintf("agent%d", rng.IntN(3)), kind: core.KindAgent, loops: 1 + rng.IntN(2), parallel: rng.IntN(3) == 0}
	// What would be stopped in a group depends on time, and so would what it
	// comes to, if there were more than leaves in it.
	n.failFast = rng.IntN(4) == 0
	n.guarded = rng.IntN(3) == 0
	for i := range 1 + rng.IntN(3) {
		if depth > 0 && !n.failFast && rng.IntN(3) == 0 {
			n.children = append(n.children, randomTree(rng, depth-1))
			continue
		}
		leaf := &node{name: fmt.Sprintf("tool%d", rng.IntN(2)), kind: core.KindTool}
		if n.failFast {
			leaf.takes = time.Duration(1+(5*i+3)%7) * time.Minute // no two at once
		}
		switch rng.IntN(5) {
		case 0:
			leaf.failures = 1 + rng.IntN(2)
		case 1:
			leaf.fatal = true
		case 2:
			leaf.kind, leaf.name = core.KindStep, fmt.Sprintf("step%d", rng.IntN(2))
		}
		leaf.guarded = leaf.kind == core.KindTool && !n.failFast && rng.IntN(3) == 0
		n.children = append(n.children, leaf)
	}
	return n
}

// effects counts how often the handler of each leaf ran and how often it
// succeeded, by address.
type effects struct {
	mu        sync.Mutex
	ran       map[string]int
	succeeded map[string]int
}

func newEffects() *effects { return &effects{ran: map[string]int{}, succeeded: map[string]int{}} }

// call makes the call of a node.
func (e *effects) call(t testing.TB, ctx context.Context, n *node) (string, error) {
	if n.kind == core.KindStep {
		return core.Step(ctx, n.name, func(ctx context.Context) (string, error) { return e.leaf(ctx, n) })
	}
	spec := core.Spec{Kind: n.kind, Name: n.name}
	if n.kind == core.KindTool {
		spec.Retry = &core.RetryConfig{MaxAttempts: 5, InitialDelay: time.Hour, MaxDelay: time.Hour}
	}
	d, err := core.NewDefinition(spec, func(ctx context.Context, _ int) (string, error) {
		if n.kind == core.KindTool {
			return e.leaf(ctx, n)
		}
		return e.agent(t, ctx, n)
	})
	require.NoError(t, err)
	if n.guarded {
		d = d.Require(func(ctx context.Context, _ int) error { return state.Put(ctx, valueKey(ctx), "written") })
	}
	return d.Event().Execute(ctx, 1)
}

// valueKey is what the precondition of the call writes.
func valueKey(ctx context.Context) string { return "of " + core.ScopeOf(ctx).Address().String() }

// values are those that everyone sees, of all that the records tell of.
func values(t testing.TB, ctx context.Context, records []core.Record) map[string]string {
	t.Helper()
	seen := make(map[string]string)
	for i := range records {
		if r := &records[i]; r.Kind == core.KindValue {
			v, ok, err := state.Get[string](ctx, r.Name)
			require.NoError(t, err)
			if ok {
				seen[r.Name] = v
			}
		}
	}
	return seen
}

// guard is an error unless the handler sees what its precondition wrote.
func (n *node) guard(ctx context.Context) error {
	if v, _, err := state.Get[string](ctx, valueKey(ctx)); err != nil || n.guarded && v != "written" {
		return fmt.Errorf("%w: the value of its precondition is %q, %w", errFatal, v, err)
	}
	return nil
}

func (e *effects) leaf(ctx context.Context, n *node) (string, error) {
	s := core.ScopeOf(ctx)
	address := s.Address().String()
	e.mu.Lock()
	e.ran[address]++
	e.mu.Unlock()
	if err := pause(ctx, n.takes); err != nil {
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
	return "result of " + address, n.guard(ctx)
}

var errFatal = errors.New("fatal")

func init() { core.RegisterError("state_test.fatal", errFatal) }

func (e *effects) agent(t testing.TB, ctx context.Context, n *node) (string, error) {
	var all []string
	for range n.loops {
		results := make([]string, len(n.children))
		one := func(ctx context.Context, i int) {
			out, err := e.call(t, ctx, n.children[i])
			if errors.Is(err, errFatal) {
				out = "fatal" // an agent that takes its branch by the error
			} else if err != nil {
				out = err.Error()
			}
			results[i] = out
		}
		switch {
		case n.failFast:
			results = e.failFast(t, ctx, n)
		case !n.parallel:
			for i := range n.children {
				one(ctx, i)
			}
		default:
			g := core.NewGroup(ctx, "g")
			var wg sync.WaitGroup
			for i := range n.children {
				branch := g.Branch(i + 1)
				wg.Go(func() { one(branch, i) })
			}
			wg.Wait()
			g.Cancel(nil)
		}
		all = append(all, results...)
	}
	return strings.Join(all, ";"), n.guard(ctx)
}

// failFast makes the children as branches of a group that fails with the first
// of them.
func (e *effects) failFast(t testing.TB, ctx context.Context, n *node) []string {
	branches := make([]func(context.Context) (string, error), len(n.children))
	for i, child := range n.children {
		branches[i] = func(ctx context.Context) (string, error) { return e.call(t, ctx, child) }
	}
	results, err := actors.Parallel(ctx, actors.Group{Name: "fast"}, branches...)
	if err != nil {
		results = []string{fmt.Sprint("the group failed, fatally: ", errors.Is(err, errFatal))}
	}
	return results
}

// TestRunCutAnywhereResumesToTheSameResult is the model: a random program of
// nested, parallel and repeated calls is cut at every record boundary and
// resumed. It must come to what the uncut run came to, without running again
// what had succeeded.
func TestRunCutAnywhereResumesToTheSameResult(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				program := randomTree(rand.New(rand.NewPCG(seed, 7)), 2)
				whole := new(tape)
				first := newEffects()
				want, left := resumedWithValues(t, whole, first, program)
				for n := 1; n < len(whole.records); n++ {
					if whole.records[n-1].WillRetry {
						continue // it and its retrying record are one
					}
					if openStep(whole.records[:n]) {
						continue // it has no second attempt, see TestStepCutInTheMiddleIsInDoubt
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

func resumed(t testing.TB, s *tape, e *effects, program *node) string {
	t.Helper()
	out, _ := resumedWithValues(t, s, e, program)
	return out
}

// resumedWithValues returns what the program came to, and the values it left.
func resumedWithValues(t testing.TB, s *tape, e *effects, program *node) (string, map[string]string) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1", state.WithSeed(1))
	require.NoError(t, err)
	defer st.Close()
	ctx := st.Context(t.Context())
	out, err := e.call(t, ctx, program)
	require.NoError(t, err)
	return out, values(t, ctx, s.records)
}

// openStep reports whether a step was begun and has not ended.
func openStep(records []core.Record) bool {
	open := make(map[core.Address]bool)
	for i := range records {
		if r := &records[i]; r.Kind == core.KindStep {
			open[r.Address] = !r.IsOutcome()
		}
	}
	for _, is := range open {
		if is {
			return true
		}
	}
	return false
}

func TestStepCutInTheMiddleIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "step", kind: core.KindStep}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		n := slices.IndexFunc(whole.records, func(r core.Record) bool { return r.Status == core.StatusStarted && r.Kind == core.KindStep }) + 1
		st, err := state.Open(t.Context(), whole.cut(n), "run-1")
		require.NoError(t, err)
		defer st.Close()
		e := newEffects()
		_, err = e.call(t, st.Context(t.Context()), program)
		require.ErrorIs(t, err, core.ErrInDoubt)
		assert.Empty(t, e.ran)
	})
}

func completedLeaves(records []core.Record) map[string]bool {
	done := make(map[string]bool)
	for i := range records {
		if r := &records[i]; r.IsOutcome() && r.Kind != core.KindAgent {
			done[r.Address.String()] = true
		}
	}
	return done
}

// failedGroups are the paths of the groups that fail fast and have a recorded
// failure.
func failedGroups(records []core.Record) []string {
	var paths []string
	for i := range records {
		r := &records[i]
		path, _, found := strings.Cut(r.Address.String(), "/group:fast")
		if found && r.IsOutcome() && r.Status == core.StatusFailed {
			rest := strings.TrimPrefix(r.Address.String(), path+"/")
			name, _, _ := strings.Cut(rest, "/")
			paths = append(paths, path+"/"+name)
		}
	}
	return paths
}

func requireAttemptsWithin(t testing.TB, records []core.Record, most int) {
	t.Helper()
	for i := range records {
		require.Less(t, records[i].Attempt, most, "%s", records[i].Address)
	}
}

func TestReplayOfAFinishedRunExecutesNothingAndWaitsForNothing(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			program := randomTree(rand.New(rand.NewPCG(seed, 7)), 2)
			whole := new(tape)
			want := resumed(t, whole, newEffects(), program)
			begin, again := time.Now(), newEffects()
			kept := len(whole.records)

			st, err := state.Replay(t.Context(), whole, "run-1")
			require.NoError(t, err)
			got, err := again.call(t, st.Context(t.Context()), program)
			require.NoError(t, err)
			require.NoError(t, st.Close())
			assert.Equal(t, want, got)
			assert.Empty(t, again.ran)
			assert.Zero(t, time.Since(begin), "virtual time has not moved")
			assert.Len(t, whole.records, kept, "nothing is written")
			assert.Equal(t, 1, st.Report().Restored, "the root call answers for all inside it")
		})
	}
}

func TestStrictReplayRefusesWhatWasNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "agent", kind: core.KindAgent, loops: 1, children: []*node{{name: "a", kind: core.KindTool}, {name: "b", kind: core.KindTool}}}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		n := slices.IndexFunc(whole.records, func(r core.Record) bool { return r.Name == "b" })
		st, err := state.Replay(t.Context(), whole.cut(n), "run-1")
		require.NoError(t, err)
		defer st.Close()
		again := newEffects()
		out, err := again.call(t, st.Context(t.Context()), program)
		require.NoError(t, err)
		assert.Contains(t, out, core.ErrNotRecorded.Error())
		assert.Empty(t, again.ran)
	})
}

func TestRestOfAWaitIsWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "tool", kind: core.KindTool, failures: 1}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		n := slices.IndexFunc(whole.records, func(r core.Record) bool { return r.Status == core.StatusRetrying }) + 1
		delay := whole.records[n-1].Delay
		due := whole.records[n-1].NextAttemptAt()

		cut := whole.cut(n) // the process died right after the promise, long ago
		begin := time.Now()
		resumed(t, cut, newEffects(), program)
		assert.Zero(t, time.Since(begin), "the time that the process was down counts")
		assert.True(t, due.Before(begin) || due.Equal(begin))

		fresh := whole.cut(n)
		for i := range fresh.records {
			fresh.records[i].Time = fresh.records[i].Time.Add(time.Since(due) + delay/2)
		}
		begin = time.Now()
		resumed(t, fresh, newEffects(), program)
		assert.Equal(t, delay/2, time.Since(begin))
	})
}

func TestFailureIsRecalledAsTheErrorItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := &node{name: "tool", kind: core.KindTool, fatal: true}
		whole := new(tape)
		run := func(options ...state.Option) (*effects, error) {
			st, err := state.Open(t.Context(), whole, "run-1", options...)
			require.NoError(t, err)
			defer st.Close()
			e := newEffects()
			_, err = e.call(t, st.Context(t.Context()), fatal)
			return e, err
		}
		_, live := run()
		e, again := run()
		assert.Empty(t, e.ran)
		assert.Equal(t, live.Error(), again.Error())
		require.ErrorIs(t, again, errFatal)
		require.ErrorIs(t, again, core.ErrPermanent)
		var failed *core.CallError
		require.ErrorAs(t, again, &failed)
		assert.Equal(t, 1, failed.Attempts)

		fatal.fatal = false // what was wrong is mended
		e, mended := run(state.RerunFailed())
		require.NoError(t, mended)
		assert.Equal(t, map[string]int{"tool": 1}, e.ran)
	})
}

func TestRerunFailedKeepsFinishedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		good, bad := 0, 0
		agent := func(ctx context.Context, _ int) (string, error) {
			for name, f := range map[string]func() error{"good": func() error { good++; return nil }} {
				if _, err := core.Step(ctx, name, func(context.Context) (int, error) { return 1, f() }); err != nil {
					return "", err
				}
			}
			return core.Step(ctx, "bad", func(context.Context) (string, error) {
				if bad++; down {
					return "", errors.New("the service is down")
				}
				return "up", nil
			})
		}
		d, err := core.NewDefinition(core.Spec{Kind: core.KindAgent, Name: "agent"}, agent)
		require.NoError(t, err)
		whole := new(tape)
		run := func(options ...state.Option) (string, error) {
			st, err := state.Open(t.Context(), whole, "run-1", options...)
			require.NoError(t, err)
			defer st.Close()
			return d.Event().Execute(st.Context(t.Context()), 1)
		}
		_, err = run()
		require.ErrorContains(t, err, "the service is down")
		down = false
		_, err = run()
		require.ErrorContains(t, err, "the service is down", "reopened, it fails again")
		out, err := run(state.RerunFailed())
		require.NoError(t, err)
		assert.Equal(t, "up", out)
		assert.Equal(t, 1, good, "no finished call ran twice")
		assert.Equal(t, 2, bad)
		out, err = run()
		require.NoError(t, err)
		assert.Equal(t, "up", out)
	})
}

func TestCallThatEndsItsProcessEachTimeFailsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "tool", kind: core.KindTool}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		started := slices.IndexFunc(whole.records, func(r core.Record) bool { return r.Status == core.StatusStarted && r.Kind == core.KindTool }) + 1
		tape := whole.cut(started)
		for crash := range 5 {
			before := len(tape.records)
			st, err := state.Open(t.Context(), tape, "run-1")
			require.NoError(t, err)
			e := newEffects()
			_, err = e.call(t, st.Context(t.Context()), program)
			require.NoError(t, st.Close())
			if crash == 4 {
				require.ErrorIs(t, err, core.ErrInDoubt)
				assert.Empty(t, e.ran)
				return
			}
			require.NoError(t, err)
			// The process ended in the attempt instead.
			begun := slices.IndexFunc(tape.records[before:], func(r core.Record) bool { return r.Kind == core.KindTool })
			tape = tape.cut(before + begun + 1)
		}
	})
}

func TestAgentThatEndsItsProcessEachTimeFailsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := 0
		d, err := core.NewDefinition(core.Spec{Kind: core.KindAgent, Name: "agent"}, func(context.Context, int) (int, error) {
			entered++
			return 1, nil
		})
		require.NoError(t, err)
		tape := new(tape)
		for range 10 {
			st, err := state.Open(t.Context(), tape, "run-1")
			require.NoError(t, err)
			before := len(tape.records)
			_, err = d.Event().Execute(st.Context(t.Context()), 1)
			require.NoError(t, st.Close())
			if errors.Is(err, core.ErrInDoubt) {
				assert.Equal(t, 5, entered)
				return
			}
			require.NoError(t, err)
			tape = tape.cut(before + 1) // its started record
		}
		t.Fatal("it was entered for ever")
	})
}

func TestValuesComeBackWithTheOutcomeOfTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, err := core.NewDefinition(core.Spec{Kind: core.KindTool, Name: "writer"}, func(ctx context.Context, v string) (string, error) {
			return v, state.Put(ctx, "key", v)
		})
		require.NoError(t, err)
		var early []bool
		agent, err := core.NewDefinition(core.Spec{Kind: core.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
			_, ok, err := state.Get[string](ctx, "key")
			if err != nil {
				return "", err
			}
			early = append(early, ok)
			if _, err := writer.Event().Execute(ctx, "value"); err != nil {
				return "", err
			}
			got, _, err := state.Get[string](ctx, "key")
			return got, err
		})
		require.NoError(t, err)
		whole := new(tape)
		run := func(s *tape) string {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			defer st.Close()
			out, err := agent.Event().Execute(st.Context(t.Context()), 1)
			require.NoError(t, err)
			got, ok, err := state.Get[string](st.Context(t.Context()), "key")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "value", got)
			return out
		}
		assert.Equal(t, "value", run(whole))
		n := slices.IndexFunc(whole.records, func(r core.Record) bool { return r.Name == "writer" && r.Status == core.StatusCompleted }) + 1
		assert.Equal(t, "value", run(whole.cut(n)))
		assert.Equal(t, "value", run(whole))
		assert.Equal(t, []bool{false, false}, early, "not before the call that wrote it was recalled")
	})
}

func TestOutcomeThatCannotBeStoredIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(tape)
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		d, err := core.NewDefinition(core.Spec{Kind: core.KindTool, Name: "tool"}, func(context.Context, int) (int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fail = errors.New("no space left")
			return 1, nil
		})
		require.NoError(t, err)
		_, err = d.Event().Execute(st.Context(t.Context()), 1)
		require.ErrorIs(t, err, state.ErrStore)
		require.ErrorContains(t, err, "no space left")
		require.ErrorIs(t, st.Close(), state.ErrStore)
		assert.Equal(t, state.StatusInterrupted, st.Status())
	})
}
