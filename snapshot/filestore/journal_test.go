package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestAppendIsOneWriteAndNoSync(t *testing.T) {
	d := newFaultyDisk()
	j := begin(t, newFileStore(t, t.TempDir(), filestore.WithDisk(d)))
	writes, syncs := d.writes.Load(), d.syncs.Load()
	require.NoError(t, j.Append(storetest.Records(1, 50)...))
	require.Equal(t, writes+1, d.writes.Load())
	require.Equal(t, syncs, d.syncs.Load())
	require.NoError(t, j.Sync(t.Context(), 50))
	require.NoError(t, j.Sync(t.Context(), 50))
	require.NoError(t, j.Sync(t.Context(), 7))
	require.NoError(t, j.Sync(t.Context(), 1000), "Sync does not wait for records that were not appended")
	require.Equal(t, syncs+1, d.syncs.Load())
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	require.NoError(t, j.Sync(t.Context(), 50), "Close has synced")
}

func TestConcurrentSyncsShareOneSync(t *testing.T) {
	d := newFaultyDisk()
	first, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := false
	d.sync = func(name string) error {
		if hold && name == "00000001.journal" {
			once.Do(func() { close(first); <-proceed })
		}
		return nil
	}
	j := begin(t, newFileStore(t, t.TempDir(), filestore.WithDisk(d)))
	hold = true
	before := d.syncs.Load()
	var wait sync.WaitGroup
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	wait.Go(func() { require.NoError(t, j.Sync(t.Context(), 1)) })
	<-first // a sync is running
	for seq := uint64(2); seq <= 30; seq++ {
		require.NoError(t, j.Append(storetest.Records(seq, 1)...), "Append does not wait for the sync")
		wait.Go(func() { require.NoError(t, j.Sync(t.Context(), seq)) })
	}
	close(proceed)
	wait.Wait()
	require.Equal(t, before+2, d.syncs.Load(), "one sync for the first call, and one for all the others")
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

func TestAJournalThatFailedIsNeverTrustedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		fail   func(d *faultyDisk, with func(string) error)
		err    error
		append bool // Append fails, not Sync
		kept   int  // records found afterwards
	}{
		"fsync":       {func(d *faultyDisk, with func(string) error) { d.sync = with }, syscall.EIO, false, 3},
		"disk full":   {func(d *faultyDisk, with func(string) error) { d.write = with }, syscall.ENOSPC, true, 2},
		"short write": {func(d *faultyDisk, with func(string) error) { d.write = with }, errShort, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newFaultyDisk(), t.TempDir()
			var warnings []error
			s := newFileStore(t, dir, filestore.WithDisk(d), filestore.WithWarnings(func(_ string, err error) {
				warnings = append(warnings, err)
			}))
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 2)...))
			require.NoError(t, j.Sync(t.Context(), 2))
			times := 0
			test.fail(d, func(string) error {
				times++
				if times > 1 {
					return nil // as the system does after a failed fsync
				}
				return test.err
			})
			err := j.Append(storetest.Records(3, 1)...)
			if !test.append {
				require.NoError(t, err)
				err = j.Sync(t.Context(), 3)
			}
			require.Error(t, err)
			if !errors.Is(test.err, errShort) {
				require.ErrorIs(t, err, test.err)
			}
			require.ErrorContains(t, err, "record 3")
			for range 2 {
				require.Equal(t, err, j.Append(storetest.Records(3, 1)...))
				require.Equal(t, err, j.Append(storetest.Records(4, 1)...))
				require.Equal(t, err, j.Sync(t.Context(), 1))
				require.Equal(t, err, closeAs(j, snapshot.StatusCompleted))
			}
			require.Equal(t, 1, times)

			sn := load(t, s, "run")
			require.Equal(t, snapshot.StatusInterrupted, sn.Status, "the run is not locked, and was not closed")
			requireRecords(t, sn.Records, test.kept)
			syncs := d.syncs.Load()
			j = begin(t, s)
			require.Greater(t, d.syncs.Load(), syncs, "Open writes and syncs the records again")
			requireRecords(t, decoded(t, j.Restored()).Records, test.kept)
			require.NotContains(t, runFiles(t, dir), "00000001.journal")
			require.Equal(t, test.append, len(warnings) == 1, "a torn tail is reported")
			require.NoError(t, j.Append(storetest.Records(uint64(test.kept)+1, 1)...))
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		})
	}
}

