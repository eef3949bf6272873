package filestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// oldRuns makes runs whose meta files are an hour old, and returns a store that counts what it
// reads. One run in ten has failed, and the others have completed. Each has its own tag.
func oldRuns(t *testing.T, n int, opts ...filestore.Option) (s *filestore.Store, disk *countingDisk, dir string) {
	t.Helper()
	dir = t.TempDir()
	disk = &countingDisk{Disk: fastDisk{filestore.OSDisk}}
	s = newFileStore(t, dir, append(opts, filestore.WithDisk(disk))...)
	for i := range n {
		status := snapshot.StatusCompleted
		if i%10 == 0 {
			status = snapshot.StatusFailed
		}
		createOld(t, s, dir, fmt.Sprintf("run-%04d", i), status, fmt.Sprint("tag-", i))
	}
	return s, disk, dir
}

func createOld(t *testing.T, s *filestore.Store, dir, runID string, status snapshot.Status, tags ...string) {
	t.Helper()
	run, err := snapshot.NewRun(snapshot.Info{RunID: runID, Status: status, Metadata: snapshot.Metadata{Tags: tags, Pipeline: "p"}}, nil)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
	makeOld(t, dir, runID)
}

// makeOld makes the meta file of a run an hour old.
func makeOld(t *testing.T, dir, runID string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "runs", runID, "meta"), old, old))
}

// openedBy returns the number of meta files that f opens.
func (d *countingDisk) openedBy(f func()) int64 {
	before := d.opened.Load()
	f()
	return d.opened.Load() - before
}

func TestListReadsAgainOnlyTheRunsThatHaveChangedOrAreOnThePage(t *testing.T) {
	const runs = 200
	s, disk, dir := oldRuns(t, runs)
	assert.EqualValues(t, runs+11, disk.openedBy(func() { require.Len(t, list(t, s, snapshot.Filter{Limit: 10}), 10) }), "each run once, to sort them")
	assert.EqualValues(t, 11, disk.openedBy(func() { require.Len(t, list(t, s, snapshot.Filter{Limit: 10}), 10) }))
	assert.EqualValues(t, 20, disk.openedBy(func() {
		require.Len(t, list(t, s, snapshot.Filter{Status: []snapshot.Status{snapshot.StatusFailed}}), 20)
	}))
	assert.LessOrEqual(t, disk.openedBy(func() {
		require.Len(t, list(t, s, snapshot.Filter{Tags: []string{"tag-77"}}), 1)
	}), int64(runs/10))
	assert.LessOrEqual(t, disk.openedBy(func() { require.Empty(t, list(t, s, snapshot.Filter{Pipeline: "q"})) }), int64(runs/10))

	other := newFileStore(t, dir) // as another process
	_, err := other.Update(t.Context(), "run-0042", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.NoError(t, other.Delete(t.Context(), "run-0199"))
	assert.EqualValues(t, 12, disk.openedBy(func() {
		listed := list(t, s, snapshot.Filter{Limit: 10})
		require.Equal(t, "run-0042", listed[0].RunID)
		require.True(t, listed[0].Pinned)
		require.Equal(t, "run-0198", listed[1].RunID)
	}))
}

// TestAListWithCountsDoesNotLookAtAllRunsEachTime also checks that a store sees its own changes at
// once.
func TestAListWithCountsDoesNotLookAtAllRunsEachTime(t *testing.T) {
	s, _, dir := oldRuns(t, 300, filestore.WithPolling(time.Hour))
	other := newFileStore(t, dir) // as another process
	look := func() snapshot.Page {
		t.Helper()
		page, err := s.List(t.Context(), snapshot.Filter{Limit: 1, Count: true})
		require.NoError(t, err)
		return page
	}
	counts := func(completed, failed, paused int) map[snapshot.Status]int {
		want := map[snapshot.Status]int{snapshot.StatusCompleted: completed, snapshot.StatusFailed: failed}
		if paused > 0 {
			want[snapshot.StatusPaused] = paused
		}
		return want
	}
	assert.Equal(t, counts(270, 30, 0), look().Counts)
	assert.Less(t, testing.AllocsPerRun(5, func() { look() }), 200.0, "independent of the number of runs")

	require.NoError(t, s.Delete(t.Context(), "run-0010"))
	assert.Equal(t, counts(270, 29, 0), look().Counts)
	j, err := s.Open(t.Context(), "run-0020", snapshot.OpenOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1, look().Counts[snapshot.StatusRunning])
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	page := look()
	assert.Equal(t, counts(270, 28, 1), page.Counts)
	assert.Equal(t, "run-0020", page.Runs[0].RunID)
	_, err = s.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: "new", Status: snapshot.StatusCompleted}})
	require.NoError(t, err)
	_, err = s.Update(t.Context(), "run-0030", func(i *snapshot.Info) error { i.Status = snapshot.StatusCompleted; return nil })
	require.NoError(t, err)
	page = look()
	assert.Equal(t, counts(272, 27, 1), page.Counts)
	assert.Equal(t, "run-0030", page.Runs[0].RunID)

	require.NoError(t, other.Delete(t.Context(), "run-0040"))
	require.NoError(t, s.Delete(t.Context(), "run-0050"))
	assert.Equal(t, counts(272, 26, 1), look().Counts, "the changes of another store are seen later")
	for n := range 10_001 { // more changes than the store remembers individually
		require.ErrorIs(t, s.Delete(t.Context(), fmt.Sprint("none-", n)), snapshot.ErrNotFound)
	}
	assert.Equal(t, counts(272, 25, 1), look().Counts)
	require.NoError(t, other.Delete(t.Context(), "run-0060"))
	assert.Len(t, list(t, s, snapshot.Filter{Status: []snapshot.Status{snapshot.StatusFailed}}), 24, "a list without counts is up to date")
	assert.Equal(t, counts(272, 24, 1), look().Counts)
}

