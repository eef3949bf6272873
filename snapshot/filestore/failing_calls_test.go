package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

var long = flag.Bool("long", false, "run the long form of the campaigns, see CONTRIBUTING")

// A ledger holds what a store has confirmed, and what it may have done in addition.
type ledger struct {
	appended, promised int                     // numbers of records of the run
	created            map[string]int          // number of records of each run that Create stored
	tried              map[string]int          // number of records of each run that Create failed to store
	deleted            map[string]bool         // true if Delete succeeded, false if it failed
	posted             map[string]bool         // messages, likewise
	removed            map[string]bool         // messages, likewise
	artifacts          map[string][]byte       // by reference
	pinned             *bool                   // the confirmed value; nil if unknown
	statuses           map[snapshot.Status]int // statuses that the run may have
	errs               []error
}

// fails notes an error from the store and reports whether there was one. ErrNotFound is not noted
// until a record has been confirmed.
func (l *ledger) fails(err error) bool {
	if err != nil && (l.promised > 0 || !errors.Is(err, snapshot.ErrNotFound)) {
		l.errs = append(l.errs, err)
	}
	return err != nil
}

// exercise calls all methods of a store that write, and some that read. After a failure, it
// continues with the next step.
func (l *ledger) exercise(ctx context.Context, t testing.TB, dir string, disk filestore.Disk) {
	l.created, l.tried, l.deleted = make(map[string]int), make(map[string]int), make(map[string]bool)
	l.posted, l.removed = make(map[string]bool), make(map[string]bool)
	l.artifacts, l.statuses = make(map[string][]byte), map[snapshot.Status]int{snapshot.StatusInterrupted: 1}
	s, err := filestore.New(dir, filestore.WithDisk(disk), filestore.WithCompactFrom(6<<10), filestore.WithCompactAtClose(8<<10))
	if l.fails(err) {
		return
	}
	for _, end := range []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted} {
		l.generation(ctx, t, s, end)
		l.concurrently(ctx, s)
		if run, err := s.Load(ctx, "run"); end == snapshot.StatusPaused && !l.fails(err) {
			l.create(ctx, t, s, "short", run)
		}
	}
	if run, err := s.Load(ctx, "run"); !l.fails(err) {
		l.create(ctx, t, s, "fork", run)
		if data, err := run.Encode(); !l.fails(err) {
			imported, err := snapshot.Decode(data)
			require.NoError(t, err)
			l.create(ctx, t, s, "imported", imported)
		}
		if l.create(ctx, t, s, "gone", run); l.created["gone"] > 0 {
			l.deleted["gone"] = !l.fails(s.Delete(ctx, "gone"))
		}
	}
	report, err := s.Repair(ctx, "run") // there is nothing to repair
	if !l.fails(err) {
		require.Nil(t, report.Damage)
	}
	_, err = s.List(ctx, snapshot.Filter{})
	l.fails(err)
	_, err = s.GC(ctx, 0)
	l.fails(err)
	l.artifacts = nil // GC has removed them because no record refers to them
}

// generation opens the run, appends to it, and closes it.
func (l *ledger) generation(ctx context.Context, t testing.TB, s *filestore.Store, end snapshot.Status) {
	j, err := s.Open(ctx, "run", snapshot.OpenOptions{Create: true})
	if l.fails(err) {
		l.statuses[snapshot.StatusInterrupted]++ // the generation may have begun anyway
		return
	}
	l.statuses = map[snapshot.Status]int{snapshot.StatusInterrupted: 1}
	n := j.Restored().Len()
	require.GreaterOrEqual(t, n, l.promised)
	require.LessOrEqual(t, n, l.appended)
	requireStored(t, j.Restored(), n)
	l.appended, l.promised = n, n // Open has written and synced them again
	for range 6 {
		batch := storetest.Records(uint64(l.appended)+1, 15)
		l.appended += len(batch)
		if l.fails(j.Append(batch...)) {
			break
		}
		filestore.WaitForCompaction(j)
		if l.appended%2 != 0 {
			continue
		}
		if l.fails(j.Sync(ctx, uint64(l.appended))) {
			break
		}
		l.promised = l.appended
	}
	if err := closeAs(j, end); l.fails(err) {
		l.statuses[end]++ // the status may have been stored
		return
	}
	l.promised, l.statuses = l.appended, map[snapshot.Status]int{end: 1}
}

