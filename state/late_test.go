package state_test

import (
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
		"takes longer":   {nil, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				st, err := state.Open(t.Context(), s, "run")
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Succeed))
				require.NoError(t, err)
				began, told := time.Now(), make(chan error, 1)
				go func() { told <- state.AwaitStop(t.Context(), s, "run") }()
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
				require.NoError(t, st.Close())
			})
		})
	}
}
