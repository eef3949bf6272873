package streamer_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// job is the input of the calls.
type job struct{ N int }

// TestFiguresCountTheCallsOfTheProgram checks that the streamer's counts equal those in the
// printer's summary. Only the calls inside groups and branches are counted, not the groups and
// branches themselves.
func TestFiguresCountTheCallsOfTheProgram(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	p := printer.New(io.Discard)
	st := state.New(state.WithRunID("r"), state.WithPublisher(h), state.WithPublisher(p))
	twice := func() func() error { // fails the first time
		failed := false
		return func() error {
			if failed = !failed; failed {
				return core.Retryable(errors.New("down"))
			}
			return nil
		}
	}
	first := twice()
	retry := actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay})
	fetch := decorators.Tool("fetch", "fetches", func(_ context.Context, in job) (int, error) {
		if in.N == 0 {
			return 0, first()
		}
		return in.N, nil
	}, retry)
	broken := decorators.Tool("broken", "fails", func(context.Context, job) (int, error) {
		return 0, core.Permanent(errors.New("for good"))
	})
	agent := decorators.Agent("agent", "does both", func(ctx context.Context, _ job) (int, error) {
		if _, err := actors.Map(ctx, actors.Group{Name: "each"}, fetch, []job{{0}, {1}, {2}}); err != nil {
			return 0, err
		}
		_, err := actors.Parallel(ctx, actors.Group{Name: "both", CollectAll: true},
			func(ctx context.Context) (int, error) { return fetch.Call(ctx, job{4}) },
			func(ctx context.Context) (int, error) { return broken.Call(ctx, job{5}) })
		if err == nil {
			return 0, errors.New("a branch failed")
		}
		return core.Step(ctx, "add", func(context.Context) (int, error) { return 1, nil })
	})
	_, err := agent.Call(st.Context(t.Context()), job{})
	require.NoError(t, err)
	require.NoError(t, st.Close())

	state, _, err := (&streamer.Client{URL: server.URL}).State(t.Context(), "r")
	require.NoError(t, err)
	// The agent, three calls of Map, two of Parallel, and the step.
	assert.Equal(t, streamer.Calls{Started: 7, Completed: 6, Failed: 1, Attempts: 8, Retries: 1}, state.Calls)
	s := p.Summary()
	assert.Equal(t, []int{state.Calls.Started, state.Calls.Completed, state.Calls.Failed, state.Calls.Attempts, state.Calls.Retries},
		[]int{s.All().Calls(), s.All().Completed, s.All().Failed, s.Attempts, s.Retries})
}

// TestCallsAroundTheCurrentOneAreListed checks that the snapshot lists the calls around the current
// call. A client that begins with the snapshot needs these calls.
func TestCallsAroundTheCurrentOneAreListed(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	st := state.New(state.WithRunID("r"), state.WithPublisher(h))
	reached, leave := make(chan struct{}), make(chan struct{})
	busy := decorators.Tool("busy", "waits", func(context.Context, job) (int, error) {
		close(reached)
		<-leave
		return 0, nil
	})
	inner := decorators.Agent("inner", "has it", func(ctx context.Context, in job) (int, error) { return busy.Call(ctx, in) })
	outer := decorators.Agent("outer", "has all", func(ctx context.Context, in job) (int, error) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "one"}, func(ctx context.Context) (int, error) { return inner.Call(ctx, in) })
		return 0, err
	})
	ended := make(chan error)
	go func() {
		_, err := outer.Call(st.Context(t.Context()), job{})
		ended <- err
	}()
	<-reached
	got, _, err := (&streamer.Client{URL: server.URL}).State(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, "outer/group:one/1/inner/busy", got.Current.Address.String())
	var around []string
	for _, c := range got.Around {
		around = append(around, c.Kind.String()+" "+c.Address.String())
	}
	assert.Equal(t, []string{"agent_call outer", "group outer/group:one", "branch outer/group:one/1", "agent_call outer/group:one/1/inner"}, around)
	assert.Equal(t, streamer.Calls{Started: 3, Active: 3, Attempts: 3}, got.Calls)
	close(leave)
	require.NoError(t, <-ended)
	require.NoError(t, st.Close())
	got, _, err = (&streamer.Client{URL: server.URL}).State(t.Context(), "r")
	require.NoError(t, err)
	assert.Nil(t, got.Around)
}
