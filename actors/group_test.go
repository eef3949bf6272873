package actors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// slowest returns a tool that takes longer for smaller numbers.
func slowest() actors.Tool[number, int] {
	return decorators.Tool("slowest", "", func(ctx context.Context, in number) (int, error) {
		return in.N * 10, testkit.Pause(ctx, time.Duration(100-in.N)*time.Second)
	})
}

// picky returns a tool that fails for even numbers and takes n seconds for odd ones.
func picky() actors.Tool[number, int] {
	return decorators.Tool("picky", "", func(ctx context.Context, in number) (int, error) {
		if in.N%2 == 0 {
			return 0, fmt.Errorf("%d: %w", in.N, errBoom)
		}
		return in.N, testkit.Pause(ctx, time.Duration(in.N)*time.Second)
	})
}

// failsLater is a branch that fails while the others are running.
func failsLater(ctx context.Context) (int, error) {
	if err := testkit.Pause(ctx, time.Second); err != nil {
		return 0, err
	}
	return failing().Call(ctx, number{})
}

func TestMapReturnsOutputsInTheOrderOfTheInputs(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		out, err := actors.Map(ctx, actors.Group{Name: "g"}, slowest(), upTo(5))
		require.NoError(t, err)
		assert.Equal(t, []int{10, 20, 30, 40, 50}, out)
	})
}

func TestParallelReturnsResultsInTheOrderOfSubmission(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		after := func(d time.Duration) func(context.Context) (time.Duration, error) {
			return func(ctx context.Context) (time.Duration, error) { return d, testkit.Pause(ctx, d) }
		}
		start := time.Now()
		out, err := actors.Parallel(ctx, actors.Group{Name: "g"}, after(3*time.Second), after(time.Second), after(2*time.Second))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{3 * time.Second, time.Second, 2 * time.Second}, out)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestWorkersLimitHowManyBranchesRunAtOnce(t *testing.T) {
	for _, tc := range []struct {
		workers    int
		most, want int64 // the most concurrent branches, and the seconds until all end
	}{
		{0, 10, 1}, {1, 1, 10}, {3, 3, 4}, {10, 10, 1}, {1000, 10, 1},
	} {
		t.Run(fmt.Sprint(tc.workers), func(t *testing.T) {
			both(t, func(t *testing.T, ctx context.Context) {
				var inside gauge
				tool := decorators.Tool("tool", "", func(ctx context.Context, _ number) (int, error) {
					defer inside.enter()()
					return 0, testkit.Pause(ctx, time.Second)
				})
				start := time.Now()
				_, err := actors.Map(ctx, actors.Group{Name: "g", Workers: tc.workers}, tool, upTo(10))

				require.NoError(t, err)
				assert.EqualValues(t, 10, inside.total.Load())
				assert.Equal(t, tc.most, inside.most.Load())
				assert.Equal(t, time.Duration(tc.want)*time.Second, time.Since(start))
			})
		})
	}
}

func TestWorkersBeginBranchesInTheOrderOfSubmission(t *testing.T) {
	st, ctx := testkit.Run(t)
	_, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1}, echo(), upTo(3))
	require.NoError(t, err)
	assert.Equal(t, []string{"group:g", "group:g/1", "group:g/2", "group:g/3"}, addresses(t, st))
}

func TestFirstFailureInterruptsTheOtherBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		blocks := func(ctx context.Context) (int, error) { return block().Call(ctx, number{2}) }
		waits := func(ctx context.Context) (int, error) {
			again := decorators.Tool("again", "", func(context.Context, number) (int, error) { return 0, core.Retryable(errBoom) },
				actors.WithRetry(core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}))
			return again.Call(ctx, number{3})
		}
		limited := func(ctx context.Context) (int, error) {
			return block().Event().WithTag("limited").WithRetry(core.RetryConfig{AttemptTimeout: time.Minute}).Execute(ctx, number{4})
		}
		quick := func(ctx context.Context) (int, error) { return echo().Call(ctx, number{5}) }
		start := time.Now()
		out, err := actors.Parallel(ctx, actors.Group{Name: "g"}, quick, blocks, waits, failsLater, limited)

		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, errBoom)
		require.NotErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, 5, failed.Branches)
		require.Len(t, failed.Failed, 1)
		assert.Equal(t, 4, failed.Failed[0].Branch)
		assert.Equal(t, []int{5, 0, 0, 0, 0}, out)
		assert.Equal(t, time.Second, time.Since(start))

		for _, address := range []string{"group:g/2/block", "group:g/3/again", "group:g/5/step:limited"} {
			r := recordOf(t, st, address)
			assert.Equal(t, record.StatusInterrupted, r.Status, address)
			assert.Equal(t, record.InterruptGroup, r.Interrupt().Reason, address)
			require.ErrorIs(t, r.Err, errBoom, "the failure is the cause of the context")
		}
	})
}

