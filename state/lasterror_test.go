package state_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// TestLastErrorOfARunIsGoneAfterARetry checks that a retried run that waits for an answer no longer
// shows the error of the calls that were made again.
func TestLastErrorOfARunIsGoneAfterARetry(t *testing.T) {
	store := memstore.New()
	key := ""
	open := func() snapshot.Summary {
		st, err := state.Open(t.Context(), store, "dinner")
		require.NoError(t, err)
		agent := testkit.Agent(t, "dinner", once, func(ctx context.Context, _ string) (string, error) {
			if _, err := core.Step(ctx, "model", func(context.Context) (string, error) {
				if key == "" {
					return "", core.Permanent(errors.New("401: key is missing"))
				}
				return "said", nil
			}); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "which restaurant?")
		})
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.Error(t, err)
		require.NoError(t, st.Close())
		info, err := store.Info(t.Context(), "dinner")
		require.NoError(t, err)
		return info.Summary
	}
	failed := open()
	require.NotNil(t, failed.LastError)
	assert.Contains(t, failed.LastError.Message, "401: key is missing")

	key = "secret"
	_, err := state.Retry(t.Context(), store, "dinner")
	require.NoError(t, err)
	assert.Nil(t, open().LastError)
	info, err := store.Info(t.Context(), "dinner")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusPaused, info.Status)
}