// concurrently does with the run what other processes might do at the same time.
func (l *ledger) concurrently(ctx context.Context, s *filestore.Store) {
	data := bytes.Repeat([]byte("output"), 1+len(l.artifacts))
	if ref, err := s.Put(ctx, data); !l.fails(err) {
		l.artifacts[ref] = data
	}
	for ref, data := range l.artifacts {
		if got, err := s.Get(ctx, ref); !l.fails(err) && !bytes.Equal(got, data) {
			l.fails(fmt.Errorf("artifact %s has other data", ref))
		}
	}
	m := storetest.Answer(fmt.Sprint("question", len(l.posted)), "true")
	err := s.Post(ctx, "run", m)
	l.posted[m.ID()] = !l.fails(err)
	waiting, err := s.Messages(ctx, "run")
	if !l.fails(err) && len(waiting) > 1 {
		id := waiting[0].ID()
		l.removed[id] = !l.fails(s.Remove(ctx, "run", id))
	}
	pinned := l.pinned == nil || !*l.pinned
	_, err = s.Update(ctx, "run", func(info *snapshot.Info) error { info.Pinned = pinned; return nil })
	if l.pinned = &pinned; l.fails(err) {
		l.pinned = nil
	}
}

// create stores the run under another ID.
func (l *ledger) create(ctx context.Context, t testing.TB, s *filestore.Store, id string, run *snapshot.Run) {
	another, _, err := run.Extend()
	require.NoError(t, err)
	another.RunID, another.ParentID = id, "run"
	if _, err := s.Create(ctx, another); l.fails(err) {
		l.tried[id] = run.Len()
		if _, err = s.Create(ctx, another); errors.Is(err, snapshot.ErrExists) { // the run was stored completely
			if found, err := s.Load(ctx, id); !l.fails(err) {
				require.Equal(t, run.Len(), found.Len())
			}
			return
		} else if l.fails(err) {
			return
		}
	}
	l.created[id] = run.Len()
}

// check compares the files of the store with the ledger, using a disk that does not fail.
func (l *ledger) check(ctx context.Context, t testing.TB, dir string) {
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	listed, err := s.List(ctx, snapshot.Filter{})
	require.NoError(t, err)
	infos := make(map[string]snapshot.Info)
	for _, info := range listed.Runs {
		infos[info.RunID] = info
	}
	run, err := s.Load(ctx, "run")
	if errors.Is(err, snapshot.ErrNotFound) && l.promised == 0 {
		require.NotContains(t, infos, "run")
		return
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, run.Len(), l.promised)
	require.LessOrEqual(t, run.Len(), l.appended)
	requireStored(t, run, run.Len())
	require.Contains(t, l.statuses, run.Status)
	require.Equal(t, infos["run"], run.Info)
	if l.pinned != nil {
		require.Equal(t, *l.pinned, run.Pinned)
	}
	for id, n := range l.created {
		found, err := s.Load(ctx, id)
		if deleted, ok := l.deleted[id]; ok && (deleted || errors.Is(err, snapshot.ErrNotFound)) {
			require.ErrorIs(t, err, snapshot.ErrNotFound, id)
			require.NotContains(t, infos, id)
			continue
		}
		require.NoError(t, err, id)
		requireStored(t, found, n)
	}
	for id, n := range l.tried {
		if _, ok := l.created[id]; ok {
			continue // a second attempt succeeded
		}
		if found, err := s.Load(ctx, id); !errors.Is(err, snapshot.ErrNotFound) {
			require.NoError(t, err, id)
			requireStored(t, found, n)
		} else {
			require.NotContains(t, infos, id)
		}
	}
	for ref, data := range l.artifacts {
		got, err := s.Get(ctx, ref)
		require.NoError(t, err)
		require.Equal(t, data, got)
	}
	waiting, err := s.Messages(ctx, "run")
	require.NoError(t, err)
	var ids []string
	for i := range waiting {
		ids = append(ids, waiting[i].ID())
	}
	for id, sure := range l.posted {
		if _, tried := l.removed[id]; sure && !tried {
			require.Contains(t, ids, id)
		}
	}
	for id, sure := range l.removed {
		require.False(t, sure && slices.Contains(ids, id), "the message was removed")
	}

	j, err := s.Open(ctx, "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	requireStored(t, j.Restored(), run.Len())
	require.NoError(t, j.Append(storetest.Records(uint64(run.Len())+1, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusFailed))
	after, err := s.Load(ctx, "run")
	require.NoError(t, err)
	requireStored(t, after, run.Len()+3)
	require.Equal(t, snapshot.StatusFailed, after.Status)
	for _, name := range names(t, filepath.Join(dir, "runs", "run")) {
		require.NotEqual(t, ".tmp", filepath.Ext(name))
	}
}

// openFiles returns the files below dir that this process has open, on systems that have /proc.
func openFiles(dir string) (open []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(name, dir) {
			open = append(open, name)
		}
	}
	return open
}

func TestNoFailedSystemCallLosesConfirmedData(t *testing.T) {
	counting := &failingDisk{Disk: fastDisk{filestore.OSDisk}}
	var whole ledger
	dir := t.TempDir()
	open, err := os.Create(filepath.Join(dir, "open"))
	require.NoError(t, err)
	if runtime.GOOS == "linux" {
		require.Len(t, openFiles(dir), 1)
	}
	require.NoError(t, open.Close())
	whole.exercise(t.Context(), t, dir, counting)
	require.FileExists(t, filepath.Join(dir, "runs", "short", "00000001.journal"))
	require.FileExists(t, filepath.Join(dir, "runs", "fork", "00000000.snapshot"))
	require.Empty(t, whole.errs)
	require.Len(t, whole.created, 4)
	for _, kind := range strings.Fields("open read stat readdir create write allocate truncate sync close rename link remove mkdir syncdir") {
		require.Positive(t, counting.kinds[kind], kind)
	}

	passing, often := []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE}, []int{1, 4, 1, 15, 1, 1 << 30}
	var failures []failingDisk
	for from := 1; from <= counting.calls; from++ {
		if !*long {
			failures = append(failures, failingDisk{from: from, times: often[from%6], err: passing[(from+from/6)%3]})
			continue
		}
		for _, err := range passing {
			for _, times := range []int{1, 2, 4, 15, 1 << 30} {
				failures = append(failures, failingDisk{from: from, times: times, err: err})
			}
		}
	}
	t.Logf("%d system calls, %d failures", counting.calls, len(failures))
	for i := range failures {
		if !testkit.Sampled(i) {
			continue
		}
		disk := &failures[i]
		t.Run(fmt.Sprintf("%d from call %d on, %v", disk.times, disk.from, disk.err), func(t *testing.T) {
			dir := memoryDir(t)
			disk.Disk = fastDisk{filestore.OSDisk}
			var l ledger
			defer func() {
				if t.Failed() {
					t.Logf("failed: %v\nerrors: %v", disk.failed[:min(len(disk.failed), 3)], l.errs)
				}
			}()
			l.exercise(t.Context(), t, dir, disk)
			for _, err := range l.errs {
				require.ErrorIs(t, err, disk.err)
				require.NotErrorIs(t, err, snapshot.ErrCorrupt, "a failed call does not mean that the data is damaged")
			}
			require.Empty(t, openFiles(dir), "all files are closed")
			l.check(t.Context(), t, dir)
		})
	}
}

