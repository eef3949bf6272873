package runner_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A run that is cancelled while it waits is compensated by the next runner that
// finds it.
func TestRunnerCompensatesARunThatWasCancelledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, undone := memstore.New(), 0
		book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
			Compensate(func(context.Context, word, string) error { undone++; return nil })
		trip := agent("trip", func(ctx context.Context, in word) (string, error) {
			if _, err := book.Call(ctx, in); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "go on?")
		})
		options := runner.Options{Run: []state.Option{state.WithCompensations(book)}}
		r := newRunner(t, store, options)
		program := runner.Register(r, trip)
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, stop())

		require.NoError(t, state.Cancel(t.Context(), store, "a", state.Stop{By: "ops", Message: "wrong customer"}))
		info, err := store.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Zero(t, undone)

		r = newRunner(t, store, options)
		runner.Register(r, trip)
		defer serve(t, r)()
		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Equal(t, 1, undone)
	})
}
