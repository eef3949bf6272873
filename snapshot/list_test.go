package snapshot_test

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

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestARunWhoseProcessEndedIsListedAsInterrupted(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	status := func() snapshot.Status {
		listed, err := s.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Equal(t, uint64(3), listed[0].LastSeq)
		sn, err := s.Load(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, sn.Info, listed[0])
		return sn.Status
	}
	require.Equal(t, snapshot.StatusRunning, status())
	snapshot.Abandon(j)
	require.Equal(t, snapshot.StatusInterrupted, status())
	running, err := s.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusRunning}})
	require.NoError(t, err)
	require.Empty(t, running)
}

func TestListNeedsNoMetaFile(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Close(snapshot.StatusPaused))
	want, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	meta := filepath.Join(dir, "runs", "run", "meta")
	require.NoError(t, os.WriteFile(meta, nil, 0o600)) // as a power cut may leave it
	got, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, os.Remove(meta))
	got, err = s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWhatIsNoRunIsNotListed(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "begun-and-no-more"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", ".hidden"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "file"), nil, 0o600))
	require.NoError(t, begin(t, s).Close(snapshot.StatusCompleted))
	listed, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	_, err = s.Open(t.Context(), "begun-and-no-more", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	require.ErrorIs(t, s.Delete(t.Context(), "begun-and-no-more"), snapshot.ErrNotFound)
	j, err := s.Open(t.Context(), "begun-and-no-more", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Close(snapshot.StatusCompleted))
}

func TestRunThatCannotBeReadDoesNotHideTheOthers(t *testing.T) {
	dir := t.TempDir()
	told := make(map[string]error)
	s := newFileStore(t, dir, snapshot.WithWarnings(func(runID string, err error) { told[runID] = err }))
	require.NoError(t, begin(t, s).Close(snapshot.StatusCompleted))
	for _, name := range []string{"snapshot", "journal-00000001", "meta"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "no-"+name, name), 0o700))
	}
	listed, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Len(t, listed, 3, "one has nothing but a directory named meta, and was never begun")
	require.Equal(t, "run", listed[0].RunID)
	require.Len(t, told, 2)
	for _, name := range []string{"snapshot", "journal-00000001"} {
		require.ErrorContains(t, told["no-"+name], "read run no-"+name)
		require.ErrorContains(t, told["no-"+name], "is a directory")
	}
}

func TestListingDoesNotKeepAnybodyFromOpening(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	snapshot.Abandon(begin(t, s)) // so that List looks whether it is held
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
		snapshot.Abandon(begin(t, s))
	}
	close(done)
	wait.Wait()
}

func TestOneWhoOnlyLooksIsNoWriter(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	snapshot.Abandon(begin(t, s))
	release := snapshot.ShareLock(t, filepath.Join(dir, "runs", "run", "lock"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Open(ctx, "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, snapshot.ErrLocked)
	release()
	require.NoError(t, begin(t, s).Close(snapshot.StatusCompleted))
}

func TestALockOnADeletedFileIsNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	require.True(t, snapshot.IsNamed(t, name, func() {}))
	require.False(t, snapshot.IsNamed(t, name, func() { require.NoError(t, os.Remove(name)) }))
	require.False(t, snapshot.IsNamed(t, name, func() {
		require.NoError(t, os.Rename(name, name+".old"))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}))
}

func TestOneWhoWaitsForARunThatIsDeletedGetsANewOneOrNone(t *testing.T) {
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
				if err := errors.Join(j.Append(storetest.Records(last+1, 1)...), j.Close(snapshot.StatusCompleted)); err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, j.Close(snapshot.StatusCompleted))
		for s.Delete(t.Context(), "run") != nil { // until nobody has it in that moment
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
	s := newFileStore(t, t.TempDir())
	require.NoError(t, begin(t, s).Close(snapshot.StatusPaused))
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for {
				listed, err := s.List(t.Context(), snapshot.Filter{})
				sn, loadErr := s.Load(t.Context(), "run")
				if err := errors.Join(err, loadErr); err != nil {
					t.Error(err)
					return
				}
				if sn.Status == snapshot.StatusInterrupted || len(listed) != 1 || listed[0].Status == snapshot.StatusInterrupted {
					t.Errorf("loaded %+v, listed %+v", sn.Info, listed)
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
	for n := range uint64(300) {
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(n+1, 1)...))
		require.NoError(t, j.Close(snapshot.StatusPaused))
	}
	close(done)
	wait.Wait()
}

func TestDeletingLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, begin(t, s).Close(snapshot.StatusCompleted))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "trash", "of a crash", "run"), 0o700))
	require.NoError(t, s.Delete(t.Context(), "run"))
	require.Empty(t, names(t, filepath.Join(dir, "runs")))
	require.NotContains(t, names(t, dir), "trash")
}

func TestListOfManyRunsReadsNoRecords(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	for n := range 50 {
		j, err := s.Open(t.Context(), fmt.Sprintf("run-%d", n), snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(1, 3)...))
		require.NoError(t, j.Close(snapshot.StatusCompleted))
		// Nobody can read them, and nobody tries.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", fmt.Sprintf("run-%d", n), "snapshot"), []byte("?"), 0o600))
	}
	listed, err := s.List(t.Context(), snapshot.Filter{Limit: 40})
	require.NoError(t, err)
	require.Len(t, listed, 40)
	require.True(t, slices.IsSortedFunc(listed, func(a, b snapshot.Info) int { return b.Updated.Compare(a.Updated) }))
	require.Equal(t, uint64(3), listed[0].LastSeq)
}
