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
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// ValidateExecute runs all branches of a group, and uses the recorded choices of groups.
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
		fetched int64 // pages fetched by a validation
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
