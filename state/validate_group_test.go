package state_test

import (
	"context"
	"errors"
	"sync/atomic"
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

// ValidateExecute runs all branches of a group. For First, it runs only the branch that was chosen.
func TestValidateExecuteMakesTheBranchesOfGroups(t *testing.T) {
	type page struct {
		Number int `json:"number"`
	}
	pages := []page{{3}, {1}, {2}}
	var (
		fetched atomic.Int64
		broken  bool
	)
	fetch := decorators.Tool("fetch", "Fetches a page.", func(ctx context.Context, p page) (int, error) {
		fetched.Add(1)
		if broken && p.Number == 2 {
			return 0, core.Permanent(errors.New("no such page"))
		}
		return p.Number, core.Sleep(ctx, time.Duration(p.Number)*time.Second)
	})
	branch := func(p page) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) { return fetch.Call(ctx, p) }
	}
	for name, test := range map[string]struct {
		handler func(ctx context.Context) ([]int, error)
		fetched int64 // number of pages fetched by a validation
	}{
		"Map": {func(ctx context.Context) ([]int, error) {
			return actors.Map(ctx, actors.Group{Name: "g", Workers: 2}, fetch, pages)
		}, 3},
		"Parallel": {func(ctx context.Context) ([]int, error) {
			return actors.Parallel(ctx, actors.Group{Name: "g"}, branch(pages[0]), branch(pages[1]))
		}, 2},
		"First": {func(ctx context.Context) ([]int, error) {
			n, err := actors.First(ctx, actors.Group{Name: "g"}, branch(pages[0]), branch(pages[1]))
			return []int{n}, err
		}, 1},
		"MapSeq": {func(ctx context.Context) (all []int, err error) {
			for out, err := range actors.MapSeq(ctx, actors.Group{Name: "g"}, fetch, pages) {
				if err != nil {
					return nil, err
				}
				all = append(all, out.Output)
			}
			return all, nil
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken = false
				store := memstore.New()
				agent := decorators.Agent("agent", "Reads the pages.", func(ctx context.Context, _ struct{}) ([]int, error) { return test.handler(ctx) })
				st, err := state.Open(t.Context(), store, "run-1")
				require.NoError(t, err)
				_, err = agent.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, err)
				require.NoError(t, st.Close())
				validate := func() []state.Difference {
					fetched.Store(0)
					differences, err := state.ValidateExecute(t.Context(), store, "run-1", func(ctx context.Context) error {
						_, err := agent.Call(ctx, struct{}{})
						return err
					})
					require.NoError(t, err)
					return differences
				}
				assert.Empty(t, validate())
				assert.Equal(t, test.fetched, fetched.Load())
				if broken = true; name == "Map" {
					differences := validate()
					require.NotEmpty(t, differences)
					assert.Equal(t, "agent/group:g/3: status: recorded completed, now failed", differences[0].String())
				}
			})
		})
	}
}

// A group that ends early does not begin its remaining branches. These are not differences.
func TestBranchesThatDidNotBeginAreNoDifferences(t *testing.T) {
	type page struct {
		Number int `json:"number"`
	}
	pages := []page{{1}, {2}, {3}}
	fetch := decorators.Agent("fetch", "", func(context.Context, page) (int, error) { return 0, core.Permanent(errors.New("no such page")) })
	program := func(ctx context.Context) error {
		_, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1}, fetch, pages)
		return err
	}
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	require.Error(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())

	differences, err := state.Validate(t.Context(), store, "r", program)
	require.NoError(t, err)
	assert.Empty(t, differences)

	pages = append(pages, page{4})
	differences, err = state.Validate(t.Context(), store, "r", program)
	require.NoError(t, err)
	require.Len(t, differences, 2)
	assert.Equal(t, "input", differences[0].Field)
	assert.Equal(t, "group:g/4: call: recorded none, now agent_call", differences[1].String())
}

// A fork keeps the calls that a branch made, but not the beginning of the branch. If the group
// fails before it enters the branch again, these calls are not differences.
func TestCallsOfABranchThatAForkDoesNotEnterAreNoDifferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := testkit.Tool(t, "tool", once, func(_ context.Context, in string) (string, error) { return in, nil })
		broken := testkit.Tool(t, "broken", once, func(context.Context, string) (string, error) { return "", errBoom })
		program := func(ctx context.Context) error {
			_, err := actors.Parallel(ctx, actors.Group{Name: "g"},
				func(ctx context.Context) (string, error) {
					if err := core.Sleep(ctx, time.Minute); err != nil {
						return "", err
					}
					return testkit.Call(ctx, broken)
				},
				func(ctx context.Context) (string, error) {
					if _, err := testkit.Call(ctx, tool); err != nil {
						return "", err
					}
					return "", core.Sleep(ctx, time.Hour)
				})
			_, _ = testkit.Call(ctx, tool)
			return err
		}
		run := func(store snapshot.Store, id string) {
			st, err := state.Open(t.Context(), store, id)
			require.NoError(t, err)
			require.ErrorContains(t, program(st.Context(t.Context())), "boom")
			require.NoError(t, st.Close())
		}
		store := memstore.New()
		run(store, "r")
		at, err := record.ParseAddress("tool")
		require.NoError(t, err)
		require.NoError(t, state.Fork(t.Context(), store, "r", at, "forked", state.ForkOptions{}))
		run(store, "forked")
		differences, err := state.Validate(t.Context(), store, "forked", program)
		require.NoError(t, err)
		assert.Empty(t, differences)
	})
}
