package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// walkedError counts how often it was unwrapped.
type walkedError struct{ times int }

func (*walkedError) Error() string { return "walked" }

func (e *walkedError) Unwrap() error {
	e.times++
	return errors.New("inside")
}

// A single walk of an error's tree finds its class, its marks, and the parts of it that are
// recorded.
func TestErrorOfAFailedAttemptIsWalkedOnce(t *testing.T) {
	inMemory := state.New()
	stored, err := state.Open(t.Context(), memstore.New(), "run")
	require.NoError(t, err)
	for name, st := range map[string]*state.ExecutionState{"in memory": inMemory, "stored": stored} {
		var failures []*walkedError
		tool := testkit.Define(t, core.Spec{
			Kind: record.KindTool, Name: "tool", Retry: &core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay},
		}, func(context.Context, int) (int, error) {
			if len(failures) == 2 {
				return 1, nil
			}
			e := new(walkedError)
			failures = append(failures, e)
			return 0, core.Retryable(e)
		})
		_, err := tool.Event().Execute(st.Context(t.Context()), 1)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		for _, e := range failures {
			assert.Equal(t, 1, e.times, name)
		}
	}
}
