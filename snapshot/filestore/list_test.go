package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestARunWhoseProcessEndedIsListedAsInterrupted(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	status := func() snapshot.Status {
		listed := list(t, s, snapshot.Filter{})
		require.Len(t, listed, 1)
		sn := load(t, s, "run")
		require.Equal(t, uint64(3), sn.LastSeq)
		info, err := s.Info(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, sn.Info, info)
		if info.Open {
			info.LastSeq = 0 // List reads no records: it shows the number at the opening
		}
		require.Equal(t, info, listed[0])
		return sn.Status
	}
	require.Equal(t, snapshot.StatusRunning, status())
	filestore.Abandon(j)
	require.Equal(t, snapshot.StatusInterrupted, status())
	running := list(t, s, snapshot.Filter{Status: []snapshot.Status{snapshot.StatusRunning}})
	require.Empty(t, running)
}

func TestListNeedsNoMetaFile(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	want := list(t, s, snapshot.Filter{})
	meta := filepath.Join(dir, "runs", "run", "meta")
	require.NoError(t, os.WriteFile(meta, nil, 0o600)) // as after a power cut
	got := list(t, s, snapshot.Filter{})
	require.Equal(t, want, got)
	require.NoError(t, os.Remove(meta))
	got = list(t, s, snapshot.Filter{})
	require.Equal(t, want, got)
}

func TestTheReasonOfAStopIsReadFromTheRecords(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	meta := filepath.Join(dir, "runs", "run", "meta")
	running, err := os.ReadFile(meta)
	require.NoError(t, err)
	stop := snapshot.Stop{Reason: record.InterruptCancel, By: "ops", Message: "not now"}
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCancelled, Stop: stop}))
	require.NoError(t, os.WriteFile(meta, running, 0o600)) // as after a crash
	info, err := s.Info(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusCancelled, info.Status)
	require.Equal(t, stop, info.Stop)
	info, err = s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusCancelled, info.Status)
	require.Equal(t, stop, info.Stop)
}

func TestOtherDirectoriesAreNotListed(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "begun-and-no-more"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", ".hidden"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "file"), nil, 0o600))
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
	listed := list(t, s, snapshot.Filter{})
	require.Len(t, listed, 1)
	_, err := s.Open(t.Context(), "begun-and-no-more", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	require.ErrorIs(t, s.Delete(t.Context(), "begun-and-no-more"), snapshot.ErrNotFound)
	j, err := s.Open(t.Context(), "begun-and-no-more", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

func TestRunThatCannotBeReadDoesNotHideTheOthers(t *testing.T) {
	dir := t.TempDir()
	warned := make(map[string]error)
	s := newFileStore(t, dir, filestore.WithWarnings(func(runID string, err error) { warned[runID] = err }))
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
	for _, name := range []string{"00000001.snapshot", "00000001.journal", "meta"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "no-"+name, name), 0o700))
	}
	listed := list(t, s, snapshot.Filter{})
	require.Len(t, listed, 3, "not the run whose only file is meta, which never began")
	require.Equal(t, "run", listed[0].RunID)
	require.Len(t, warned, 2)
	for _, name := range []string{"00000001.snapshot", "00000001.journal"} {
		require.ErrorContains(t, warned["no-"+name], "read run no-"+name)
		require.ErrorContains(t, warned["no-"+name], "it is not a file")
	}
}

func TestListDoesNotBlockOpen(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	filestore.Abandon(begin(t, s)) // so that List checks the lock
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				if _, err := s.List(t.Context(), snapshot.Filter{}); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 100 {
		filestore.Abandon(begin(t, s))
	}
	close(done)
	wait.Wait()
}

