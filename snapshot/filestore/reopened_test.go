package filestore_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// everyWorld calls look with a store in each world that a power cut at this moment may leave.
func everyWorld(t *testing.T, d *powerDisk, look func(s *filestore.Store)) {
	t.Helper()
	dir := filepath.Join(memoryDir(t), "world")
	d.worlds(2000, rand.New(rand.NewPCG(1, 2)), func(w world) {
		w.write(t, dir)
		look(newFileStore(t, dir, filestore.WithWarnings(func(string, error) {})))
	})
}

// A later sync does not make up for one that has failed, because the system marks data as written
// even if it could not write the data. So the store must not trust what it reads from the file.
func TestAnUpdateAfterAFailedSyncIsNotDamage(t *testing.T) {
	for _, withMeta := range []bool{true, false} {
		d := newPowerDisk(memoryDir(t), func(string) {})
		s := newFileStore(t, d.root, filestore.WithDisk(d))
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(1, 3)...))
		require.NoError(t, j.Sync(t.Context(), 3))
		d.fail = func(name string) error {
			if strings.Contains(name, ".journal") {
				return syscall.EIO
			}
			return nil
		}
		require.NoError(t, j.Append(storetest.Records(4, 2)...))
		require.ErrorIs(t, j.Sync(t.Context(), 5), snapshot.ErrUnavailable)
		require.ErrorIs(t, closeAs(j, snapshot.StatusPaused), snapshot.ErrUnavailable)
		d.fail = nil
		if !withMeta {
			require.NoError(t, d.Remove(filepath.Join(d.root, "runs", "run", "meta")))
		}
		info, err := s.Update(t.Context(), "run", func(info *snapshot.Info) error { info.Pinned = true; return nil })
		require.NoError(t, err)
		found := uint64(0)
		everyWorld(t, d, func(s *filestore.Store) {
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			require.True(t, run.Pinned)
			require.Equal(t, info.LastSeq, run.LastSeq)
			require.Equal(t, snapshot.StatusInterrupted, run.Status)
			found++
			require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		})
		require.NotZero(t, found)
	}
}

// When a run is updated, its records need not be on the disk yet.
func TestAnUpdateOfARunWithUnsyncedRecordsIsNotDamage(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		d := newPowerDisk(memoryDir(t), func(string) {})
		s := newFileStore(t, d.root, filestore.WithDisk(d))
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(1, 3)...))
		if crashed {
			filestore.Abandon(j)
		}
		info, err := s.Update(t.Context(), "run", func(info *snapshot.Info) error { info.Pinned = true; return nil })
		require.NoError(t, err)
		require.EqualValues(t, 3, info.LastSeq)
		everyWorld(t, d, func(s *filestore.Store) {
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			require.True(t, run.Pinned)
			require.Equal(t, snapshot.StatusInterrupted, run.Status)
			info, err := s.Info(t.Context(), "run")
			require.NoError(t, err)
			require.Equal(t, run.Info, info)
			require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		})
		if !crashed {
			require.NoError(t, closeAs(j, snapshot.StatusPaused))
		}
	}
}

// The recorded end of a run includes the run's usage.
func TestAPowerCutKeepsTheUsageOfAClosedRun(t *testing.T) {
	d := newPowerDisk(memoryDir(t), func(string) {})
	s := newFileStore(t, d.root, filestore.WithDisk(d), filestore.WithCompactAtClose(1<<20))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	end := snapshot.End{Status: snapshot.StatusPaused, Usage: record.Usage{InputTokens: 7}}
	require.NoError(t, j.Close(t.Context(), end))
	want, err := s.Info(t.Context(), "run")
	require.NoError(t, err)
	everyWorld(t, d, func(s *filestore.Store) {
		run, err := s.Load(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, want, run.Info)
	})
}

// A short run whose creation was cut off does not prevent the creation of a long run.
func TestALongRunIsCreatedWhereTheCreationOfAShortOneWasCutShort(t *testing.T) {
	for _, cut := range []int{0, 10, 200} {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "runs", "run"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", "00000001.journal"), createdFiles(t)[:cut], 0o600))
		createShort(t, s) // this store stores it like a long run
		require.Len(t, load(t, s, "run").Records, 3)
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		require.Len(t, load(t, s, "run").Records, 3)
	}
}

