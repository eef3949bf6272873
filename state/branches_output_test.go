package state_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// counting has branches whose results differ each time they run.
type counting struct{ ran int }

func (c *counting) branch(ctx context.Context) (int, error) {
	_, err := core.Step(ctx, "step", func(context.Context) (bool, error) { return true, nil })
	c.ran++
	return c.ran, err
}

// program passes the results of branches to a tool, so that a resumed run is
// refused if a result differs.
func (c *counting) program(t *testing.T, stop bool) func(ctx context.Context) (string, error) {
	t.Helper()
	ship := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "ship"}, func(context.Context, []int) (string, error) { return "shipped", nil })
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		all, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, c.branch, c.branch)
		if err != nil {
			return "", err
		}
		first, err := actors.First(ctx, actors.Group{Name: "f"}, c.branch)
		if err != nil {
			return "", err
		}
		out, err := ship.Event().Execute(ctx, append(all, first))
		if stop {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return out, err
	})
	return func(ctx context.Context) (string, error) { return testkit.Call(ctx, agent) }
}

func openWith(t *testing.T, s snapshot.Store, runID string, program func(ctx context.Context) (string, error)) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, runID)
	require.NoError(t, err)
	out, err := program(st.Context(t.Context()))
	require.NoError(t, st.Close())
	return out, err
}

func TestCompletedBranchDoesNotRunAgain(t *testing.T) {
	s, c := new(tape), new(counting)
	_, err := openWith(t, s, "run-1", c.program(t, true))
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.Equal(t, 3, c.ran)
	out, err := openWith(t, s, "run-1", c.program(t, false))
	require.NoError(t, err, "no result differs")
	assert.Equal(t, "shipped", out)
	assert.Equal(t, 3, c.ran)
}

// Older records do not contain the outputs of branches.
func TestBranchWithoutARecordedOutputRunsAgain(t *testing.T) {
	s, c := new(tape), new(counting)
	_, err := openWith(t, s, "run-1", c.program(t, true))
	require.ErrorIs(t, err, core.ErrInterrupted)
	for i := range s.records {
		if r := &s.records[i]; r.Kind == record.KindBranch && r.Status == record.StatusCompleted {
			r.Detail = nil
		}
	}
	steps := slices.Clone(s.records)
	c.ran = 0
	out, err := openWith(t, s, "run-1", c.program(t, false))
	require.NoError(t, err)
	assert.Equal(t, "shipped", out)
	assert.Equal(t, 3, c.ran)
	for _, r := range s.records[len(steps):] {
		assert.NotEqual(t, record.KindStep, r.Kind, "the calls inside the branch are recalled")
	}
}

// A branch that completed in a refused opening may have completed with a different program.
func TestBranchOfARefusedProgramRunsAgain(t *testing.T) {
	for _, where := range []string{"in the run", "in a fork"} {
		t.Run(where, func(t *testing.T) {
			program := func(result, last string) func(ctx context.Context) (string, error) {
				agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
					all, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, func(context.Context) (string, error) { return result, nil },
						func(ctx context.Context) (string, error) {
							return core.Step(ctx, last, func(context.Context) (string, error) { return last, nil })
						})
					if err != nil {
						return "", err
					}
					_, err = core.Step(ctx, "end", func(context.Context) (string, error) { return "", nil })
					return all[0], err
				})
				return func(ctx context.Context) (string, error) { return testkit.Call(ctx, agent) }
			}
			whole := new(tape)
			_, err := openWith(t, whole, "run-1", program("old", "step"))
			require.NoError(t, err)
			completed := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Kind == record.KindBranch && r.IsOutcome() })
			begun := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Kind == record.KindStep })
			s := new(tape)
			for _, r := range whole.records[:begun+1] { // the first branch has not ended
				if r.Address != whole.records[completed].Address {
					r.Seq = uint64(len(s.records)) + 1
					s.records = append(s.records, r)
				}
			}
			_, err = openWith(t, s, "run-1", program("new", "renamed"))
			require.ErrorIs(t, err, core.ErrDivergence)
			require.True(t, slices.ContainsFunc(s.records, func(r record.Record) bool { return r.Kind == record.KindBranch && r.IsOutcome() }))
			var store snapshot.Store = s
			runID := "run-1"
			if where == "in a fork" {
				store, runID = crashed(t, testkit.LoadRun(t, s, "run-1"), len(s.records)), "run-2"
				require.NoError(t, state.Fork(t.Context(), store, "run-1", testkit.Address(t, "agent/group:g/2/step:step"), runID, state.ForkOptions{Effects: state.RepeatEffects}))
			}
			out, err := openWith(t, store, runID, program("old", "step"))
			require.NoError(t, err)
			assert.Equal(t, "old", out)
		})
	}
}

func TestGroupWhoseResultsCannotBeStoredDoesNotBegin(t *testing.T) {
	st, err := state.Open(t.Context(), new(tape), "run-1")
	require.NoError(t, err)
	defer st.Close()
	ran := false
	branch := func(context.Context) (chan int, error) { ran = true; return nil, nil }
	_, err = actors.Parallel(st.Context(t.Context()), actors.Group{Name: "g"}, branch)
	require.ErrorContains(t, err, `the output of "g 1" could never be stored`)
	_, err = actors.First(st.Context(t.Context()), actors.Group{Name: "f"}, branch)
	require.ErrorContains(t, err, `the output of "f 1" could never be stored`)
	assert.False(t, ran)
}