func TestAFailedSyncReturnsItsErrorToAllWaiters(t *testing.T) {
	d := newFaultyDisk()
	j := begin(t, newFileStore(t, t.TempDir(), filestore.WithDisk(d)))
	d.sync = func(string) error { return syscall.EIO }
	require.NoError(t, j.Append(storetest.Records(1, 20)...))
	var wait sync.WaitGroup
	for seq := range uint64(20) {
		wait.Go(func() { require.ErrorIs(t, j.Sync(t.Context(), seq+1), syscall.EIO) })
	}
	wait.Wait()
	require.ErrorIs(t, closeAs(j, snapshot.StatusCompleted), syscall.EIO)
}

func TestAFailedOpenDoesNotChangeTheRun(t *testing.T) {
	for name, fail := range map[string]func(*faultyDisk, func(string) error){
		"create": func(d *faultyDisk, with func(string) error) { d.create = with },
		"write":  func(d *faultyDisk, with func(string) error) { d.write = with },
		"sync":   func(d *faultyDisk, with func(string) error) { d.sync = with },
		"rename": func(d *faultyDisk, with func(string) error) { d.rename = with },
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newFaultyDisk(), t.TempDir()
			s := newFileStore(t, dir, filestore.WithDisk(d))
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 2)...))
			require.NoError(t, closeAs(j, snapshot.StatusPaused))
			before := load(t, s, "run")

			fail(d, func(string) error { return syscall.EROFS }) // as in a read-only directory
			_, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
			require.ErrorIs(t, err, syscall.EROFS)
			_, err = s.Open(t.Context(), "new", snapshot.OpenOptions{Create: true})
			require.ErrorIs(t, err, syscall.EROFS)
			after := load(t, s, "run")
			require.Equal(t, before, after)
			_, err = s.Load(t.Context(), "new")
			require.ErrorIs(t, err, snapshot.ErrNotFound)
			listed := list(t, s, snapshot.Filter{})
			require.Equal(t, []snapshot.Info{before.Info}, listed)

			fail(d, func(string) error { return nil })
			require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
		})
	}
}

func TestACompactionThatFailsLosesNothing(t *testing.T) {
	for name, fail := range map[string]func(*faultyDisk, func(string) error){
		"create":  func(d *faultyDisk, with func(string) error) { d.create = with },
		"write":   func(d *faultyDisk, with func(string) error) { d.write = with },
		"sync":    func(d *faultyDisk, with func(string) error) { d.sync = with },
		"rename":  func(d *faultyDisk, with func(string) error) { d.rename = with },
		"syncDir": func(d *faultyDisk, with func(string) error) { d.syncDir = with },
	} {
		for _, file := range []string{"snapshot", "00000002.journal", "run"} {
			t.Run(name+" "+file, func(t *testing.T) {
				d, dir := newFaultyDisk(), t.TempDir()
				warned := make(chan error, 10)
				s := newFileStore(t, dir, filestore.WithDisk(d), filestore.WithCompactFrom(300),
					filestore.WithWarnings(func(_ string, err error) { warned <- err }))
				j := begin(t, s)
				failing := atomic.Bool{}
				failing.Store(true)
				var failed atomic.Int64
				fail(d, func(name string) error {
					name = strings.TrimSuffix(name, ".tmp")
					if failing.Load() && (name == file || strings.HasSuffix(name, "."+file)) {
						failed.Add(1)
						return syscall.ENOSPC
					}
					return nil
				})
				require.NoError(t, j.Append(storetest.Records(1, 10)...))
				filestore.WaitForCompaction(j)
				require.Equal(t, (name == "syncDir") == (file == "run"), failed.Load() > 0, "syncDir is called only for directories")
				require.Equal(t, failed.Load() > 0, len(warned) == 1)
				for len(warned) > 0 {
					require.ErrorIs(t, <-warned, syscall.ENOSPC)
				}
				require.NoError(t, j.Append(storetest.Records(11, 10)...), "the run continues")
				failing.Store(false)
				filestore.WaitForCompaction(j)
				require.NoError(t, j.Append(storetest.Records(21, 100)...))
				filestore.WaitForCompaction(j)
				require.True(t, hasSnapshot(t, dir), "the compaction was repeated")
				sn := load(t, s, "run")
				requireRecords(t, sn.Records, 120)
				failing.Store(file == "snapshot")
				require.NoError(t, closeAs(j, snapshot.StatusCompleted), "all records are on the disk")
				failing.Store(false)
				sn = load(t, s, "run")
				requireRecords(t, sn.Records, 120)
				require.Equal(t, snapshot.StatusCompleted, sn.Status)
				listed := list(t, s, snapshot.Filter{})
				require.Equal(t, []snapshot.Info{sn.Info}, listed)
			})
		}
	}
}

