package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

// What a crash has left of a short run is in nobody's way.
func TestALongRunIsCreatedWhereTheCreationOfAShortOneWasCutShort(t *testing.T) {
	for _, cut := range []int{0, 10, 200} {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "runs", "run"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", "00000001.journal"), createdFiles(t)[:cut], 0o600))
		createShort(t, s) // which is long for this store
		require.Len(t, load(t, s, "run").Records, 3)
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		require.Len(t, load(t, s, "run").Records, 3)
	}
}