// A coarseDisk rounds the times of files, as many file systems do, and calls its function read
// after each read of a file.
type coarseDisk struct {
	filestore.Disk
	read func(name string)
}

func (d coarseDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := d.Disk.ReadDir(name)
	for i, e := range entries {
		entries[i] = coarseEntry{e}
	}
	return entries, err
}

type coarseEntry struct{ fs.DirEntry }

func (e coarseEntry) Info() (fs.FileInfo, error) {
	info, err := e.DirEntry.Info()
	return coarseInfo{info}, err
}

type coarseInfo struct{ fs.FileInfo }

func (i coarseInfo) ModTime() time.Time { return i.FileInfo.ModTime().Truncate(time.Hour) }

func (d coarseDisk) Open(name string) (filestore.OpenFile, int64, error) {
	f, size, err := d.Disk.Open(name)
	return readFile{f, func() { d.read(filepath.Base(name)) }}, size, err
}

type readFile struct {
	filestore.OpenFile
	read func()
}

func (f readFile) Close() error {
	err := f.OpenFile.Close()
	f.read()
	return err
}

// A run that is closed after only part of it was read is not reported as crashed, even if the times
// and sizes of its files have not changed. If it is closed after all of it was read, it is reported
// as open.
func TestARunThatIsClosedWhileItIsReadIsNotInterrupted(t *testing.T) {
	for after, wasOpen := range map[string]bool{"the first meta": false, "a journal": false, "the second meta": true} {
		t.Run(after, func(t *testing.T) {
			dir := t.TempDir()
			writer := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
			require.NoError(t, closeAs(begin(t, writer), snapshot.StatusPaused))
			j := begin(t, writer)
			metas, closed := 0, false
			s := newFileStore(t, dir, filestore.WithDisk(coarseDisk{filestore.OSDisk, func(name string) {
				what := "a journal"
				if name == "meta" {
					metas++
					what = map[int]string{1: "the first meta", 2: "the second meta"}[metas]
				}
				if what == after && !closed {
					closed = true
					assert.NoError(t, closeAs(j, snapshot.StatusCompleted))
				}
			}}))
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			require.True(t, closed)
			require.Equal(t, wasOpen, run.Open)
			require.Equal(t, map[bool]snapshot.Status{true: snapshot.StatusRunning, false: snapshot.StatusCompleted}[wasOpen], run.Status)
		})
	}
}

// A run that is created after some of its files were read is not damaged.
func TestARunThatIsCreatedWhileItIsReadIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	writer := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	journal := filepath.Join(dir, "runs", "run", "00000001.journal")
	require.NoError(t, os.Mkdir(filepath.Dir(journal), 0o700))
	require.NoError(t, os.WriteFile(journal, createdFiles(t)[:10], 0o600)) // the journal is being written
	created := false
	s := newFileStore(t, dir, filestore.WithDisk(coarseDisk{filestore.OSDisk, func(name string) {
		if name == filepath.Base(journal) && !created {
			created = true
			createShort(t, writer)
		}
	}}))
	require.Len(t, load(t, s, "run").Records, 3)
}

// A renamingDisk calls renaming before a file is renamed.
type renamingDisk struct {
	filestore.Disk
	renaming func()
}

func (d *renamingDisk) Rename(from, to string) error {
	if d.renaming != nil {
		d.renaming()
	}
	return d.Disk.Rename(from, to)
}

