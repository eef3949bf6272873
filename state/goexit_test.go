package state_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A handler without a timeout may end its goroutine, so that nothing returns to
// the caller. The status of the run must then not be completed.
func TestHandlerThatEndsItsGoroutineHasFailed(t *testing.T) {
	s := new(tape)
	tool := testkit.Tool(t, "tool", steady, func(context.Context, string) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	agent := testkit.Agent(t, "agent", once, through(tool))
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = testkit.Call(st.Context(t.Context()), agent)
	}()
	<-left
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusFailed, st.Status())
	wantRecords(t, st, "run started", "agent_call agent started", "tool_call agent/tool started",
		"tool_call agent/tool failed", "agent_call agent failed", "run failed")

	_, err = openedFor(t, s, agent, undisturbed)
	testkit.Failed(t, err, record.ReasonPanic)
	assert.ErrorContains(t, err, "runtime.Goexit")
}
