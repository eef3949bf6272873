package actors_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// after returns a branch that, after d, succeeds or fails with err.
func after(d time.Duration, err error) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if stopped := testkit.Pause(ctx, d); stopped != nil {
			return 0, stopped
		}
		return d, err
	}
}

// deaf returns a branch that ignores its context and takes d.
func deaf(d time.Duration) func(context.Context) (time.Duration, error) {
	return func(context.Context) (time.Duration, error) {
		<-time.After(d)
		return 0, errors.New("too late")
	}
}

func TestGroupTimeoutInterruptsTheBranchesThatAreLeft(t *testing.T) {
	for _, collect := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			start := time.Now()
			out, err := actors.Parallel(ctx, actors.Group{Name: "g", Timeout: 5 * time.Second, Workers: 3, CollectAll: collect},
				after(time.Second, nil), after(time.Hour, nil), deaf(7*time.Second), after(time.Hour, nil), after(time.Second, nil))

			call := testkit.Failed(t, err, record.ReasonGroupTimeout)
			require.ErrorIs(t, err, core.ErrGroupTimeout)
			var failed *actors.GroupError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, failed.Err, core.ErrGroupTimeout)
			assert.Empty(t, failed.Failed)
			assert.Equal(t, []int{2, 3, 4, 5}, failed.NotEnded)
			assert.Equal(t, time.Second, out[0], "finished results are kept")
			assert.Equal(t, 7*time.Second, time.Since(start), "the group waits for a branch that ignores its context")
			assert.Contains(t, call.Error(), "group timeout")
			r := recordOf(t, st, "group:g")
			assert.Equal(t, record.StatusFailed, r.Status)
			assert.Equal(t, record.ReasonGroupTimeout, r.Reason)
			r = recordOf(t, st, "group:g/2")
			assert.Equal(t, record.InterruptGroup, r.Interrupt().Reason)
		})
	}
}

func TestGroupThatEndsInTimeHasNoTimeout(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		out, err := actors.Map(ctx, actors.Group{Name: "g", Timeout: time.Hour}, slowest(), upTo(3))
		require.NoError(t, err)
		assert.Equal(t, []int{10, 20, 30}, out)
		_, err = actors.Map(ctx, actors.Group{Name: "g", Timeout: -1}, slowest(), upTo(3))
		assert.EqualError(t, err, "actors: Group.Timeout is -1ns, want a positive duration, or 0 for none")
	})
}

func TestFailureBeforeTheTimeoutIsTheFailureOfTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		_, err := actors.Parallel(ctx, actors.Group{Name: "g", Timeout: time.Minute}, after(time.Second, errBoom), after(time.Hour, nil))
		require.ErrorIs(t, err, errBoom)
		require.NotErrorIs(t, err, core.ErrGroupTimeout)
	})
}

func TestFirstSuccessInterruptsTheOthers(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		start := time.Now()
		out, err := actors.First(ctx, actors.Group{Name: "g"}, after(time.Hour, nil), after(time.Second, errBoom), after(2*time.Second, nil), after(3*time.Second, nil))
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, out)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_, err := actors.First(ctx, actors.Group{Name: "g", Workers: 2}, after(time.Hour, nil), after(2*time.Second, nil), after(3*time.Second, nil))
		require.NoError(t, err)
		assert.Equal(t, record.StatusCompleted, recordOf(t, st, "group:g").Status)
		assert.Equal(t, record.StatusInterrupted, recordOf(t, st, "group:g/1").Status)
		assert.NotContains(t, addresses(t, st), "group:g/3", "the branch waited for a worker")
		_, err = echo().Call(ctx, number{1})
		require.NoError(t, err, "the run continues")
	})
}

func TestFirstFailsWhenAllHave(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		_, err := actors.First(ctx, actors.Group{Name: "g"}, after(time.Second, errBoom), after(2*time.Second, errBoom))
		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		assert.Len(t, failed.Failed, 2)
		_, err = actors.First[int](ctx, actors.Group{Name: "g"})
		require.EqualError(t, err, `actors: First in group "g": there is no branch`)
		_, err = actors.First[int](ctx, actors.Group{Name: "g"}, nil)
		require.EqualError(t, err, `actors: group "g": branch 1 is nil`)
		_, err = actors.First(ctx, actors.Group{Name: "g", Timeout: time.Second}, after(time.Hour, nil))
		require.ErrorIs(t, err, core.ErrGroupTimeout)
	})
}

