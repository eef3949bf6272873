package filestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// An error that is not about the run itself is ErrUnavailable, and names the operation that failed.
// An error from a read does not mention writing.
func TestErrorsOfTheSystemSayWhatCouldNotBeDone(t *testing.T) {
	t.Parallel()
	disk := newFaultyDisk()
	s := newFileStore(t, memoryDir(t), filestore.WithDisk(disk))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	ref, err := s.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EMFILE, syscall.EIO} {
		disk.open = func(name string) error {
			if name == "lock" || name == "meta" || name == "update" {
				return nil
			}
			return &fs.PathError{Op: "open", Path: name, Err: errno}
		}
		_, load := s.Load(t.Context(), "run")
		_, open := s.Open(t.Context(), "run", snapshot.OpenOptions{})
		_, repair := s.Repair(t.Context(), "run")
		_, last := recordsAfter(t, s, 0)
		_, get := s.Get(t.Context(), ref)
		for what, err := range map[string]error{"load": load, "open": open, "repair": repair, "records": last, "get": get} {
			require.ErrorIs(t, err, snapshot.ErrUnavailable, what)
			require.ErrorIs(t, err, errno, what)
			require.NotErrorIs(t, err, snapshot.ErrCorrupt, what)
			require.NotContains(t, err.Error(), "write", what)
		}
		require.ErrorContains(t, load, "snapshot: read run run: snapshot: the store is unavailable: open 00000001.")
	}
	disk.open = func(string) error { return nil }
	j = begin(t, s)
	disk.write = func(string) error { return syscall.EFBIG }
	err = j.Append(storetest.Records(4, 1)...)
	require.ErrorIs(t, err, snapshot.ErrUnavailable, "the file has reached the maximum size")
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorIs(t, closeAs(j, snapshot.StatusPaused), snapshot.ErrUnavailable)
}

// A run whose directory is a link is not listed, but may still refer to artifacts.
func TestNoArtifactIsRemovedNextToARunThatIsALink(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	ref, err := s.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	run := filepath.Join(dir, "runs", "run")
	elsewhere := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Rename(run, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, run))
	_, err = s.GC(t.Context(), -time.Hour)
	require.ErrorContains(t, err, "snapshot: cannot determine which artifacts are in use: run run: ")
	require.ErrorContains(t, err, "it is a link")
	_, err = s.Garbage(t.Context(), -time.Hour)
	require.ErrorContains(t, err, "it is a link")
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)

	require.NoError(t, os.Remove(run))
	removed, err := s.GC(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
}