// The temporary file of an update is not mistaken for the remains of a crash.
func TestAnUpdateIsNotDisturbedByTheOpeningOfTheRun(t *testing.T) {
	dir, d := t.TempDir(), &renamingDisk{Disk: filestore.OSDisk}
	polled := filestore.WithPolling(time.Second)
	other, s := newFileStore(t, dir, polled), newFileStore(t, dir, polled, filestore.WithDisk(d))
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	synctest.Test(t, func(t *testing.T) {
		j := begin(t, other)
		opened := make(chan snapshot.Journal)
		d.renaming = func() {
			d.renaming = nil
			filestore.Abandon(j)
			go func() {
				j, err := other.Open(t.Context(), "run", snapshot.OpenOptions{})
				assert.NoError(t, err)
				opened <- j
			}()
			synctest.Wait()
		}
		_, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
		require.NoError(t, err)
		require.NoError(t, closeAs(<-opened, snapshot.StatusPaused))
	})
}

// A listedDisk calls its function listed each time a directory has been listed.
type listedDisk struct {
	filestore.Disk
	listed func()
}

func (d *listedDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := d.Disk.ReadDir(name)
	d.listed()
	return entries, err
}

// A run that is created after its directory was found missing is not damaged.
func TestARunThatIsCreatedWhileItIsListedIsNotDamaged(t *testing.T) {
	dir, times := t.TempDir(), 0
	writer := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	s := newFileStore(t, dir, filestore.WithDisk(&listedDisk{filestore.OSDisk, func() {
		if times++; times == 2 { // before the meta file is read
			createShort(t, writer)
		}
	}}))
	require.Len(t, load(t, s, "run").Records, 3)
}

// If a run is opened during an update, the update applies to the open run.
func TestAnUpdateDoesNotUndoTheOpeningOfTheRun(t *testing.T) {
	dir, metas := t.TempDir(), 0
	other := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	j := begin(t, other)
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	s := newFileStore(t, dir, filestore.WithDisk(coarseDisk{filestore.OSDisk, func(name string) {
		if name != "meta" {
			return
		}
		if metas++; metas == 1 { // after the update has found that the run is open
			assert.NoError(t, closeAs(j, snapshot.StatusPaused))
			j = begin(t, other)
		}
	}}))
	updated, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.GreaterOrEqual(t, metas, 2)
	require.Equal(t, uint64(2), updated.Generation)
	filestore.Abandon(j)
	info, err := other.Info(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, uint64(2), info.Generation)
	require.Equal(t, snapshot.StatusInterrupted, info.Status)
	require.True(t, info.Pinned)
}

// Only the process that has locked a run writes the run's first meta file.
func TestAnUpdateDoesNotMakeTheMetaFileOfAnOpenRun(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	j := begin(t, s)
	meta := filepath.Join(dir, "runs", "run", "meta")
	require.NoError(t, os.Remove(meta))
	pin := func(i *snapshot.Info) error { i.Pinned = true; return nil }
	_, err := s.Update(t.Context(), "run", pin)
	require.ErrorIs(t, err, snapshot.ErrLocked)
	require.NoFileExists(t, meta)
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	info, err := s.Update(t.Context(), "run", pin)
	require.NoError(t, err)
	require.True(t, info.Pinned)
}

// A journal that lost the generation named in the meta file is damaged. Followers may have that
// generation's number in their cursors, so the number is not used again.
func TestALostGenerationIsNoticed(t *testing.T) {
	dir := t.TempDir()
	var warned error
	s := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20), filestore.WithWarnings(func(_ string, err error) { warned = err }))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	journal := filepath.Join(dir, "runs", "run", "00000001.journal")
	paused, err := os.ReadFile(journal)
	require.NoError(t, err)
	j = begin(t, s)
	require.NoError(t, j.Append(storetest.Records(4, 1)...))
	require.NoError(t, j.Sync(t.Context(), 4))
	filestore.Abandon(j)
	require.NoError(t, os.WriteFile(journal, paused, 0o600))

	_, err = s.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.ErrorContains(t, err, "generation 2")
	listed := list(t, s, snapshot.Filter{})
	require.ErrorIs(t, warned, snapshot.ErrCorrupt)
	require.Equal(t, snapshot.StatusInterrupted, listed[0].Status)
	_, err = s.Repair(t.Context(), "run")
	require.NoError(t, err)
	j = begin(t, s)
	require.Equal(t, uint64(3), j.Restored().Generation)
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
}