// The branch does not notice that its group has ended, and succeeds after the timeout.
func TestABranchThatSucceedsTooLateDoesNotWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		for range 2 {
			st, err := state.Open(t.Context(), store, "run")
			require.NoError(t, err)
			_, err = actors.First(st.Context(t.Context()), actors.Group{Name: "g", Timeout: time.Second}, deaf(2*time.Second), after(0, errBoom))
			require.NoError(t, st.Close())
			require.ErrorIs(t, err, core.ErrGroupTimeout)
			assert.ErrorContains(t, err, "1 of 2 branches failed; group:g/2: permanent: boom")
			var failed *actors.GroupError
			assert.ErrorAs(t, err, &failed)
			assert.Equal(t, snapshot.StatusFailed, st.Status())
		}
	})
}

func TestResultsByName(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		got, err := actors.MapNamed(ctx, actors.Group{Name: "g"}, slowest(), map[string]number{"b": {2}, "a": {1}})
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"a": 10, "b": 20}, got)
		named, err := actors.ParallelNamed(ctx, actors.Group{Name: "h", CollectAll: true}, map[string]func(context.Context) (time.Duration, error){
			"x": after(time.Second, nil), "y": after(time.Second, errBoom),
		})
		require.ErrorIs(t, err, errBoom)
		assert.Contains(t, named, "x")
		_, err = actors.MapNamed(ctx, actors.Group{}, slowest(), map[string]number{"b": {2}})
		require.Error(t, err)
	})
}

// asFinished returns the branches in the order in which they are yielded. Failed branches are
// negative numbers, and the group's error is 0.
func asFinished(ctx context.Context, g actors.Group, actor actors.Tool[number, int], inputs []number) (order []int, err error) {
	for f, failure := range actors.MapSeq(ctx, g, actor, inputs) {
		n := f.Branch
		if failure != nil {
			n, err = -n, failure
		}
		order = append(order, n)
	}
	return order, err
}

func TestResultsComeAsTheyFinish(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		start := time.Now()
		for f, err := range actors.MapSeq(ctx, actors.Group{Name: "g"}, slowest(), upTo(4)) {
			require.NoError(t, err)
			assert.Equal(t, f.Branch*10, f.Output)
			assert.Equal(t, time.Duration(100-f.Branch)*time.Second, time.Since(start), "at once")
		}
		order, err := asFinished(ctx, actors.Group{Name: "h"}, slowest(), upTo(5))
		require.NoError(t, err)
		assert.Equal(t, []int{5, 4, 3, 2, 1}, order)
		order, err = asFinished(ctx, actors.Group{Name: "none"}, slowest(), nil)
		require.NoError(t, err)
		assert.Empty(t, order)
	})
}

func TestMapSeqEndsWithTheFirstFailure(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		tool := decorators.Tool("tool", "", func(ctx context.Context, in number) (int, error) {
			if err := testkit.Pause(ctx, time.Duration(in.N)*time.Second); err != nil {
				return 0, err
			}
			if in.N == 3 {
				return 0, errBoom
			}
			return in.N, nil
		})
		start := time.Now()
		order, err := asFinished(ctx, actors.Group{Name: "g"}, tool, upTo(9))
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, []int{1, 2, -3}, order)
		assert.Equal(t, 3*time.Second, time.Since(start))

		order, err = asFinished(ctx, actors.Group{Name: "h", CollectAll: true}, tool, upTo(5))
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, []int{1, 2, -3, 4, 5}, order)

		order, err = asFinished(ctx, actors.Group{Name: "i", Timeout: 2500 * time.Millisecond}, tool, upTo(5))
		require.ErrorIs(t, err, core.ErrGroupTimeout)
		assert.Equal(t, []int{1, 2, 0}, order)

		order, err = asFinished(ctx, actors.Group{}, tool, upTo(5))
		require.Error(t, err)
		assert.Equal(t, []int{0}, order)
	})
}

func TestBreakingOutOfALoopInterruptsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		start := time.Now()
		for f, err := range actors.MapSeq(ctx, actors.Group{Name: "g"}, slowest(), upTo(4)) {
			require.NoError(t, err)
			if f.Branch == 3 {
				break
			}
		}
		assert.Equal(t, 97*time.Second, time.Since(start))
		assert.Equal(t, record.StatusCompleted, recordOf(t, st, "group:g").Status)
		assert.Equal(t, record.StatusInterrupted, recordOf(t, st, "group:g/1").Status)
		_, err := echo().Call(ctx, number{1})
		require.NoError(t, err, "the run continues")
	})
}

func TestPanicInALoopLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest finds leaked goroutines
		_, ctx := testkit.Run(t)
		assert.NotEmpty(t, testkit.PanicText(t, func() {
			for range actors.MapSeq(ctx, actors.Group{Name: "g"}, slowest(), upTo(4)) {
				panic("in the body")
			}
		}))
	})
}

// Two workers make the first attempts of all items, and each item waits an hour before its second
// attempt. When an item releases its slot, the next item can begin.
func TestItemThatWaitsGivesUpItsSlot(t *testing.T) {
	for _, yields := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			var inside gauge
			item := decorators.Tool("item", "", func(ctx context.Context, in number) (int, error) {
				defer inside.enter()()
				if err := testkit.Pause(ctx, time.Second); err != nil {
					return 0, err
				}
				if inside.total.Load() <= 6 {
					return 0, core.Retryable(errBoom)
				}
				return in.N, nil
			}, actors.WithRetry(core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter, MaxAttempts: core.Unlimited}))
			start := time.Now()
			out, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 2, YieldWaits: yields}, item, upTo(6))
			require.NoError(t, err)
			assert.Equal(t, []int{1, 2, 3, 4, 5, 6}, out)
			assert.EqualValues(t, 2, inside.most.Load(), "attempts at once")
			if yields {
				assert.Less(t, time.Since(start), time.Hour+10*time.Second)
				began := addresses(t, st)
				assert.Equal(t, []string{"group:g", "group:g/1", "group:g/2", "group:g/3", "group:g/4", "group:g/5", "group:g/6"}, slices.Sorted(slices.Values(began)))
			} else {
				assert.GreaterOrEqual(t, time.Since(start), 2*time.Hour)
			}
		})
	}
}

func TestItemsFailFastOrAllEnd(t *testing.T) {
	for _, collect := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			attempts := make(map[int]int)
			item := decorators.Tool("item", "", func(_ context.Context, in number) (int, error) {
				attempts[in.N]++
				if in.N == 2 && attempts[2] == 2 {
					return 0, core.Permanent(errBoom)
				}
				if attempts[in.N] < 3 {
					return 0, core.Retryable(errBoom)
				}
				return in.N, nil
			}, actors.WithRetry(core.RetryConfig{InitialDelay: time.Minute, Jitter: core.NoJitter}))
			out, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1, YieldWaits: true, CollectAll: collect}, item, upTo(4))
			var failed *actors.GroupError
			require.ErrorAs(t, err, &failed)
			require.Len(t, failed.Failed, 1)
			assert.Equal(t, 2, failed.Failed[0].Branch)
			if collect {
				assert.Equal(t, map[int]int{1: 3, 2: 2, 3: 3, 4: 3}, attempts, "each item has its own attempts")
				assert.Equal(t, []int{1, 0, 3, 4}, out)
			} else {
				assert.NotEmpty(t, failed.NotEnded)
			}
		})
	}
}

func TestTenThousandItemsInFiftySlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		var inside gauge
		seen := make([]bool, 10_001)
		item := decorators.Tool("item", "", func(ctx context.Context, in number) (int, error) {
			defer inside.enter()()
			again := seen[in.N] // accessed only by the attempts of this item
			seen[in.N] = true
			if err := testkit.Pause(ctx, time.Millisecond); err != nil {
				return 0, err
			}
			if !again && in.N%3 == 0 {
				return 0, core.Retryable(errBoom)
			}
			return in.N, nil
		})
		out, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 50, YieldWaits: true}, item, upTo(10_000))
		require.NoError(t, err)
		for i, n := range out {
			if n != i+1 {
				t.Fatal(i, n)
			}
		}
		assert.EqualValues(t, 50, inside.most.Load())
		assert.EqualValues(t, 13_333, inside.total.Load())
	})
}

func ExampleMapSeq() {
	ready := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	fetch := decorators.Tool("fetch", "Fetches report n when it is ready.", func(_ context.Context, in number) (string, error) {
		<-ready[in.N]
		return fmt.Sprint("report ", in.N), nil
	})
	close(ready[0])
	next := 1
	for f, err := range actors.MapSeq(context.Background(), actors.Group{Name: "reports"}, fetch, []number{{2}, {0}, {1}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(f.Branch, f.Output)
		if next < len(ready) { // each report becomes ready after the previous one was received
			close(ready[next])
			next++
		}
	}
	// Output:
	// 2 report 0
	// 3 report 1
	// 1 report 2
}