func TestASharedLockIsNotReportedAsAWriter(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	filestore.Abandon(begin(t, s))
	release := filestore.ShareLock(t, filepath.Join(dir, "runs", "run", "lock"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Open(ctx, "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, snapshot.ErrLocked)
	release()
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
}

func TestALockOnADeletedFileDoesNotCount(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	require.True(t, filestore.IsNamed(t, name, func() {}))
	require.False(t, filestore.IsNamed(t, name, func() { require.NoError(t, os.Remove(name)) }))
	require.False(t, filestore.IsNamed(t, name, func() {
		require.NoError(t, os.Rename(name, name+".old"))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}))
}

func TestAWaitingOpenOfADeletedRunCreatesItOrFails(t *testing.T) {
	t.Parallel()
	s := newFileStore(t, t.TempDir())
	for round := range 10 {
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(1, 1)...))
		opened := make(chan snapshot.Journal, 8)
		var wait sync.WaitGroup
		for n := range 8 {
			wait.Go(func() {
				j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Wait: true, Create: n%2 == 0})
				if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
					t.Error(err)
				}
				if err != nil {
					return
				}
				opened <- j
				last := j.Restored().LastSeq
				if err := errors.Join(j.Append(storetest.Records(last+1, 1)...), closeAs(j, snapshot.StatusCompleted)); err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		for s.Delete(t.Context(), "run") != nil { // until no process has the run open
			if sn, err := s.Load(t.Context(), "run"); err == nil && sn.LastSeq == 9 {
				break
			}
		}
		wait.Wait()
		require.NotEmpty(t, opened, "round %d", round)
		if err := s.Delete(t.Context(), "run"); err != nil {
			require.ErrorIs(t, err, snapshot.ErrNotFound)
		}
	}
}

func TestARunThatIsAlwaysClosedIsNeverSeenInterrupted(t *testing.T) {
	t.Parallel()
	s := newFileStore(t, t.TempDir())
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for {
				page, err := s.List(t.Context(), snapshot.Filter{})
				sn, loadErr := s.Load(t.Context(), "run")
				if err := errors.Join(err, loadErr); err != nil {
					t.Error(err)
					return
				}
				if sn.Status == snapshot.StatusInterrupted || len(page.Runs) != 1 || page.Runs[0].Status == snapshot.StatusInterrupted {
					t.Errorf("loaded %+v, listed %+v", sn.Info, page.Runs)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range uint64(150) {
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(n+1, 1)...))
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
	}
	close(done)
	wait.Wait()
}

func TestDeleteLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "trash", "left by a crash", "run"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "trash", "of another process", "run"), 0o700))
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "trash", "left by a crash"), old, old))
	require.NoError(t, s.Delete(t.Context(), "run"))
	require.Empty(t, names(t, filepath.Join(dir, "runs")))
	require.Equal(t, []string{"of another process"}, names(t, filepath.Join(dir, "trash")), "its process may still be removing it")
}

func TestListOfManyRunsReadsNoRecords(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	for n := range 50 {
		j, err := s.Open(t.Context(), fmt.Sprintf("run-%d", n), snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(1, 3)...))
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		// The snapshots cannot be read, so List must not read them.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", fmt.Sprintf("run-%d", n), "00000001.snapshot"), []byte("?"), 0o600))
	}
	listed := list(t, s, snapshot.Filter{Limit: 40})
	require.Len(t, listed, 40)
	require.True(t, slices.IsSortedFunc(listed, func(a, b snapshot.Info) int { return b.Updated.Compare(a.Updated) }))
	require.Equal(t, uint64(3), listed[0].LastSeq)
}

// A run that was not closed is read once, no matter which page it is on.
func TestRunsThatWereNotClosedAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	disk := &countingDisk{Disk: fastDisk{filestore.OSDisk}}
	var warned []string
	s := newFileStore(t, dir, filestore.WithDisk(disk), filestore.WithWarnings(func(id string, err error) {
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		warned = append(warned, id)
	}))
	const crashed, records = 60, 200
	size := int64(0)
	for n := range crashed {
		id := fmt.Sprint("run-", n)
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true, Metadata: snapshot.Metadata{Pipeline: "nightly"}})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(1, records)...))
		require.NoError(t, j.Sync(t.Context(), records))
		require.NoError(t, j.Append(storetest.Records(records+1, 1)...))
		filestore.Abandon(j)
		journal := filepath.Join(dir, "runs", id, "00000001.journal")
		data, err := os.ReadFile(journal)
		require.NoError(t, err)
		size = int64(len(framesAlone(t, data)))
		switch n {
		case 7:
			require.NoError(t, os.WriteFile(journal, flipped(data, size/2), 0o600))
		case 9: // no file that describes the run is left
			require.NoError(t, os.WriteFile(journal, flipped(data, 20), 0o600))
			require.NoError(t, os.Remove(filepath.Join(dir, "runs", id, "meta")))
		}
	}
	disk.read.Store(0)
	_, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	all := disk.read.Load()
	for _, status := range [][]snapshot.Status{nil, {snapshot.StatusInterrupted}, {snapshot.StatusFailed}} {
		fresh := newFileStore(t, dir, filestore.WithDisk(disk), filestore.WithWarnings(func(id string, _ error) { warned = append(warned, id) }))
		found, warnings := make(map[string]int), len(warned)
		for f := (snapshot.Filter{Status: status, Limit: 10}); ; {
			disk.read.Store(0)
			page, err := fresh.List(t.Context(), f)
			require.NoError(t, err)
			if f.After != "" {
				require.Less(t, disk.read.Load(), all/4, "what has not changed is not read again")
			}
			for _, info := range page.Runs {
				found[info.RunID]++
				require.Equal(t, snapshot.StatusInterrupted, info.Status)
				if info.RunID != "run-9" {
					require.Equal(t, "nightly", info.Metadata.Pipeline)
				}
			}
			if f.After = page.Next; page.Next == "" {
				break
			}
		}
		told := slices.Compact(slices.Sorted(slices.Values(warned[warnings:])))
		if len(status) > 0 && status[0] == snapshot.StatusFailed {
			require.Empty(t, found)
			require.Empty(t, told)
		} else {
			require.Len(t, found, crashed)
			require.Equal(t, []string{"run-7", "run-9"}, told)
		}
		for id, times := range found {
			require.Equal(t, 1, times, id)
		}

		disk.read.Store(0)
		_, err = fresh.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		require.Less(t, disk.read.Load(), all/4, "what has not changed is not read again")
	}
}
