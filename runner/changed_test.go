package runner_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestOtherCodeUnderTheSameVersionStopsTheRunAndRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var mu sync.Mutex
		var made []string
		note := func(name string) func(context.Context, word) (string, error) {
			return decorators.Tool(name, "", func(_ context.Context, in word) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, name)
				return in.Text, nil
			}).Call
		}
		program := func(first string) func(context.Context, word) (string, error) {
			return func(ctx context.Context, in word) (string, error) {
				if _, err := note(first)(ctx, in); err != nil {
					return "", err
				}
				if err := core.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				return note("last")(ctx, in)
			}
		}
		r := newRunner(t, store, runner.Options{})
		_, err := runner.Register(r, agent("work", program("first"))).Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		stop := serve(t, r)
		synctest.Wait()
		require.NoError(t, stop())

		var ended []runner.Event
		other := newRunner(t, store, runner.Options{Observe: func(e runner.Event) {
			if e.Type == runner.EventEnded {
				ended = append(ended, e)
			}
		}})
		runner.Register(other, agent("work", program("another")))
		stop = serve(t, other)
		info, err := other.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Equal(t, record.InterruptDiverge, info.Stop.Reason)
		synctest.Wait()
		require.Len(t, ended, 1)
		assert.Contains(t, ended[0].String(), "ended run a of work 1: interrupted (divergence): ")
		assert.Contains(t, ended[0].String(), "work/another", "what was asked for")
		assert.Contains(t, ended[0].String(), "work/first", "what was recorded")
		sleep(24 * time.Hour) // it is not tried again
		require.NoError(t, stop())
		assert.Equal(t, []string{"first"}, made)

		again := newRunner(t, store, runner.Options{})
		runner.Register(again, agent("work", program("first")))
		defer serve(t, again)()
		require.NoError(t, again.Resume(t.Context(), "a"))
		info, err = again.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Equal(t, []string{"first", "last"}, made)
	})
}