func TestAJournalThatACompactionLeftDoesNotReopenARunThatWasClosed(t *testing.T) {
	d, dir := newFaultyDisk(), t.TempDir()
	s := newFileStore(t, dir, filestore.WithDisk(d), filestore.WithCompactFrom(300), filestore.WithWarnings(func(string, error) {}))
	j := begin(t, s)
	d.syncDir = func(name string) error {
		if name == "run" {
			return syscall.EIO // the next journal already has its final name
		}
		return nil
	}
	require.NoError(t, j.Append(storetest.Records(1, 10)...))
	filestore.WaitForCompaction(j)
	d.syncDir = func(string) error { return nil }
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	require.NoError(t, os.Remove(filepath.Join(dir, "runs", "run", "meta")))
	sn := load(t, s, "run")
	require.Equal(t, snapshot.StatusCompleted, sn.Status)
	requireRecords(t, sn.Records, 10)
}

func TestSmallJournalNextToALargeSnapshotIsNotCompactedByClose(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 500)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	require.ElementsMatch(t, []string{"00000001.snapshot", "meta", "lock"}, runFiles(t, dir))
	for n := range uint64(3) {
		j = begin(t, s)
		require.NoError(t, j.Append(storetest.Records(501+n, 1)...))
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
		files := runFiles(t, dir)
		require.Len(t, files, 4, "%v", files) // including one journal
	}
	sn := load(t, s, "run")
	requireRecords(t, sn.Records, 503)
	require.Equal(t, snapshot.StatusPaused, sn.Status)
}

func TestOnlyTheOwnerCanReadFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newFileStore(t, dir)
	j := begin(t, s)
	_, err := s.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	check := func() {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = 0o700
			}
			require.Equal(t, want, info.Mode().Perm(), path)
			return nil
		}))
	}
	check()
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	check()
}

// TestOtherProcess runs in a process that other tests start.
func TestOtherProcess(t *testing.T) {
	dir := os.Getenv("REPRISE_TEST_STORE")
	if dir == "" {
		t.Skip("only for tests that start another process")
	}
	s := newFileStore(t, dir, filestore.WithCompactFrom(4<<10))
	j := begin(t, s)
	os.Stdout.WriteString("open\n")
	for seq := uint64(1); ; seq++ {
		require.NoError(t, j.Append(storetest.Records(seq, 1)...))
		if seq%10 == 0 {
			require.NoError(t, j.Sync(t.Context(), seq))
			os.Stdout.WriteString(".") // ten records are confirmed
		}
	}
}

func TestAKilledWriterLosesNoConfirmedRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOtherProcess$")
	other.Env = append(os.Environ(), "REPRISE_TEST_STORE="+dir)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	buf := make([]byte, 5)
	_, err = out.Read(buf)
	require.NoError(t, err)

	var warnings []error
	s := newFileStore(t, dir, filestore.WithWarnings(func(_ string, err error) { warnings = append(warnings, err) }))
	_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrLocked)
	var locked *snapshot.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, &snapshot.LockedError{RunID: "run", PID: other.Process.Pid}, locked)
	require.ErrorIs(t, s.Delete(t.Context(), "run"), snapshot.ErrLocked)

	promised, loads := 0, 0
	buf = make([]byte, 64)
	for promised < 2000 {
		n, err := out.Read(buf)
		require.NoError(t, err)
		promised += 10 * n
		sn := load(t, s, "run")
		require.Equal(t, snapshot.StatusRunning, sn.Status)
		require.GreaterOrEqual(t, len(sn.Records), promised)
		listed := list(t, s, snapshot.Filter{})
		require.Equal(t, snapshot.StatusRunning, listed[0].Status)
		require.True(t, listed[0].Open)
		info, err := s.Info(t.Context(), "run")
		require.NoError(t, err)
		require.GreaterOrEqual(t, info.LastSeq, sn.LastSeq)
		loads++
	}
	// A waiting Open gets the run when the process has ended.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waited := make(chan snapshot.Journal)
	go func() {
		j, err := s.Open(ctx, "run", snapshot.OpenOptions{Wait: true})
		if err != nil {
			t.Error(err)
		}
		waited <- j
	}()
	require.NoError(t, other.Process.Kill())
	for {
		n, err := out.Read(buf)
		if err != nil {
			break
		}
		promised += 10 * n
	}
	_ = other.Wait()
	j := <-waited
	require.NotNil(t, j)
	sn := decoded(t, j.Restored())
	require.Equal(t, snapshot.StatusInterrupted, sn.Status)
	require.GreaterOrEqual(t, len(sn.Records), promised)
	requireRecords(t, sn.Records, len(sn.Records))
	t.Logf("%d records, %d confirmed, %d loads meanwhile, warnings %v", len(sn.Records), promised, loads, warnings)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

