package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A script is the life of a run with two generations and several compactions. It knows how many
// records were appended, how many of them the store has confirmed, and the status of the run.
type script struct {
	compactAtClose int64

	appended, promised int
	status             snapshot.Status
	err                error
}

func (sc *script) run(t *testing.T, disk filestore.Disk, dir string) {
	s, err := filestore.New(dir, filestore.WithDisk(disk), filestore.WithCompactFrom(1500), filestore.WithCompactAtClose(sc.compactAtClose))
	if err != nil {
		sc.err = err
		return
	}
	for _, end := range []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted} {
		sc.generation(t, s, end)
		if sc.err != nil {
			return
		}
	}
}

func (sc *script) generation(t *testing.T, s *filestore.Store, end snapshot.Status) {
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	if err != nil {
		sc.err = err
		return
	}
	defer filestore.Abandon(j)
	for range 14 {
		batch := storetest.Records(uint64(sc.appended)+1, 2)
		sc.appended += len(batch)
		if sc.err = j.Append(batch...); sc.err != nil {
			return
		}
		filestore.WaitForCompaction(j) // so that operations always come in the same order
		if sc.appended%4 != 0 {
			continue
		}
		if sc.err = j.Sync(t.Context(), uint64(sc.appended)); sc.err != nil {
			return
		}
		sc.promised = sc.appended
	}
	sc.status = end // possible from here on
	if sc.err = closeAs(j, end); sc.err != nil {
		return
	}
	sc.promised = sc.appended
}

func TestNoCrashLosesConfirmedData(t *testing.T) {
	for name, test := range map[string]struct {
		script
		compactions int
	}{
		"compacted when closed":     {script{}, 3},
		"not compacted when closed": {script{compactAtClose: 1 << 20}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopEverywhere(t, test.script, test.compactions)
		})
	}
}

// stopEverywhere runs the script once for each of its operations, with a crash at that operation,
// and checks the worlds that may be found afterwards or, without -long, half of them. It fails if
// the script has fewer than least compactions.
func stopEverywhere(t *testing.T, begin script, least int) {
	whole := newCrashDisk(memoryDir(t), 1<<20)
	sc := begin
	sc.run(t, whole, whole.root)
	require.NoError(t, sc.err)
	operations := len(whole.done)
	require.Greater(t, operations, 80)
	compactions := 0
	for _, op := range whole.done {
		if strings.HasSuffix(op, ".snapshot") && strings.HasPrefix(op, "rename") {
			compactions++
		}
	}
	require.GreaterOrEqual(t, compactions, least)

	seen, dir := 0, filepath.Join(memoryDir(t), "world")
	for stop := range operations {
		d := newCrashDisk(memoryDir(t), stop)
		sc := begin
		sc.run(t, d, d.root)
		if sc.err == nil {
			// Close survives the failure of an operation that only serves List or compaction.
			require.GreaterOrEqual(t, stop, operations/2)
		}
		last := "nothing"
		if len(d.done) > 0 {
			last = d.done[len(d.done)-1]
		}
		all, before := d.found(), make(map[uint64]bool)
		for i, name := range slices.Sorted(maps.Keys(all)) {
			w := all[name]
			if before[w.key()] || !*long && (i+stop)%2 > 0 || !testkit.Sampled(i+stop) {
				continue
			}
			before[w.key()] = true
			seen++
			t.Run(fmt.Sprintf("%d, after %s, %s", stop, last, name), func(t *testing.T) {
				w.write(t, dir)
				sc.check(t, dir)
			})
		}
	}
	t.Logf("%d operations, %d worlds", operations, seen)
}

// check checks what a crash has left behind, and continues the run.
func (sc *script) check(t *testing.T, dir string) {
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	listed, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	run, err := s.Load(t.Context(), "run")
	if errors.Is(err, snapshot.ErrNotFound) && sc.promised == 0 {
		require.Empty(t, listed.Runs)
		return
	}
	require.NoError(t, err)
	sn := decoded(t, run)
	require.GreaterOrEqual(t, len(sn.Records), sc.promised)
	require.LessOrEqual(t, len(sn.Records), sc.appended)
	requireRecords(t, sn.Records, len(sn.Records))
	require.Len(t, listed.Runs, 1)
	require.Equal(t, sn.Info, listed.Runs[0])
	if sc.err == nil {
		require.Equal(t, snapshot.StatusCompleted, sn.Status)
	}
	require.Contains(t, []snapshot.Status{snapshot.StatusInterrupted, snapshot.StatusPaused, sc.status}, sn.Status)

	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, sn.Records, decoded(t, j.Restored()).Records)
	require.Equal(t, sn.Generation+1, j.Restored().Generation)
	require.NoError(t, j.Append(storetest.Records(sn.LastSeq+1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusFailed))
	after := load(t, s, "run")
	require.Equal(t, snapshot.StatusFailed, after.Status)
	requireRecords(t, after.Records, len(sn.Records)+3)
	for _, name := range names(t, filepath.Join(dir, "runs", "run")) {
		require.NotEqual(t, ".tmp", filepath.Ext(name))
	}
}

