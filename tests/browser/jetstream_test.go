package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestThePageShowsRunsInJetStream checks the page with runs that another process executes: the list
// with its totals, a retry, a question and its answer, and the inputs and outputs of calls.
func TestThePageShowsRunsInJetStream(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	connect := func() *jetstream.Store {
		store, err := jetstream.Open(t.Context(), server.Connect(), jetstream.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		return store
	}
	worker, store := connect(), connect()
	for i := range 30 {
		status := snapshot.StatusCompleted
		if i%10 == 0 {
			status = snapshot.StatusFailed
		}
		_, err := worker.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: fmt.Sprintf("order-%02d", i), Status: status}})
		require.NoError(t, err)
	}
	runs := stored.New(store)
	s := newSite(t, runs, streamer.Options{Control: stored.NewControl(store)}, nil)
	background(t, func() { _ = runs.Follow(t.Context(), s.dash) })
	p := open(t, s.url())
	p.waitText("#runs-total", "30")
	p.waitText(`[data-status="failed"].tile b`, "3")
	p.click(`[data-status="failed"].tile`)
	p.wait(`document.querySelectorAll("#run-rows [data-run]").length === 3`)
	p.click(`[data-status="failed"].tile`)

	again, release := make(chan struct{}), make(chan struct{})
	attempts := 0
	book := decorators.Tool("book", "fails at first", func(ctx context.Context, in City) (string, error) {
		if attempts++; attempts == 1 {
			return "", core.Retryable(errors.New("the line is busy"))
		}
		close(again)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "a room in " + in.Name, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: 10 * time.Millisecond}))
	clerk := decorators.Agent("clerk", "books and asks", func(ctx context.Context, in City) (bool, error) {
		if _, err := book.Call(ctx, in); err != nil {
			return false, err
		}
		return core.Await[bool](ctx, "Is it to be paid?")
	})
	// execute opens the run and calls the agent.
	execute := func() (bool, error) {
		st, err := state.Open(t.Context(), worker, "trip", state.WithPayloads())
		if err != nil {
			return false, err
		}
		paid, err := clerk.Call(st.Context(t.Context()), City{"Oslo"})
		return paid, errors.Join(err, st.Close())
	}
	stopped := make(chan error, 1)
	background(t, func() {
		_, err := execute()
		stopped <- err
	})
	<-again
	p.waitText(`[data-run="trip"] .now`, "book")
	p.waitText(`[data-run="trip"] .error`, "the line is busy")
	p.click(`[data-run="trip"] .id`)
	p.waitText(`[data-call="clerk/book"] .lane-state`, "2 of 3")
	close(release)
	require.ErrorIs(t, <-stopped, core.ErrAwaiting)
	p.waitText("#run-status", "needs answer")
	p.waitText("#run-questions", "Is it to be paid?")
	p.settle()
	p.click("#run-questions .yes")
	p.waitText("#run-questions .answer", "Answered. ")
	paid, err := execute()
	require.NoError(t, err)
	assert.True(t, paid)
	p.waitText("#run-status", "completed")
	assert.Equal(t, `"a room in Oslo"`, eval[string](p, `fetch("api/runs/trip/calls/clerk%2Fbook/output").then((response) => response.text()).then((text) => text.trim())`))
	p.click("#back")
	p.waitText("#runs-total", "31")
}
