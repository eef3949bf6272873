package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A heldFS is a file system whose syncs block until the test ends them.
type heldFS struct {
	begun  chan struct{}
	end    chan error
	other  *os.File // a file of another file system
	size   int64    // number of dirty bytes
	closed bool
}

func newHeldFS() *heldFS {
	return &heldFS{begun: make(chan struct{}, 10), end: make(chan error)}
}

func (h *heldFS) has(f *os.File) bool { return f != h.other }
func (h *heldFS) dirty() int64        { return h.size }
func (h *heldFS) sync() error {
	h.begun <- struct{}{}
	return <-h.end
}

func (h *heldFS) close() error { h.closed = true; return nil }

// A syncingFile is a file that is being synced.
type syncingFile struct {
	file  *os.File
	alone chan error // receives the result if the file is synced alone
	done  chan error
}

// begin starts the sync of a file.
func begin(s *sharedSync) syncingFile {
	g := syncingFile{new(os.File), make(chan error), make(chan error, 1)}
	go func() { g.done <- s.sync(g.file, func(*os.File) error { return <-g.alone }) }()
	synctest.Wait()
	return g
}

// isShared reports whether a file is synced together with others.
func (g syncingFile) isShared() bool {
	synctest.Wait()
	select {
	case g.alone <- nil:
		return false
	default:
		return true
	}
}

// occupy starts the maximum number of syncs of single files.
func occupy(t *testing.T, s *sharedSync) (release func()) {
	var all []syncingFile
	for range syncsAlone {
		all = append(all, begin(s))
	}
	return func() {
		for _, g := range all {
			g.alone <- nil
			require.NoError(t, <-g.done)
		}
	}
}

// occupied calls test while the maximum number of syncs of single files is running.
func occupied(t *testing.T, test func(t *testing.T, fs *heldFS, s *sharedSync)) {
	synctest.Test(t, func(t *testing.T) {
		fs := newHeldFS()
		s := &sharedSync{fs: fs}
		release := occupy(t, s)
		test(t, fs, s)
		release()
	})
}

func TestFewFilesAreSyncedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newHeldFS()
		s := &sharedSync{fs: fs}
		occupy(t, s)()
		occupy(t, s)() // ended syncs do not count
		require.Empty(t, fs.begun)
	})
}

func TestSyncsDuringASharedSyncWaitForTheNext(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		first := begin(s)
		<-fs.begun
		second, third := begin(s), begin(s)
		fs.end <- nil
		require.NoError(t, <-first.done)
		<-fs.begun // one sync for both files
		require.Empty(t, second.done)
		require.Empty(t, third.done)
		fs.end <- nil
		require.NoError(t, <-second.done)
		require.NoError(t, <-third.done)
		require.Empty(t, fs.begun)
	})
}

func TestASyncTogetherIsOneSharedSync(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		done := make(chan bool, 2)
		for _, err := range []error{nil, errors.New("a write of some file failed")} {
			go func() { done <- s.syncTogether(new(os.File)) }()
			<-fs.begun
			fs.end <- err
			require.Equal(t, err == nil, <-done)
		}
		require.False(t, s.syncTogether(new(os.File)), "a sync of the file system has failed")
		require.Empty(t, fs.begun)
	})
	require.False(t, (&sharedSync{fs: newHeldFS()}).syncTogether(new(os.File)), "no other file is being synced")
	require.False(t, (*sharedSync)(nil).syncTogether(new(os.File)))
}

func TestAfterAFailedSharedSyncEachFileIsSyncedSeparately(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		first := begin(s)
		<-fs.begun
		second := begin(s)
		fs.end <- errors.New("a write of some file failed")
		lost := errors.New("a write of this file failed")
		first.alone <- lost
		require.ErrorIs(t, <-first.done, lost)
		second.alone <- nil
		require.NoError(t, <-second.done)
		third := begin(s)
		require.False(t, third.isShared())
		require.NoError(t, <-third.done)
		require.Empty(t, fs.begun)
	})
}

func TestASyncDoesNotWaitForDataOfOtherPrograms(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		fs.size = maxDirty + 1
		require.False(t, begin(s).isShared())
		fs.size = maxDirty
		g := begin(s)
		require.True(t, g.isShared())
		fs.end <- nil
		require.NoError(t, <-g.done)
	})
}

func TestFilesOfAnotherFileSystemAreSyncedSeparately(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		fs.other = new(os.File)
		alone := make(chan struct{})
		go func() { _ = s.sync(fs.other, func(*os.File) error { close(alone); return nil }) }()
		<-alone
	})
}

// The test's file system is synced as a whole if that is possible.
func TestAFileSystemIsSyncedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	s := newSharedSync(dir)
	if s == nil {
		t.Skip("this file system is not known to be safe")
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	require.True(t, s.fs.has(f))
	proc, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	t.Cleanup(func() { _ = proc.Close() })
	require.False(t, s.fs.has(proc))
	_, err = f.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.Positive(t, s.fs.dirty())
	require.NoError(t, s.fs.sync())

	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, err := f.WriteAt([]byte("x"), 0)
			if err == nil {
				err = s.sync(f, syncData)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.False(t, s.failed.Load())
	require.NoError(t, f.Close())
	for range 50 { // a closed file cannot be synced, either alone or with others
		all.Go(func() {
			if s.sync(f, syncData) == nil {
				t.Error("a closed file was synced")
			}
		})
	}
	all.Wait()
}

// After Close, the descriptor is not used, because its number may belong to another file by then.
func TestAClosedStoreSyncsEachFileSeparately(t *testing.T) {
	occupied(t, func(t *testing.T, fs *heldFS, s *sharedSync) {
		g := begin(s)
		<-fs.begun
		closed := make(chan error, 1)
		go func() { closed <- s.close() }()
		synctest.Wait()
		require.False(t, fs.closed, "the file system was closed during a sync")
		fs.end <- nil
		require.NoError(t, <-g.done)
		require.NoError(t, <-closed)
		require.True(t, fs.closed)
		after := begin(s)
		require.False(t, after.isShared())
		require.NoError(t, <-after.done)
	})
}