func TestANewJournalWaitsForTheSyncOfThePreviousOne(t *testing.T) {
	crash := newCrashDisk(t.TempDir(), 1<<20)
	d := newFaultyDisk()
	d.Disk = crash
	s := newFileStore(t, crash.root, filestore.WithDisk(d), filestore.WithCompactFrom(1000))
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	var once sync.Once
	var begun atomic.Bool
	d.synced = func(name string) error {
		if name == "00000001.journal" && begun.Load() { // the journal is being sealed while the run continues
			once.Do(func() { require.NoError(t, j.Append(storetest.Records(21, 3)...)) })
		}
		return nil
	}
	begun.Store(true)
	require.NoError(t, j.Append(storetest.Records(1, 20)...))
	filestore.WaitForCompaction(j)
	require.NoError(t, j.Append(storetest.Records(24, 1)...))
	for name, dir := range crash.worlds(t) {
		run, err := newFileStore(t, dir).Load(t.Context(), "run")
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, run.Len(), 23, name)
		requireRecords(t, decoded(t, run).Records, run.Len())
	}
	crash.mu.Lock()
	require.NotContains(t, crash.now, "runs/run/00000001.journal")
	order := slices.Clone(crash.done)
	crash.mu.Unlock()
	sealed := slices.Index(order, "rename runs/run/00000002.journal.tmp to runs/run/00000002.journal")
	require.Positive(t, sealed)
	last := ""
	for _, op := range order[sealed:] {
		if strings.HasSuffix(op, "00000001.journal.tmp") && !strings.HasPrefix(op, "remove") {
			last = op
		}
		if strings.HasSuffix(op, "00000002.journal.tmp") && strings.HasPrefix(op, "write") {
			break
		}
	}
	require.Equal(t, "sync runs/run/00000001.journal.tmp", last, "%v", order[sealed:])
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

// A Create that was cut short leaves no run and does not prevent a later Create.
func TestAnUnfinishedCreateLeavesNoRun(t *testing.T) {
	whole := createdFiles(t)
	for cut := range len(whole) {
		if !testkit.Sampled(cut) {
			continue
		}
		dir := t.TempDir()
		s := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "runs", "run"), 0o700))
		name := filepath.Join(dir, "runs", "run", "00000001.journal")
		require.NoError(t, os.WriteFile(name, append(slices.Clone(whole[:cut]), make([]byte, len(whole)-cut)...), 0o600))

		_, err := s.Load(t.Context(), "run")
		require.ErrorIs(t, err, snapshot.ErrNotFound, cut)
		_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.ErrorIs(t, err, snapshot.ErrNotFound)
		require.ErrorIs(t, s.Post(t.Context(), "run", storetest.Answer("waiting", "true")), snapshot.ErrNotFound)
		require.Empty(t, list(t, s, snapshot.Filter{}))
		if cut%2 == 0 {
			createShort(t, s)
		} else {
			require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		}
		_, err = s.Load(t.Context(), "run")
		require.NoError(t, err)
	}
}

// A journal that lost confirmed data is treated as damaged, not as an unfinished Create.
func TestACreatedRunThatLostItsEndIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
	createShort(t, s)
	name := filepath.Join(dir, "runs", "run", "00000001.journal")
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, at := range []int{0, 20, int(filestore.Frames(whole)[1])} {
		require.NoError(t, os.WriteFile(name, append(slices.Clone(whole[:at]), make([]byte, len(whole)-at)...), 0o600))
		_, err = s.Load(t.Context(), "run")
		require.ErrorIs(t, err, snapshot.ErrCorrupt, at)
	}
}

// createShort creates a run that is short enough to be stored as a journal.
func createShort(t *testing.T, s *filestore.Store) {
	t.Helper()
	records := storetest.Records(1, 3)
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, func(yield func(record.Record, error) bool) {
		for i := range records {
			if !yield(records[i], nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
}

// createdFiles returns the journal of a run created by createShort, without the zeros at its end.
func createdFiles(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	createShort(t, newFileStore(t, dir, filestore.WithCompactAtClose(1<<20)))
	data, err := os.ReadFile(filepath.Join(dir, "runs", "run", "00000001.journal"))
	require.NoError(t, err)
	return bytes.TrimRight(data, "\x00")
}
