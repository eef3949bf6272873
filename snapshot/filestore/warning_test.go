package filestore_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// Not parallel: the whole process shares the default logger.
func TestWarningsAreLoggedByDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))

	dir := t.TempDir()
	s, err := filestore.New(dir)
	require.NoError(t, err)
	j, err := s.Open(t.Context(), "run-7", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for _, r := range storetest.Records(1, 2) {
		require.NoError(t, j.Append(r))
	}
	filestore.Abandon(j)
	name := filepath.Join(dir, "runs", "run-7", "00000001.journal")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(name, int64(len(framesAlone(t, data)))-1))
	require.Empty(t, log.String())

	j, err = s.Open(t.Context(), "run-7", snapshot.OpenOptions{})
	require.NoError(t, err)
	filestore.Abandon(j)
	assert.Contains(t, log.String(), "level=WARN")
	assert.Contains(t, log.String(), "run=run-7")
	assert.Contains(t, log.String(), "00000001.journal")
}
