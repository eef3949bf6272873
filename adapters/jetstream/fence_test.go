package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
)

// fence takes a run over from an owner who lives, as another whose clock is wrong
// would.
func fence(t *testing.T, s *jetstream.Store, runID string) {
	t.Helper()
	require.NoError(t, jetstream.Fence(t.Context(), s, runID))
}