// reopened opens a closed run, closes it again, and returns the names of its files.
func reopened(t *testing.T, s *filestore.Store, dir string) []string {
	t.Helper()
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	return runFiles(t, dir)
}

func TestAGenerationContinuesTheClosedJournal(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	require.Contains(t, reopened(t, s, dir), "00000001.journal")
	require.NotContains(t, runFiles(t, dir), "00000002.journal")
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, uint64(2), run.Generation)
	require.Equal(t, snapshot.StatusPaused, run.Status)
	requireStored(t, run, 3)

	// Records that may not be on the disk are written again.
	j = begin(t, s)
	require.NoError(t, j.Append(storetest.Records(4, 1)...))
	filestore.Abandon(j)
	_, err = s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.Contains(t, reopened(t, s, dir), "00000002.journal")
	require.NotContains(t, runFiles(t, dir), "00000001.journal")
	run, err = s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, uint64(4), run.Generation)
	requireStored(t, run, 4)
}

func TestTheJournalOfARunWhoseLastSyncFailedIsRewritten(t *testing.T) {
	dir, disk := t.TempDir(), newFaultyDisk()
	s := newFileStore(t, dir, filestore.WithDisk(disk), filestore.WithCompactAtClose(1<<20))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	disk.sync = func(string) error { return syscall.EIO }
	require.ErrorIs(t, closeAs(j, snapshot.StatusCompleted), syscall.EIO)
	disk.sync = func(string) error { return nil }

	// The system shows the end of the journal, but the disk may not have it.
	_, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.Contains(t, reopened(t, s, dir), "00000002.journal")
}

func TestAnOpenThatFailsLeavesTheRunAsItWas(t *testing.T) {
	for _, kind := range []string{"write", "sync"} {
		t.Run(kind, func(t *testing.T) {
			dir, disk := t.TempDir(), newFaultyDisk()
			s := newFileStore(t, dir, filestore.WithDisk(disk), filestore.WithCompactAtClose(1<<20))
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 3)...))
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
			fault := func(name string) error {
				if name == "00000001.journal" {
					return syscall.EIO
				}
				return nil
			}
			if kind == "write" {
				disk.write = fault
			} else {
				disk.sync = fault
			}
			_, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
			require.ErrorIs(t, err, syscall.EIO)
			require.ErrorIs(t, err, snapshot.ErrUnavailable)
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			require.Equal(t, snapshot.StatusCompleted, run.Status)
			require.Equal(t, uint64(1), run.Generation)
			requireStored(t, run, 3)
			require.Contains(t, reopened(t, s, dir), "00000002.journal")
		})
	}
}

// The meta file is written in place. A reader that finds it incomplete reads the records instead.
func TestInfoIsCorrectWhileARunIsOpenedAndClosed(t *testing.T) {
	s := newFileStore(t, t.TempDir(), filestore.WithCompactAtClose(1<<20))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	_, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error {
		i.Pinned, i.Metadata.Description = true, strings.Repeat("rain ", 100)
		return nil
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				info, err := s.Info(t.Context(), "run")
				if err == nil && (!info.Pinned || info.Metadata.Description == "" || info.LastSeq != 3) {
					err = fmt.Errorf("pinned %t, %d records", info.Pinned, info.LastSeq)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	}
	stop()
	readers.Wait()
}
