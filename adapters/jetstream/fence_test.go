package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
)

// fence takes over a run from a live owner, as a process whose clock is wrong might.
func fence(t *testing.T, s *jetstream.Store, runID string) {
	t.Helper()
	require.NoError(t, jetstream.Fence(t.Context(), s, runID))
}
