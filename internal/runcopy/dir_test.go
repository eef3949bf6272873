package runcopy_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// Copying from a wrong directory must not look like copying from an empty store, and must not turn
// the directory into a store.
func TestCopyFromADirectoryThatIsNoStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	err := runcopy.FromDir(t.Context(), memstore.New(), dir, nil, io.Discard)
	require.ErrorContains(t, err, dir+` is not a store: it has no directory "runs"`)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.Error(t, runcopy.FromDir(t.Context(), memstore.New(), filepath.Join(dir, "none"), nil, io.Discard))

	store, err := filestore.New(dir)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoError(t, runcopy.FromDir(t.Context(), memstore.New(), dir, nil, io.Discard), "an empty store")
}
