package state_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// TestReportCountsCallsAndNotTheGroupsThatHoldThem checks that the calls inside groups and branches
// are counted, but not the groups and branches themselves.
func TestReportCountsCallsAndNotTheGroupsThatHoldThem(t *testing.T) {
	s := memstore.New()
	tool := testkit.Tool(t, "tool", once, testkit.Succeed)
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, err := group(ctx, "both", calling(tool), calling(tool))
		return "", err
	})
	program := func(ctx context.Context) error {
		if _, err := group(ctx, "own", calling(tool)); err != nil {
			return err
		}
		_, err := testkit.Call(ctx, agent)
		return err
	}
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.NoError(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())
	assert.Equal(t, state.Report{Attempts: 4, Executed: 4, Records: 20}, st.Report())

	st, err = state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.NoError(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())
	assert.Equal(t, 1, st.Report().Restored, "only the agent counts: the calls inside it were not recalled")
	assert.Zero(t, st.Report().Attempts)
}

// A run in memory counts its records only when the counts are requested.
func TestReportDoesNotDependOnHowOftenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := func(asks bool) state.Report {
			st, ctx := testkit.Run(t)
			ask := func() {
				if asks {
					st.Report()
				}
			}
			retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Minute, Jitter: core.NoJitter}
			flaky := testkit.Tool(t, "flaky", retry, testkit.Failing(2, core.Retryable(errors.New("boom"))))
			broken := testkit.Tool(t, "broken", retry, testkit.Fail(errors.New("boom")))
			agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				ask()
				out, err := testkit.Call(ctx, flaky)
				ask()
				_, _ = testkit.Call(ctx, broken)
				return out, err
			})
			for range 100 { // makes more records than fit into a chunk
				ask()
				_, err := testkit.Call(ctx, agent)
				require.NoError(t, err)
			}
			require.NoError(t, st.Close())
			first := st.Report()
			assert.Equal(t, first, st.Report(), "asked twice")
			return st.Report()
		}
		often := report(true)
		assert.Equal(t, often, report(false))
		assert.Equal(t, 300, often.Executed)
		assert.Equal(t, 2, often.Retries, "the tool fails twice only")
		assert.Equal(t, 2*time.Minute, often.Waited)
	})
}