// A run whose beginning failed either does not exist or can be opened.
func TestARunWhoseBeginningFailedIsNotDamaged(t *testing.T) {
	begun := func(t *testing.T, disk *failingDisk) (dir string) {
		dir = memoryDir(t)
		s, err := filestore.New(dir, filestore.WithDisk(disk))
		if err != nil {
			return dir
		}
		if j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true}); err == nil {
			filestore.Abandon(j)
		}
		return dir
	}
	counting := &failingDisk{Disk: fastDisk{filestore.OSDisk}}
	begun(t, counting)
	for from := 1; from <= counting.calls; from++ {
		for times := 1; times <= 4; times++ {
			t.Run(fmt.Sprintf("%d from call %d on", times, from), func(t *testing.T) {
				disk := &failingDisk{Disk: fastDisk{filestore.OSDisk}, from: from, times: times, err: syscall.ENOSPC}
				s := newFileStore(t, begun(t, disk))
				_, err := s.Load(t.Context(), "run")
				if !errors.Is(err, snapshot.ErrNotFound) {
					require.NoError(t, err, "failed: %v", disk.failed)
				}
				require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
			})
		}
	}
}

func TestAnUnreadableMetaFileDoesNotCountAsMissing(t *testing.T) {
	s, journal := completedRun(t)
	_, err := s.Update(t.Context(), "run", func(info *snapshot.Info) error { info.Pinned = true; return nil })
	require.NoError(t, err)
	whole, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(journal, filestore.Frames(whole)[3])) // only the meta file shows that the end is lost
	dir := filepath.Dir(filepath.Dir(filepath.Dir(journal)))
	for _, failure := range []error{syscall.EIO, syscall.EMFILE} {
		disk := newFaultyDisk()
		disk.open = func(name string) error {
			if name == "meta" {
				return failure
			}
			return nil
		}
		failing := newFileStore(t, dir, filestore.WithDisk(disk))
		_, loading := failing.Load(t.Context(), "run")
		_, opening := failing.Open(t.Context(), "run", snapshot.OpenOptions{})
		_, updating := failing.Update(t.Context(), "run", func(*snapshot.Info) error { return nil })
		_, repairing := failing.Repair(t.Context(), "run")
		for _, err := range []error{loading, opening, updating, repairing} {
			require.ErrorIs(t, err, snapshot.ErrUnavailable)
			require.ErrorIs(t, err, failure)
		}
	}
	_, err = s.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.NoError(t, os.WriteFile(journal, whole, 0o600))
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.True(t, run.Pinned)
}
