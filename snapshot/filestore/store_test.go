package filestore_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestFileStoreKeepsTheRulesOfStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) snapshot.Store {
		return newFileStore(t, t.TempDir(), filestore.WithDisk(filestore.OSDisk))
	})
}

func TestFileStoreThatCompactsAllTheTimeKeepsTheRulesOfStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) snapshot.Store {
		return newFileStore(t, t.TempDir(), filestore.WithCompactFrom(1))
	})
}

func TestFileArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(t *testing.T) snapshot.ArtifactStore {
		a, err := filestore.NewArtifacts(t.TempDir())
		require.NoError(t, err)
		return a
	})
}

// newFileStore returns a store that syncs nothing and whose warnings fail the
// test, unless opts say otherwise.
func newFileStore(t testing.TB, dir string, opts ...filestore.Option) *filestore.Store {
	t.Helper()
	s, err := filestore.New(dir, append([]filestore.Option{
		filestore.WithDisk(fastDisk{filestore.OSDisk}), filestore.WithCompactAtClose(0),
		filestore.WithWarnings(func(runID string, err error) { t.Errorf("run %s: %v", runID, err) }),
	}, opts...)...)
	require.NoError(t, err)
	return s
}

// A fastDisk syncs nothing.
type fastDisk struct{ filestore.Disk }

func (d fastDisk) Create(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.Create(name)
	return fastFile{f}, err
}

func (d fastDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.OpenToWrite(name)
	return fastFile{f}, err
}

func (fastDisk) SyncDir(string) error { return nil }

func (d fastDisk) In(dir *os.Root, path string) filestore.Disk {
	return fastDisk{d.Disk.(filestore.DirOpener).In(dir, path)}
}

type fastFile struct{ filestore.DiskFile }

func (fastFile) Sync() error { return nil }

// begin opens the run with the ID run, and creates it if it does not exist.
func begin(t testing.TB, s snapshot.Store) snapshot.Journal {
	t.Helper()
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	return j
}

// closeAs closes a journal with a status.
func closeAs(j snapshot.Journal, status snapshot.Status) error {
	return j.Close(context.Background(), snapshot.End{Status: status})
}

// load reads a run with its records.
func load(t testing.TB, s snapshot.Store, runID string) *snapshot.Snapshot {
	t.Helper()
	run, err := s.Load(t.Context(), runID)
	require.NoError(t, err)
	return decoded(t, run)
}

func decoded(t testing.TB, run *snapshot.Run) *snapshot.Snapshot {
	t.Helper()
	sn, err := run.Snapshot()
	require.NoError(t, err)
	return sn
}

func TestFileStoreKeepsTheRulesOfSharedStores(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) func() snapshot.Store {
		dir := t.TempDir()
		return func() snapshot.Store { return newFileStore(t, dir) }
	})
}

// After the crash, the store uses a copy of the directory, to which the locks do not apply.
func TestFileStoreKeepsTheRulesForCrashes(t *testing.T) {
	t.Parallel()
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		dir := t.TempDir()
		return newFileStore(t, dir), func() snapshot.Store {
			next := t.TempDir()
			require.NoError(t, os.CopyFS(next, os.DirFS(dir)))
			return newFileStore(t, next)
		}
	})
}
