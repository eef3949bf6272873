package state_test

import (
	"cmp"
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
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// isAfter reports whether the call at address ran after the one at diverged, and
// is not in another branch of the same group.
func isAfter(order []string, address, diverged string) bool {
	a, b := strings.Split(address, "/"), strings.Split(diverged, "/")
	common := 0
	for common < min(len(a), len(b)) && a[common] == b[common] {
		common++
	}
	if common > 0 && strings.HasPrefix(a[common-1], "group:") {
		return false
	}
	return slices.Index(order, address) > slices.Index(order, diverged)
}

// TestChangedInputRunsAgainWithWhatFollows changes the input of one call of a random program whose
// surrounding calls have not ended. The resumed program must have the same result as one that runs
// from the beginning. It must run that call and all calls after it, but no other finished call,
// even if it is stopped and resumed once more.
func TestChangedInputRunsAgainWithWhatFollows(t *testing.T) {
	for seed := range testkit.Seeds(100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { changeInput(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func changeInput(t *testing.T, rng *rand.Rand) {
	program := randomTree(rng, 2)
	program.collectAll()
	whole, first := new(tape), newEffects()
	resumed(t, whole, first, program)
	changed, begun := pickChange(rng, whole.records)
	if begun == nil {
		return // the program has no tool, or cannot be stopped at that record
	}
	anew := newEffects()
	anew.changed = first.places[changed]
	want, left := resumedWithValues(t, new(tape), anew, program)
	finished := completedLeaves(begun)

	tape := &tape{records: slices.Clone(begun)}
	again := newEffects()
	again.changed = anew.changed
	got, leftAgain := resumedWithValues(t, tape, again, program, state.WithDivergence(state.DivergenceRerun))
	require.Equal(t, want, got)
	require.Equal(t, left, leftAgain)
	for address := range anew.ran {
		runs := !finished[address] || address == changed || isAfter(anew.order, address, changed)
		require.Equal(t, runs, again.ran[address] > 0, "%s ran, and %s has another input", address, changed)
	}
	for n := len(begun); n < len(tape.records); n++ {
		if tape.records[n-1].WillRetry {
			continue
		}
		policies := map[string]state.DivergencePolicy{"rerun": state.DivergenceRerun}
		if slices.ContainsFunc(tape.records[:n], func(r record.Record) bool { return r.Reason == record.ReasonDivergence }) {
			policies["trust"] = state.DivergenceTrust // the divergence is recorded, so the run continues
		}
		for name, policy := range policies {
			third := newEffects()
			third.changed = anew.changed
			got, leftAgain := resumedWithValues(t, tape.cut(n), third, program, state.WithDivergence(policy))
			require.Equal(t, want, got, "%s, cut after record %d", name, n)
			require.Equal(t, left, leftAgain, "values, %s, cut after record %d", name, n)
			done := completedLeaves(tape.records[len(begun):n])
			for address := range third.ran {
				require.NotZero(t, again.ran[address], "%s ran, %s, cut after record %d", address, name, n)
				require.False(t, done[address], "%s ran again, %s, cut after record %d", address, name, n)
			}
		}
	}
}

// pickChange picks a tool call whose input will change, and cuts the records at a point where that
// call has begun and no call around it has ended.
func pickChange(rng *rand.Rand, records []record.Record) (address string, begun []record.Record) {
	var starts []int
	for i := range records {
		if r := &records[i]; r.Kind == record.KindTool && r.Status == record.StatusStarted && r.Attempt == 0 {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 {
		return "", nil
	}
	i := starts[rng.IntN(len(starts))]
	address = records[i].Address.String()
	end := i + 1
	for end < len(records) && (!records[end].IsOutcome() || !strings.HasPrefix(address, records[end].Address.String()+"/")) {
		end++
	}
	n := i + 1 + rng.IntN(end-i)
	if records[n-1].WillRetry {
		return "", nil
	}
	return address, records[:n]
}

func (n *node) collectAll() {
	n.failFast = false
	for _, child := range n.children {
		child.takes = 0
		child.collectAll()
	}
}

func TestDivergenceIsInRecordsAndReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "agent", kind: record.KindAgent, loops: 1, children: []*node{{name: "tool", kind: record.KindTool}, {name: "other", kind: record.KindTool}}}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		tape := whole.cut(len(whole.records) - 2)
		st, err := state.Open(t.Context(), tape, "run-1", state.WithDivergence(state.DivergenceRerun))
		require.NoError(t, err)
		defer st.Close()
		e := newEffects()
		e.changed = "root/0.0"
		_, err = e.call(t, st.Context(t.Context()), program)
		require.NoError(t, err)
		require.Len(t, st.Report().Diverged, 1)
		assert.Equal(t, "agent/tool", st.Report().Diverged[0].String())
		var lines []string
		for _, r := range testkit.Records(t, st)[len(whole.records)-2:] {
			lines = append(lines, fmt.Sprint(r.Kind, " ", r.Address, " ", r.Status, " ", r.Reason))
		}
		assert.Equal(t, []string{
			"run  started ", "agent_call agent started lost",
			"log agent/tool recorded divergence", "tool_call agent/tool started divergence", "tool_call agent/tool completed ",
			"tool_call agent/other started divergence", "tool_call agent/other completed ", "agent_call agent completed ",
		}, lines)
	})
}

func TestQuestionOfACallWithAnotherInputIsAskedAgain(t *testing.T) {
	amount := 5
	refund, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "refund"}, func(ctx context.Context, amount int) (string, error) {
		approved, err := core.Await[bool](ctx, fmt.Sprint("refund ", amount, "?"))
		return fmt.Sprint(amount, " ", approved), err
	})
	require.NoError(t, err)
	refund = refund.Require(func(ctx context.Context, _ int) error {
		_, err := core.Await[bool](ctx, "sure?")
		return err
	})
	stop := true
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
		out, err := refund.Event().Execute(ctx, amount)
		if err == nil && stop {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return out, err
	})
	require.NoError(t, err)
	tape := new(tape)
	run := func() (string, error) {
		st, err := state.Open(t.Context(), tape, "run-1", state.WithDivergence(state.DivergenceRerun))
		require.NoError(t, err)
		defer st.Close()
		return d.Event().Execute(st.Context(t.Context()), 1)
	}
	ask := func(approve bool, want ...string) {
		t.Helper()
		for _, text := range want {
			_, err := run()
			require.ErrorIs(t, err, core.ErrAwaiting)
			open, err := state.Questions(t.Context(), tape, "run-1")
			require.NoError(t, err)
			require.Len(t, open, 1)
			require.Equal(t, text, open[0].Text)
			require.NoError(t, state.Answer(t.Context(), tape, "run-1", open[0].ID, "", approve))
		}
	}
	ask(true, "sure?", "refund 5?")
	_, err = run()
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NotErrorIs(t, err, core.ErrAwaiting)
	amount, stop = 500, false
	ask(false, "sure?", "refund 500?")
	out, err := run()
	require.NoError(t, err)
	assert.Equal(t, "500 false", out)
}

func TestReplayOfACallWithAnotherInputIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := &node{name: "tool", kind: record.KindTool}
		whole := new(tape)
		resumed(t, whole, newEffects(), leaf)
		st, err := state.Replay(t.Context(), whole, "run-1", state.WithDivergence(state.DivergenceRerun))
		require.NoError(t, err)
		defer st.Close()
		e := newEffects()
		e.changed = "root"
		_, err = e.call(t, st.Context(t.Context()), leaf)
		require.ErrorIs(t, err, core.ErrNotRecorded)
		assert.Empty(t, e.ran)
	})
}

func TestValueOfACallThatIsMadeAgainIsThatOfTheNewOne(t *testing.T) {
	define := func(name string, f func(ctx context.Context, in int) (int, error)) *core.Definition[int, int] {
		d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: name}, f)
		require.NoError(t, err)
		return d
	}
	for _, nested := range []bool{false, true} {
		for _, around := range []bool{false, true} {
			t.Run(fmt.Sprint("written inside it: ", nested, ", inside another: ", around), func(t *testing.T) {
				write := define("write", func(ctx context.Context, _ int) (int, error) { return 1, state.Put(ctx, "key", "old") })
				changed := define("changed", func(ctx context.Context, in int) (int, error) {
					switch {
					case in == 2:
						return 2, nil // and writes no value
					case nested:
						return write.Event().Execute(ctx, 1)
					}
					return 1, state.Put(ctx, "key", "old")
				})
				input, last := 1, false
				stop := func(ctx context.Context) error {
					state.From(ctx).Interrupt(snapshot.Stop{})
					return ctx.Err()
				}
				call := changed
				if around {
					call = define("around", func(ctx context.Context, _ int) (int, error) {
						out, err := changed.Event().Execute(ctx, input)
						if input == 1 && err == nil {
							err = stop(ctx)
						}
						return out, err
					})
				}
				value := "?"
				agent := define("agent", func(ctx context.Context, _ int) (int, error) {
					in := input
					if around {
						in = 1
					}
					out, err := call.Event().Execute(ctx, in)
					if err == nil && !last {
						err = stop(ctx)
					}
					if err == nil {
						value, _, err = state.Get[string](ctx, "key")
					}
					return out, err
				})
				tape := new(tape)
				run := func() error {
					st, err := state.Open(t.Context(), tape, "run-1", state.WithDivergence(state.DivergenceRerun))
					require.NoError(t, err)
					defer st.Close()
					_, err = agent.Event().Execute(st.Context(t.Context()), 1)
					return err
				}
				for input = 1; input <= 2; input++ {
					require.ErrorIs(t, run(), core.ErrInterrupted)
				}
				input, last = 2, true
				require.NoError(t, run())
				assert.Empty(t, value)
			})
		}
	}
}

func TestGroupMadeAgainIsNotTheOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		var mu sync.Mutex
		var ran []string
		leaf, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "leaf"}, func(ctx context.Context, in string) (string, error) {
			mu.Lock()
			ran = append(ran, in)
			mu.Unlock()
			switch {
			case in == "bad":
				return "", cmp.Or(testkit.Pause(ctx, time.Minute), errFatal)
			case broken:
				return "", testkit.Pause(ctx, time.Hour)
			}
			return in, nil
		})
		require.NoError(t, err)
		look := "before"
		agent, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
			if _, err := leaf.Event().WithTag("look").Execute(ctx, look); err != nil {
				return "", err
			}
			_, err := actors.Map(ctx, actors.Group{Name: "g"}, leafActor{leaf}, []string{"slow", "bad"})
			if broken {
				state.From(ctx).Interrupt(snapshot.Stop{})
				return "", ctx.Err()
			}
			var failed *actors.GroupError
			if !errors.As(err, &failed) {
				return "", err
			}
			return fmt.Sprint("not finished: ", failed.NotEnded), nil
		})
		require.NoError(t, err)
		tape := new(tape)
		run := func(policy state.DivergencePolicy) (string, error) {
			st, err := state.Open(t.Context(), tape, "run-1", state.WithDivergence(policy))
			require.NoError(t, err)
			defer st.Close()
			return agent.Event().Execute(st.Context(t.Context()), 1)
		}
		broken = true
		_, err = run(state.DivergenceTrust)
		require.ErrorIs(t, err, core.ErrInterrupted)

		broken, ran, look = false, nil, "after"
		out, err := run(state.DivergenceRerun)
		require.NoError(t, err)
		assert.Equal(t, "not finished: []", out)
		slices.Sort(ran)
		assert.Equal(t, []string{"after", "bad", "slow"}, ran)
	})
}

type leafActor struct {
	*core.Definition[string, string]
}
