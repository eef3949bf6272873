package snapshot_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestMemoryStoreKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return snapshot.NewMemoryStore() })
}

func TestMemoryArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return new(snapshot.MemoryArtifacts) })
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return snapshot.NewMemoryStore() })
}

func TestAfterACrashRunsAreInterruptedAndFree(t *testing.T) {
	s := snapshot.NewMemoryStore()
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 2)...))
	after := s.AfterCrash()
	require.NoError(t, j.Append(storetest.Records(3, 1)...))

	next, err := after.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusInterrupted, next.Restored().Status)
	require.Len(t, next.Restored().Records, 2)
	require.NoError(t, next.Close(snapshot.StatusCompleted))
	require.NoError(t, j.Close(snapshot.StatusCompleted))
}