func TestFirstFailureKeepsWaitingBranchesFromStarting(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		var began []int
		branches := make([]func(context.Context) (int, error), 10)
		for i := range branches {
			branches[i] = func(context.Context) (int, error) {
				began = append(began, i+1)
				if i+1 == 3 {
					return 0, errBoom
				}
				return i + 1, nil
			}
		}
		out, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, branches...)

		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, []int{1, 2, 3}, began)
		assert.Equal(t, []int{1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, out)
	})
}

func TestParentThatHandlesTheErrorOfAGroupCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "g"},
				func(ctx context.Context) (int, error) { return block().Call(ctx, number{1}) }, failsLater)
			if err == nil {
				return "", errors.New("the group should have failed")
			}
			if err := ctx.Err(); err != nil {
				return "", err
			}
			_, err = echo().Call(ctx, number{3})
			return "handled", err
		})
		out, err := parent.Call(ctx, number{})

		require.NoError(t, err)
		assert.Equal(t, "handled", out)
		assert.ElementsMatch(t, []string{
			"parent/group:g/2/failing failed", "parent/group:g/2 failed", "parent/group:g/1/block interrupted", "parent/group:g/1 interrupted",
			"parent/group:g failed", "parent/echo completed", "parent completed",
		}, settled(t, st))
	})
}

func TestParentThatReturnsTheErrorOfAGroupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) ([]int, error) {
			return actors.Map(ctx, actors.Group{Name: "g"}, picky(), upTo(3))
		})
		_, err := parent.Call(ctx, number{})

		var (
			call  *core.CallError
			group *actors.GroupError
		)
		require.ErrorAs(t, err, &call)
		assert.Equal(t, "parent", call.Name)
		require.ErrorAs(t, err, &group)
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, record.StatusFailed, recordOf(t, st, "parent").Status)
	})
}

func TestCollectAllLetsEveryBranchEnd(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		start := time.Now()
		out, err := actors.Map(ctx, actors.Group{Name: "g", CollectAll: true}, picky(), upTo(5))

		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, "g", failed.Group)
		assert.Equal(t, 5, failed.Branches)
		require.Len(t, failed.Failed, 2)
		assert.Equal(t, 2, failed.Failed[0].Branch)
		assert.Equal(t, 4, failed.Failed[1].Branch)
		assert.Equal(t, []int{1, 0, 3, 0, 5}, out)
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestGroupThatCollectsAllFailsAsItsBranchesDo(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		_, err := actors.Map(ctx, actors.Group{Name: "g", CollectAll: true}, picky(), upTo(5))
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, record.ReasonPermanent, failed.Reason)
	})
}

func TestGroupErrorContainsEachFailure(t *testing.T) {
	err := &actors.GroupError{Group: "collect", Branches: 3, Failed: []actors.BranchError{{1, errBoom}, {3, core.ErrNoRun}}}
	assert.Equal(t, "2 of 3 branches failed; branch 1: boom; branch 3: "+core.ErrNoRun.Error(), err.Error())
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, core.ErrNoRun)
}

func TestPanicOfABranchIsItsFailure(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		panics := func(context.Context) (int, error) { panic(errBoom) }
		_, err := actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true}, panics,
			func(ctx context.Context) (int, error) { return echo().Call(ctx, number{2}) },
			func(context.Context) (int, error) { panic("again") })

		var (
			failed   *actors.GroupError
			panicked *core.PanicError
		)
		require.ErrorAs(t, err, &failed)
		assert.Len(t, failed.Failed, 2)
		require.ErrorAs(t, err, &panicked)
		require.ErrorIs(t, err, core.ErrPanic)
		require.ErrorIs(t, err, errBoom)
		assert.Contains(t, string(panicked.Stack), "TestPanicOfABranchIsItsFailure")
	})
}

func TestNoBranchesHaveNoResults(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		for _, g := range []actors.Group{{Name: "g"}, {Name: "g", Workers: 3}, {Name: "g", CollectAll: true}} {
			mapped, err := actors.Map(ctx, g, echo(), nil)
			require.NoError(t, err)
			assert.Empty(t, mapped)

			results, err := actors.Parallel[int](ctx, g)
			require.NoError(t, err)
			assert.Empty(t, results)
		}
	})
}

func TestInvalidGroupCallsNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		group actors.Group
		want  string
	}{
		{"no name", actors.Group{}, "Group.Name, which is a part of addresses: core: the name is empty"},
		{"space around the name", actors.Group{Name: " g"}, `Group.Name, which is a part of addresses: core: the name " g" begins or ends with white space`},
		{"negative workers", actors.Group{Name: "g", Workers: -1}, "actors: Group.Workers is -1, want 1 or more, or 0 for all at once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			out, err := actors.Map(ctx, tc.group, echo(), upTo(3))
			require.ErrorContains(t, err, tc.want)
			assert.Empty(t, out)
			assert.Empty(t, addresses(t, st))
		})
	}
}

func TestBranchesNumberTheirCallsEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := []string{
			"parent", "parent/group:collect", "parent/group:collect#2", "parent/group:a%2Fb",
			"parent/group:collect/1", "parent/group:collect/2", "parent/group:collect/3", "parent/group:collect#2/1", "parent/group:a%2Fb/1",
			"parent/group:collect/1/echo", "parent/group:collect/1/echo#2",
			"parent/group:collect/2/echo", "parent/group:collect/2/echo#2",
			"parent/group:collect/3/echo", "parent/group:collect/3/echo#2",
			"parent/group:collect#2/1/echo", "parent/group:collect#2/1/echo#2",
			"parent/group:a%2Fb/1/echo", "parent/group:a%2Fb/1/echo#2",
			"parent/echo",
		}
		for range 50 {
			st, ctx := testkit.Run(t)
			branch := func(ctx context.Context) (int, error) {
				for range 2 {
					if err := testkit.Pause(ctx, rand.N(time.Second)); err != nil {
						return 0, err
					}
					if _, err := echo().Call(ctx, number{1}); err != nil {
						return 0, err
					}
				}
				return 0, nil
			}
			branches := []func(context.Context) (int, error){branch}
			parent := decorators.Agent("parent", "", func(ctx context.Context, in number) (int, error) {
				_, first := actors.Parallel(ctx, actors.Group{Name: "collect"}, slices.Repeat(branches, 3)...)
				_, second := actors.Parallel(ctx, actors.Group{Name: "collect"}, branches...)
				_, third := actors.Parallel(ctx, actors.Group{Name: "a/b"}, branches...)
				_, last := echo().Call(ctx, in)
				return 0, errors.Join(first, second, third, last)
			})
			_, err := parent.Call(ctx, number{1})
			require.NoError(t, err)
			assert.ElementsMatch(t, want, addresses(t, st))
		}
	})
}

func TestGroupsNest(t *testing.T) {
	st, ctx := testkit.Run(t)
	rows := make([]func(context.Context) ([]int, error), 2)
	for i := range rows {
		rows[i] = func(ctx context.Context) ([]int, error) {
			return actors.Map(ctx, actors.Group{Name: "row"}, echo(), upTo(2))
		}
	}
	parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) ([][]int, error) {
		return actors.Parallel(ctx, actors.Group{Name: "grid"}, rows...)
	})
	out, err := parent.Call(ctx, number{})

	require.NoError(t, err)
	assert.Equal(t, [][]int{{1, 2}, {1, 2}}, out)
	assert.ElementsMatch(t, []string{
		"parent", "parent/group:grid", "parent/group:grid/1", "parent/group:grid/2",
		"parent/group:grid/1/group:row", "parent/group:grid/1/group:row/1", "parent/group:grid/1/group:row/2",
		"parent/group:grid/2/group:row", "parent/group:grid/2/group:row/1", "parent/group:grid/2/group:row/2",
	}, addresses(t, st))
	assert.Equal(t, 4, recordOf(t, st, "parent/group:grid/1/group:row/2").Address.Depth())
}

func TestFailureOfANestedGroupIsKeptInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		handles := func(ctx context.Context) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "inner"},
				func(ctx context.Context) (int, error) { return block().Call(ctx, number{1}) }, failsLater)
			if !errors.Is(err, errBoom) {
				return "", fmt.Errorf("the inner group ended with %w", err)
			}
			return "handled", nil
		}
		slow := func(ctx context.Context) (string, error) {
			_, err := slowest().Call(ctx, number{50})
			return "done", err
		}
		out, err := actors.Parallel(ctx, actors.Group{Name: "outer"}, handles, slow)

		require.NoError(t, err)
		assert.Equal(t, []string{"handled", "done"}, out)
		assert.Equal(t, record.StatusInterrupted, recordOf(t, st, "group:outer/1/group:inner/1/block").Status)
		assert.Equal(t, record.StatusCompleted, recordOf(t, st, "group:outer/2/slowest").Status)
	})
}

