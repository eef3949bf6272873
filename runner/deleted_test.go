package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// If a run is deleted while it is queued, its entry stays in the queue. Another run with the same
// ID must not inherit the program or the time of that entry.
func TestRunWithTheIDOfADeletedOneHasItsOwnProgramAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Limit: 1})
		free := make(chan struct{})
		busy := runner.Register(r, agent("busy", func(context.Context, word) (string, error) { <-free; return "", nil }))
		first := runner.Register(r, echo)
		second := runner.Register(r, agent("second", func(_ context.Context, in word) (string, error) { return "second " + in.Text, nil }))
		serve(t, r)
		_, err := busy.Start(t.Context(), "busy", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for _, id := range []string{"other", "later"} {
			_, err := first.Start(t.Context(), id, word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
			require.NoError(t, store.Delete(t.Context(), id))
		}
		began := time.Now()
		sleep(time.Second)
		_, err = second.Start(t.Context(), "other", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = first.Start(t.Context(), "later", word{"x"}, runner.StartOptions{At: began.Add(time.Hour)})
		require.NoError(t, err)
		close(free)

		sleep(time.Minute)
		info, err := r.Info(t.Context(), "other")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusCompleted, info.Status)
		out, err := second.Result(t.Context(), "other")
		require.NoError(t, err)
		assert.Equal(t, "second x", out)
		info, err = r.Info(t.Context(), "later")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusQueued, info.Status)
		info, err = r.Wait(t.Context(), "later")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.GreaterOrEqual(t, time.Since(began), time.Hour)
	})
}

// Another process may start the other run. This process then finds that out when it opens the run.
func TestRunWithTheIDOfADeletedOneMayBeStartedByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var troubles []error
		r := newRunner(t, store, runner.Options{Limit: 1, Observe: func(n runner.Notice) {
			if n.Err != nil {
				troubles = append(troubles, n.Err)
			}
		}})
		free := make(chan struct{})
		busy := runner.Register(r, agent("busy", func(context.Context, word) (string, error) { <-free; return "", nil }))
		first := runner.Register(r, echo)
		second := agent("second", func(_ context.Context, in word) (string, error) { return "second " + in.Text, nil })
		program := runner.Register(r, second)
		serve(t, r)
		_, err := busy.Start(t.Context(), "busy", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		_, err = first.Start(t.Context(), "r", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), "r"))
		_, err = runner.Register(newRunner(t, store, runner.Options{}), second).Start(t.Context(), "r", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		close(free)
		sleep(time.Second) // before the next sweep
		out, err := program.Result(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, "second x", out)
		assert.Empty(t, troubles)
	})
}

// Deleting a run while it is parked or waits for an answer causes no trouble.
func TestRunIsDeletedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var troubles []error
		r := newRunner(t, store, runner.Options{Observe: func(n runner.Notice) {
			if n.Err != nil {
				troubles = append(troubles, n.Err)
			}
		}})
		nap := runner.Register(r, agent("nap", func(ctx context.Context, in word) (string, error) { return in.Text, core.Sleep(ctx, time.Hour) }))
		ask := runner.Register(r, agent("ask", func(ctx context.Context, _ word) (string, error) { return core.Await[string](ctx, "who?") }))
		serve(t, r)
		for _, program := range []*runner.Program[word, string]{nap, ask} {
			_, err := program.Start(t.Context(), "r", word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
			sleep(time.Minute)
			waited := make(chan error)
			go func() { _, err := r.Wait(t.Context(), "r"); waited <- err }()
			synctest.Wait()
			require.NoError(t, store.Delete(t.Context(), "r"))
			require.ErrorIs(t, <-waited, snapshot.ErrNotFound)
			require.ErrorIs(t, r.Answer(t.Context(), "r", "ask?1", "", "Ada"), snapshot.ErrNotFound)
		}
		sleep(2 * time.Hour)
		assert.Empty(t, troubles)
		assert.Zero(t, r.Stats().Parked)
	})
}