// TestAListWithCountsSeesChangesByOthersWhenAWatchDoes checks that a list with counts sees changes
// by other stores as soon as a Watch does.
func TestAListWithCountsSeesChangesByOthersWhenAWatchDoes(t *testing.T) {
	_, _, dir := oldRuns(t, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newFileStore(t, dir, filestore.WithPolling(time.Minute))
		other := newFileStore(t, dir, filestore.WithPolling(time.Minute))
		failed := func() int {
			page, err := s.List(t.Context(), snapshot.Filter{Limit: 1, Count: true})
			require.NoError(t, err)
			return page.Counts[snapshot.StatusFailed]
		}
		assert.Equal(t, 1, failed())
		require.NoError(t, other.Delete(t.Context(), "run-0000"))
		<-time.After(59 * time.Second)
		assert.Equal(t, 1, failed())
		<-time.After(time.Second)
		assert.Zero(t, failed())
	})
}

// Some file systems record file times in whole seconds.
func TestChangesThatDoNotChangeTheTimeOfAFileAreListed(t *testing.T) {
	s, _, dir := oldRuns(t, 1)
	now := time.Now().Truncate(time.Second)
	for n := range 20 {
		_, err := s.Update(t.Context(), "run-0000", func(i *snapshot.Info) error { i.Priority = n; return nil })
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "runs", "run-0000", "meta"), now, now))
		listed := list(t, s, snapshot.Filter{Limit: 1})
		require.Equal(t, n, listed[0].Priority)
		sn := list(t, s, snapshot.Filter{Since: listed[0].Updated})
		require.Len(t, sn, 1, "the place in the list is up to date")
	}
}

func TestLaterPagesKeepTheOrderOfTheFirst(t *testing.T) {
	const runs = 50
	s, disk, dir := oldRuns(t, runs)
	other := newFileStore(t, dir)
	found := make(map[string]int)
	f := snapshot.Filter{Limit: 10}
	for page := range 5 {
		got, err := s.List(t.Context(), f)
		require.NoError(t, err)
		for _, info := range got.Runs {
			found[info.RunID]++
		}
		f.After = got.Next
		for n := range runs { // this changes the order of all runs
			_, err := other.Update(t.Context(), fmt.Sprintf("run-%04d", n), func(i *snapshot.Info) error { i.Pinned = page%2 == 0; return nil })
			require.NoError(t, err)
		}
	}
	require.Empty(t, f.After)
	require.Len(t, found, runs)
	for id, times := range found {
		assert.Equal(t, 1, times, id)
	}
	assert.EqualValues(t, runs+11, disk.openedBy(func() { require.Len(t, list(t, s, snapshot.Filter{Limit: 10}), 10) }), "a first page checks all runs again")
}

