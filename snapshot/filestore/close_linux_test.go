package filestore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestAClosedStoreHoldsNoDescriptor(t *testing.T) {
	dir := t.TempDir()
	before := len(names(t, "/proc/self/fd"))
	for range 300 {
		s, err := filestore.New(dir)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, len(names(t, "/proc/self/fd")), before+20)
}

func TestAJournalOfAClosedStoreContinues(t *testing.T) {
	s, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	j := begin(t, s)
	require.NoError(t, s.Close())
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(t.Context(), 3))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	requireRecords(t, load(t, s, "run").Records, 3)
}
