package state_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestAwaitStopReportsARunThatEndedByItself(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(st *state.ExecutionState) // nil leaves the run open
		late  bool
		takes time.Duration
	}{
		"completes":      {func(*state.ExecutionState) {}, true, time.Millisecond},
		"is interrupted": {func(st *state.ExecutionState) { st.Interrupt(snapshot.Stop{By: "ops"}) }, false, time.Millisecond},
		"is cancelled":   {func(st *state.ExecutionState) { st.Cancel(snapshot.Stop{By: "ops"}) }, false, time.Millisecond},
		"takes longer":   {nil, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				st, err := state.Open(t.Context(), s, "run")
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Succeed))
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began, told := time.Now(), make(chan error, 1)
				var stopped bool
				go func() {
					var err error
					stopped, err = state.AwaitStop(ctx, s, "run")
					told <- err
				}()
				if c.end != nil {
					<-time.After(time.Millisecond)
					c.end(st)
					require.NoError(t, st.Close())
				}
				err = <-told
				assert.Equal(t, c.takes, time.Since(began))
				if c.late {
					require.ErrorIs(t, err, state.ErrEnded)
					require.ErrorContains(t, err, "it is completed, and the request came too late")
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, c.end != nil && !c.late, stopped)
				require.NoError(t, st.Close())
			})
		})
	}
}

// unwatchable is a store that cannot be reached when a run is watched.
type unwatchable struct{ snapshot.Store }

func (unwatchable) Watch(context.Context, snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	return func(yield func(snapshot.Change, error) bool) { yield(snapshot.Change{}, snapshot.ErrUnavailable) }
}

func TestAwaitStopReportsErrorsOfTheStore(t *testing.T) {
	s := memstore.New()
	_, err := state.AwaitStop(t.Context(), s, "run")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	require.ErrorContains(t, err, "state: stop run run: ")

	st, err := state.Open(t.Context(), s, "run")
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	_, err = state.AwaitStop(t.Context(), unwatchable{s}, "run")
	require.ErrorIs(t, err, snapshot.ErrUnavailable)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stopped, err := state.AwaitStop(ended, s, "run")
	require.NoError(t, err, "the waiting has ended")
	assert.False(t, stopped)
}

func TestResumeOfARunThatWasAskedToStopIsRefused(t *testing.T) {
	for name, ask := range map[string]func(context.Context, snapshot.Store, string, snapshot.Stop) error{
		"interrupt": state.Interrupt, "cancel": state.Cancel,
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			st, err := state.Open(t.Context(), s, "run")
			require.NoError(t, err)
			_, err = state.Resume(t.Context(), s, "run")
			require.NoError(t, err, "it runs")
			require.NoError(t, ask(t.Context(), s, "run", snapshot.Stop{By: "ops"}))
			_, err = state.Resume(t.Context(), s, "run")
			require.ErrorIs(t, err, snapshot.ErrLocked, "it would stop after that")
			require.ErrorContains(t, err, "it was asked to stop, and has not stopped yet")
			require.NoError(t, st.Close())
			_, err = state.Resume(t.Context(), s, "run")
			require.NotErrorIs(t, err, snapshot.ErrLocked)
		})
	}
}