// A list of a few runs by ID, such as the turns of a new thread, does not check all runs.
func TestAListOfAFewRunsDoesNotCheckAllRuns(t *testing.T) {
	s, disk, dir := oldRuns(t, 200)
	only := snapshot.Filter{Tags: []string{"tag-77"}, Only: func(id string) bool { return id == "run-0077" || id == "run-0078" }}
	for range 2 {
		assert.LessOrEqual(t, disk.openedBy(func() { require.Len(t, list(t, s, only), 1) }), int64(4))
	}
	other := newFileStore(t, dir) // as another process
	_, err := other.Update(t.Context(), "run-0077", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	assert.True(t, list(t, s, only)[0].Pinned)
	require.NoError(t, other.Delete(t.Context(), "run-0077"))
	assert.Empty(t, list(t, s, only))
}

// The index has all the fields that filters and orders need.
func TestOnlyTheRunsOfAPageAreRead(t *testing.T) {
	t.Parallel()
	const runs = 1100
	s, disk, dir := oldRuns(t, 0)
	for n := range runs {
		createOld(t, s, dir, fmt.Sprintf("run-%04d", n), snapshot.StatusCompleted, fmt.Sprint("tag-", n%300))
	}
	require.Empty(t, list(t, s, snapshot.Filter{Tags: []string{"none"}}))
	for want, f := range map[int]snapshot.Filter{
		0: {Tags: []string{"none"}, Limit: 1},
		1: {Limit: 1, Sort: snapshot.SortDuration, Count: true},
		4: {Limit: 10, Tags: []string{"tag-7"}, Count: true, Sort: snapshot.SortTokens},
		5: {Limit: 5, Text: "RUN-1"},
	} {
		opened := disk.openedBy(func() {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err)
			require.Len(t, page.Runs, want)
			if f.Count {
				require.NotZero(t, page.Counts[snapshot.StatusCompleted])
			}
		})
		assert.LessOrEqual(t, opened, int64(want)+1, "%+v", f)
	}
}

func TestListReadsOnlyTheMetaFileOfARunThatHasNotChanged(t *testing.T) {
	const runs = 30
	s, disk, dir := oldRuns(t, runs)
	all := list(t, s, snapshot.Filter{})
	before := disk.others.Load()
	assert.EqualValues(t, runs, disk.openedBy(func() { require.Equal(t, all, list(t, s, snapshot.Filter{})) }))
	assert.Equal(t, before, disk.others.Load())

	first, err := s.List(t.Context(), snapshot.Filter{Limit: 10})
	require.NoError(t, err)
	other := newFileStore(t, dir) // as another process
	j, err := other.Open(t.Context(), all[10].RunID, snapshot.OpenOptions{})
	require.NoError(t, err)
	_, err = other.Update(t.Context(), all[11].RunID, func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.NoError(t, other.Delete(t.Context(), all[12].RunID))
	second, err := s.List(t.Context(), snapshot.Filter{Limit: 10, After: first.Next})
	require.NoError(t, err)
	require.Len(t, second.Runs, 10)
	assert.True(t, second.Runs[0].Open)
	assert.Equal(t, snapshot.StatusRunning, second.Runs[0].Status)
	assert.True(t, second.Runs[1].Pinned)
	assert.Equal(t, all[13], second.Runs[2], "the deleted run is left out")
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

// A Watch checks all runs at each interval, and there may be 100,000 of them.
func TestAWatchReadsAgainOnlyWhatHasChanged(t *testing.T) {
	const runs = 200
	s, disk, dir := oldRuns(t, runs, filestore.WithPolling(time.Second))
	synctest.Test(t, func(t *testing.T) {
		for n := range runs { // with the time of the synctest bubble
			id := fmt.Sprintf("run-%04d", n)
			makeOld(t, dir, id)
		}
		own := newFileStore(t, dir, filestore.WithPolling(time.Second), filestore.WithDisk(disk))
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan snapshot.Change, 2*runs)
		var wait sync.WaitGroup
		wait.Go(func() {
			for event, err := range own.Watch(ctx, snapshot.WatchOptions{Records: true}) {
				if err == nil {
					events <- event
				}
			}
		})
		synctest.Wait()
		require.Len(t, events, runs)
		for range runs {
			<-events
		}
		assert.Zero(t, disk.openedBy(func() { <-time.After(time.Minute) }))
		_, err := s.Update(t.Context(), "run-0007", func(i *snapshot.Info) error { i.Pinned = true; return nil })
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), "run-0008"))
		makeOld(t, dir, "run-0007")
		assert.Less(t, disk.openedBy(func() { <-time.After(1500 * time.Millisecond) }), int64(10))
		changed := map[string]snapshot.Change{}
		for range 2 {
			e := <-events
			changed[e.Info.RunID] = e
		}
		require.Empty(t, events)
		assert.True(t, changed["run-0007"].Info.Pinned)
		assert.True(t, changed["run-0008"].Deleted)
		cancel()
		wait.Wait()
	})
}
