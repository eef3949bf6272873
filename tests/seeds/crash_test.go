package seeds

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// crashStep makes a step with the configuration. The process ends during every attempt, until the
// run no longer continues. crashStep returns the number of attempts and the last error.
func crashStep(t *testing.T, r config.Retry) (attempts int, err error) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		var store snapshot.Store = memstore.New()
		for crashed := true; crashed; {
			crashed = false
			here, left := store, memstore.New()
			step := testkit.Tool(t, "step", r.Config(), func(context.Context, string) (string, error) {
				attempts++
				crashed = true
				found := testkit.LoadRun(t, here, "run-1") // the run as it is if the process ends here
				found.Status = snapshot.StatusInterrupted
				run, err := found.Run()
				require.NoError(t, err)
				_, err = left.Create(t.Context(), run)
				require.NoError(t, err)
				return "lost", nil
			})
			st, openErr := state.Open(t.Context(), here, "run-1")
			require.NoError(t, openErr)
			_, err = testkit.Call(st.Context(t.Context()), step)
			require.NoError(t, st.Close())
			store = left
		}
	})
	return attempts, err
}

// "An attempt counts when it is claimed", so an attempt that ends in a crash counts, and after the
// last attempt the step fails.
func TestTaskerCountsACrash(t *testing.T) {
	attempts, err := crashStep(t, tasker(t, "retry:\n  retryable: true\n  max_attempts: 3\n  backoff_base_ms: 0\n"))
	assert.Equal(t, 3, attempts)
	require.ErrorIs(t, err, core.ErrInDoubt)

	attempts, err = crashStep(t, tasker(t, "retry:\n  retryable: false\n"))
	assert.Equal(t, 1, attempts)
	require.ErrorIs(t, err, core.ErrInDoubt)
}

// When a flow is recovered at startup, its attempt is repeated as a retry.
func TestArgyllCountsARestart(t *testing.T) {
	for _, c := range []struct {
		retries string
		want    int
	}{{"3", 4}, {"0", 1}} {
		attempts, err := crashStep(t, argyll(t, config.ArgyllV1,
			`{"work_config": {"max_retries": `+c.retries+`, "backoff": 1, "max_backoff": 1, "backoff_type": "fixed"}}`))
		assert.Equal(t, c.want, attempts)
		require.ErrorIs(t, err, core.ErrInDoubt)
	}
}

// rh_agents and NoETL do not mention crashes. A lost attempt is repeated, and after five lost
// attempts in a row, the run is set aside.
func TestOthersDoNotCountACrash(t *testing.T) {
	attempts, err := crashStep(t, config.Retry{MaxAttempts: 2})
	assert.Equal(t, 5, attempts)
	testkit.Interrupted(t, err, "crash_loop")
}
