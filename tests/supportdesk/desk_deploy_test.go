package supportdesk

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// maxDelay is the maximum delay before a client reconnects.
const maxDelay = 100 * time.Millisecond

// until reads the events of a run up to the first one with the given name.
func (s *supervisor) until(id, event string) {
	s.t.Helper()
	stream := &streamer.Client{URL: s.url, Run: id, MaxDelay: maxDelay}
	for e, err := range stream.Events(s.t.Context()) {
		require.NoError(s.t, err)
		if e.Name == event {
			return
		}
	}
}

// asked opens a ticket, and waits until its run asks for approval.
func (s *supervisor) asked(id string) {
	s.t.Helper()
	require.NoError(s.t, s.open(s.t.Context(), id, &plans[1]))
	s.until(id, "run_paused")
}

// approve approves a refund, and sends the signal that the customer has called.
func (s *supervisor) approve(id string) {
	s.t.Helper()
	asked, err := s.answer(s.t.Context(), id, id, true)
	require.NoError(s.t, err)
	require.True(s.t, asked)
	require.NoError(s.t, s.called(s.t.Context(), id, *plans[1].call))
}

// refunded checks that a ticket was refunded by the given version.
func (s *supervisor) refunded(id, version string) {
	s.t.Helper()
	s.until(id, "run_completed")
	result, err := s.client().Result(s.t.Context(), id)
	require.NoError(s.t, err)
	s.check(s.t, id, &plans[1], result)
	state, _, err := s.client().State(s.t.Context(), id)
	require.NoError(s.t, err)
	assert.Equal(s.t, version, state.Version, id)
	_, _, _, surveys, _ := s.outside.paid(id)
	assert.Equal(s.t, version == "2", surveys == 1, id)
}

// Version 2 is deployed while runs of version 1 are in progress, and version 1 completes these
// runs. A bad build is rolled back, and the runs that it refused continue by themselves. Runs of
// version 2 wait while version 2 is not deployed. Each of these changes is a single command.
func TestVersionsAreDeployedAndRolledBackWithOneCommandEach(t *testing.T) {
	s := supervise(t, newOutside(t))
	s.asked("ticket-1")
	s.deploy("desk-2")
	s.asked("ticket-2")
	s.approve("ticket-1")
	s.refunded("ticket-1", "1")
	s.approve("ticket-2")
	s.refunded("ticket-2", "2")

	s.asked("ticket-3")
	s.deploy("desk-bad")
	s.approve("ticket-3")
	s.until("ticket-3", "run_interrupted")
	state, _, err := s.client().State(t.Context(), "ticket-3")
	require.NoError(t, err)
	require.NotNil(t, state.Stop)
	assert.Equal(t, "divergence", state.Stop.Reason)
	_, payouts, _, _, _ := s.outside.paid("ticket-3")
	assert.Zero(t, payouts)
	s.deploy("desk-2")
	s.refunded("ticket-3", "2")

	s.asked("ticket-4")
	s.deploy("desk-1")
	s.approve("ticket-4")
	s.asked("ticket-5")
	s.approve("ticket-5")
	s.refunded("ticket-5", "1")
	_, payouts, _, _, _ = s.outside.paid("ticket-4")
	assert.Zero(t, payouts, "the run waits for its version")
	s.deploy("desk-2")
	s.refunded("ticket-4", "2")

	values, err := s.client().Values(t.Context(), "ticket-4")
	require.NoError(t, err)
	assert.JSONEq(t, `"done"`, string(values["order"]))
	list, err := s.client().Runs(t.Context(), 0)
	require.NoError(t, err)
	callers := make(map[string]int)
	for _, run := range list.Runs {
		if run.Program == "letter" {
			callers[run.CalledBy]++
		}
	}
	assert.Equal(t, map[string]int{"ticket-1": 1, "ticket-2": 1, "ticket-3": 1, "ticket-4": 1, "ticket-5": 1}, callers)
	s.stop()
	for _, code := range s.codes {
		assert.Zero(t, code, "a process that is asked to end exits without an error")
	}
}

func TestForeignWebhookStartsNothing(t *testing.T) {
	s := supervise(t, newOutside(t))
	body, err := json.Marshal(Ticket{ID: "ticket-1"})
	require.NoError(t, err)
	var status *streamer.StatusError
	require.ErrorAs(t, s.hook(t.Context(), body, "00"), &status)
	assert.Equal(t, http.StatusUnauthorized, status.Code)
	_, _, err = s.client().State(t.Context(), "ticket-1")
	require.ErrorIs(t, err, streamer.ErrNotFound)
}
