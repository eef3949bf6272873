package snapshot_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestFileStoreKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(t *testing.T) snapshot.Store {
		return newFileStore(t, t.TempDir(), snapshot.WithDisk(snapshot.OSDisk))
	})
}

func TestFileStoreThatCompactsAllTheTimeKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(t *testing.T) snapshot.Store {
		return newFileStore(t, t.TempDir(), snapshot.WithCompactFrom(1))
	})
}

func TestFileArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(t *testing.T) snapshot.ArtifactStore {
		a, err := snapshot.NewFileArtifacts(t.TempDir())
		require.NoError(t, err)
		return a
	})
}

// newFileStore returns a store that syncs nothing unless it is given another
// disk, and whose warnings fail the test unless it is told otherwise.
func newFileStore(t testing.TB, dir string, opts ...snapshot.FileOption) *snapshot.FileStore {
	t.Helper()
	s, err := snapshot.NewFileStore(dir, append([]snapshot.FileOption{
		snapshot.WithDisk(fastDisk{snapshot.OSDisk}),
		snapshot.WithWarnings(func(runID string, err error) { t.Errorf("run %s: %v", runID, err) }),
	}, opts...)...)
	require.NoError(t, err)
	return s
}

// A fastDisk syncs nothing.
type fastDisk struct{ snapshot.Disk }

func (d fastDisk) Create(name string) (snapshot.DiskFile, error) {
	f, err := d.Disk.Create(name)
	return fastFile{f}, err
}

func (fastDisk) SyncDir(string) error { return nil }

type fastFile struct{ snapshot.DiskFile }

func (fastFile) Sync() error { return nil }