func TestFailureOfAGroupInterruptsWhatItsBranchesCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		worker := decorators.Agent("worker", "", func(ctx context.Context, in number) ([]int, error) {
			if in.N == 2 {
				_, err := failsLater(ctx)
				return nil, err
			}
			return actors.Map(ctx, actors.Group{Name: "inner"}, block(), upTo(2))
		})
		parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) (string, error) {
			_, err := actors.Map(ctx, actors.Group{Name: "outer"}, worker, upTo(2))
			var failed *actors.GroupError
			if !errors.As(err, &failed) || len(failed.Failed) != 1 {
				return "", fmt.Errorf("the group ended with %w", err)
			}
			return "handled", nil
		})
		out, err := parent.Call(ctx, number{})

		require.NoError(t, err)
		assert.Equal(t, "handled", out)
		assert.Equal(t, record.StatusCompleted, recordOf(t, st, "parent").Status)
		for _, address := range []string{
			"parent/group:outer/1", "parent/group:outer/1/group:inner/1", "parent/group:outer/1/group:inner", "parent/group:outer/1/group:inner/2",
		} {
			r := recordOf(t, st, address)
			assert.Equal(t, record.StatusInterrupted, r.Status, address)
			assert.Equal(t, record.InterruptGroup, r.Interrupt().Reason, address)
		}
	})
}

func TestInterruptOfTheRunSuspendsTheParentOfAGroup(t *testing.T) {
	for _, g := range []actors.Group{{Name: "g"}, {Name: "g", Workers: 2}, {Name: "g", CollectAll: true}} {
		t.Run(fmt.Sprintf("%+v", g), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				var inGroup error
				parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) (string, error) {
					_, inGroup = actors.Map(ctx, g, block(), upTo(4))
					return "never said", nil // the interrupt is swallowed
				})
				time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}) })
				out, err := parent.Call(ctx, number{})

				for _, err := range []error{inGroup, err} {
					var (
						interrupted *core.InterruptedError
						failed      *actors.GroupError
					)
					require.ErrorAs(t, err, &interrupted)
					require.NotErrorAs(t, err, &failed, "an interrupt is not a failure")
					assert.Equal(t, record.InterruptUser, interrupted.Reason)
					assert.Equal(t, "deploy", interrupted.Message)
				}
				assert.Empty(t, out)
				assert.Equal(t, record.StatusInterrupted, recordOf(t, st, "parent").Status)
				for _, r := range testkit.Records(t, st) {
					assert.False(t, r.IsOutcome(), "%s %s", r.Address, r.Status)
				}
			})
		})
	}
}

func TestInterruptOfTheRunWinsOverAFailureInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		var inGroup error
		parent := decorators.Agent("parent", "", func(ctx context.Context, _ number) (int, error) {
			_, inGroup = actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true},
				func(ctx context.Context) (int, error) { return failing().Call(ctx, number{1}) },
				func(ctx context.Context) (int, error) { return block().Call(ctx, number{2}) })
			return 0, inGroup
		})
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := parent.Call(ctx, number{})

		require.ErrorIs(t, inGroup, core.ErrInterrupted)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, []string{
			"parent/group:g/1/failing failed", "parent/group:g/1 failed", "parent/group:g/2/block interrupted", "parent/group:g/2 interrupted",
			"parent/group:g interrupted", "parent interrupted",
		}, settled(t, st))
	})
}

func TestEndOfTheContextInterruptsAGroupOutsideARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := actors.Map(ctx, actors.Group{Name: "g"}, block(), upTo(3))

		require.ErrorIs(t, err, core.ErrInterrupted)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestFirstFailureInterruptsTheOthersOutsideARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := actors.Parallel(t.Context(), actors.Group{Name: "g"},
			func(ctx context.Context) (int, error) { return block().Call(ctx, number{1}) }, failsLater)

		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, errBoom)
		assert.Len(t, failed.Failed, 1)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestEveryActorCanBeMapped(t *testing.T) {
	ctx := t.Context()
	group := actors.Group{Name: "g"}
	tools, err := actors.Map(ctx, group, echo(), upTo(2))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, tools)

	responses, err := actors.Map(ctx, group, newScript(says("a"), says("a")).llm(), make([]actors.Request, 2))
	require.NoError(t, err)
	assert.Equal(t, []actors.Response{says("a"), says("a")}, responses)

	agent := actors.NewAgent("assistant", newScript(says("b"), says("b")).llm())
	answers, err := actors.Map(ctx, group, agent, []actors.Prompt{actors.Ask("1"), actors.Ask("2")})
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "b"}, []string{answers[0].Text, answers[1].Text})
}
