package state_test

import (
	"errors"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestHostRefusesBeforeAnythingIsRecorded(t *testing.T) {
	store := memstore.New()
	_, err := state.Open(t.Context(), store, "r", state.WithHost(state.Host{Existing: func(*snapshot.Run) error { return nil }}))
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	st, err := state.Open(t.Context(), store, "r", state.WithHost(state.Host{Owner: "host/7"}))
	require.NoError(t, err)
	_, err = state.Open(t.Context(), store, "r")
	require.ErrorContains(t, err, "host/7")
	require.NoError(t, st.Close())

	before, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	no := errors.New("no")
	_, err = state.Open(t.Context(), store, "r", state.WithHost(state.Host{Existing: func(found *snapshot.Run) error {
		assert.Equal(t, before.Len(), found.Len())
		return no
	}}))
	require.ErrorIs(t, err, no)
	after, err := store.Load(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, before.Len(), after.Len())
	assert.Equal(t, before.Status, after.Status)
	assert.False(t, after.Open)
}
