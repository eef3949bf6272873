package filestore_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A syncCounter notes which files and directories are synced.
type syncCounter struct {
	filestore.Disk
	files, dirs []string
	together    bool // what SyncTogether returns
}

func (d *syncCounter) Create(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.Create(name)
	return &countedFile{f, d, filepath.Base(name)}, err
}

func (d *syncCounter) OpenToWrite(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.OpenToWrite(name)
	return &countedFile{f, d, filepath.Base(name)}, err
}

func (d *syncCounter) SyncDir(name string) error {
	d.dirs = append(d.dirs, filepath.Base(name))
	return nil
}

func (d *syncCounter) SyncTogether(filestore.DiskFile) bool { return d.together }

type countedFile struct {
	filestore.DiskFile
	disk *syncCounter
	name string
}

func (f *countedFile) Sync() error {
	f.disk.files = append(f.disk.files, f.name)
	return nil
}

func TestAShortRunMakesNoUnneededSync(t *testing.T) {
	d := &syncCounter{Disk: filestore.OSDisk}
	s, err := filestore.New(t.TempDir(), filestore.WithDisk(d))
	require.NoError(t, err)
	d.files, d.dirs = nil, nil

	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, []string{"00000001.journal"}, d.files)
	require.Equal(t, []string{"run", "runs"}, d.dirs)

	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 4)...))
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	require.Equal(t, []string{"00000001.journal", "00000001.journal"}, d.files[1:], "one sync by Open, and one by Close")
	require.Empty(t, d.dirs[2:])

	// Update syncs its file. The meta file is never synced, because the other files contain
	// everything that is in it.
	d.files, d.dirs = nil, nil
	_, err = s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.Equal(t, []string{"update.tmp"}, d.files)
	require.Equal(t, []string{"run"}, d.dirs)
	j, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	require.Equal(t, []string{"00000001.journal", "00000001.journal"}, d.files[1:])

	// If the disk has synced everything, Create syncs nothing itself.
	d.files, d.dirs, d.together = nil, nil, true
	run.RunID = "another"
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
	require.Empty(t, d.files)
	require.Empty(t, d.dirs)
}

// A runsDisk blocks syncs of the directory of all runs until the test ends them.
type runsDisk struct {
	filestore.Disk
	begun chan struct{}
	end   chan error
}

func (d *runsDisk) SyncDir(name string) error {
	if filepath.Base(name) != "runs" || d.begun == nil {
		return nil
	}
	d.begun <- struct{}{}
	return <-d.end
}

func TestRunsThatAreCreatedMeanwhileShareTheNextSync(t *testing.T) {
	d := &runsDisk{Disk: filestore.OSDisk}
	s, err := filestore.New(t.TempDir(), filestore.WithDisk(d), filestore.WithPolling(1e9))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		d.begun, d.end = make(chan struct{}), make(chan error)
		var creating sync.WaitGroup
		errs := make(chan error, 4)
		create := func(id string) {
			creating.Go(func() {
				run, err := snapshot.NewRun(snapshot.Info{RunID: id, Status: snapshot.StatusQueued}, nil)
				if err == nil {
					_, err = s.Create(t.Context(), run)
				}
				errs <- err
			})
		}
		create("first")
		<-d.begun
		for _, id := range []string{"a", "b", "c"} {
			create(id)
		}
		synctest.Wait()
		d.end <- nil
		require.NoError(t, <-errs)
		<-d.begun // one sync for all runs
		lost := errors.New("lost")
		d.end <- lost
		creating.Wait()
		for range 3 {
			require.ErrorIs(t, <-errs, lost)
		}
	})
}
