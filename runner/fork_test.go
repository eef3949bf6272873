package runner_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A fork of a started run is resumed with the input of the parent run.
func TestForkOfAStartedRunIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		calls := map[string]int{}
		r := newRunner(t, store, runner.Options{})
		runner.Register(r, agent("two", func(ctx context.Context, in word) (string, error) {
			for _, step := range []string{"first", "last"} {
				if _, err := core.Step(ctx, step, func(context.Context) (int, error) { calls[step]++; return 0, nil }); err != nil {
					return "", err
				}
			}
			return in.Text, nil
		}))
		defer serve(t, r)()
		_, err := r.Start(t.Context(), "two", "a", word{"hello"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		for rec, err := range store.Records(t.Context(), "a", 0) {
			require.NoError(t, err)
			if rec.Name == "last" {
				require.NoError(t, state.Fork(t.Context(), store, "a", rec.Address, "b", state.ForkOptions{}))
				break
			}
		}
		require.NoError(t, r.Resume(t.Context(), "b"))
		info, err := r.Wait(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		out, err := r.Result(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, "hello", out)
		assert.Equal(t, map[string]int{"first": 1, "last": 2}, calls)
	})
}
