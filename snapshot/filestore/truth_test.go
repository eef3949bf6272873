package filestore_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// infosOf returns the info of a run as each method of a new store reports it: Load, Info, and List
// with several filters.
func infosOf(t *testing.T, dir string) map[string]snapshot.Info {
	t.Helper()
	all := make(map[string]snapshot.Info)
	fresh := func() *filestore.Store { return notCompacting(t, dir) }
	run, err := fresh().Load(t.Context(), "run")
	require.NoError(t, err)
	all["Load"] = run.Info
	all["Info"], err = fresh().Info(t.Context(), "run")
	require.NoError(t, err)
	if run.Open { // lists show the info of the process that has the run open
		return all
	}
	for name, f := range map[string]snapshot.Filter{
		"List": {}, "sorted": {Sort: snapshot.SortDuration, Count: true}, "picked": {Status: []snapshot.Status{run.Status}, Since: run.Updated},
	} {
		page, err := fresh().List(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, page.Runs, 1, name)
		all[name] = page.Runs[0]
		if f.Count {
			require.Equal(t, map[snapshot.Status]int{run.Status: 1}, page.Counts)
		}
	}
	return all
}

// lateUpdates are updates that are made to a run at the end of its life.
var lateUpdates = map[string]func(i *snapshot.Info){
	"":                  nil,
	", and is pinned":   func(i *snapshot.Info) { i.Pinned = true },
	", and is queued":   func(i *snapshot.Info) { i.Status, i.Priority = snapshot.StatusQueued, 7 },
	", and is renamed ": func(i *snapshot.Info) { i.Metadata.Description = "another" },
}

// At the end of each life, the meta file is replaced with each of its earlier versions and with a
// damaged one, and is removed. Each time, all methods must return the same info, and the run must
// open with the same state. The short form takes only one late update for each pair of a shape and
// a change, a different one in turn.
func TestTheOtherFilesPrevailOverTheMetaFile(t *testing.T) {
	n := 0
	for i, shape := range slices.Sorted(maps.Keys(shapes)) {
		for j, name := range slices.Sorted(maps.Keys(changes)) {
			for k, update := range slices.Sorted(maps.Keys(lateUpdates)) {
				if strings.HasPrefix(name, "it is replaced") || !*long && (i+j)%len(lateUpdates) != k {
					continue
				}
				if n++; !testkit.Sampled(n) {
					continue
				}
				t.Run(shape+", "+name+update, func(t *testing.T) {
					t.Parallel()
					l := &indexedLife{t: t, r: &changingRun{dir: memoryDir(t)}}
					l.r.reached = l.note
					shapes[shape](t, l.r, "old", snapshot.StatusPaused)
					l.update(func(i *snapshot.Info) { i.Metadata.Tags = []string{"at first"} })
					changes[name](t, l.r)
					l.update(lateUpdates[update])
					l.check()
				})
			}
		}
	}
}

func TestNoMetaFileHidesARepair(t *testing.T) {
	t.Parallel()
	l := &indexedLife{t: t, r: &changingRun{dir: memoryDir(t)}}
	l.r.reached = l.note
	shapes["two generations in a journal"](t, l.r, "old", snapshot.StatusCompleted)
	l.update(func(i *snapshot.Info) { i.Pinned = true })
	journal := filepath.Join(l.r.dir, "runs", "run", "00000001.journal")
	data, err := os.ReadFile(journal)
	require.NoError(t, err)
	frames := filestore.Frames(data)
	require.NoError(t, os.WriteFile(journal, flipped(data, int64(frames[len(frames)-3]+30)), 0o600))
	report, err := notCompacting(t, l.r.dir).Repair(t.Context(), "run")
	require.NoError(t, err)
	require.Positive(t, report.Lost)
	l.check()
}

func TestNoMetaFileHidesThatARunIsOpen(t *testing.T) {
	for _, shape := range []string{"an open journal", "an open journal of two generations", "a snapshot and an open journal"} {
		l := &indexedLife{t: t, r: &changingRun{dir: memoryDir(t)}}
		l.r.reached = l.note
		shapes[shape](t, l.r, "old", "")
		l.update(func(i *snapshot.Info) { i.Pinned = true })
		l.check()
	}
}

// An indexedLife is the life of a run with all versions of its meta file.
type indexedLife struct {
	t     *testing.T
	r     *changingRun
	metas [][]byte
}

func (l *indexedLife) meta() string { return filepath.Join(l.r.dir, "runs", "run", "meta") }

func (l *indexedLife) note() {
	if data, err := os.ReadFile(l.meta()); err == nil {
		l.metas = append(l.metas, data)
	}
}

// update updates the run, if the update is allowed.
func (l *indexedLife) update(f func(i *snapshot.Info)) {
	if f == nil {
		return
	}
	s := notCompacting(l.t, l.r.dir)
	before, err := s.Info(l.t.Context(), "run")
	require.NoError(l.t, err)
	after, err := s.Update(l.t.Context(), "run", func(i *snapshot.Info) error { f(i); return nil })
	if before.Open && after.Status == "" {
		require.ErrorIs(l.t, err, snapshot.ErrLocked)
		return
	}
	require.NoError(l.t, err)
	now, err := s.Info(l.t.Context(), "run")
	require.NoError(l.t, err)
	require.Equal(l.t, after, now)
	l.note()
}

func (l *indexedLife) check() {
	t := l.t
	want := infosOf(t, l.r.dir)
	for name, info := range want {
		require.Equal(t, want["Load"], info, name)
	}
	require.NotEmpty(t, l.metas)
	at := []int{-2, -1}
	for n := range l.metas {
		at = append(at, n)
	}
	for _, n := range at {
		switch n {
		case -2:
			require.NoError(t, os.Remove(l.meta()))
		case -1:
			require.NoError(t, os.WriteFile(l.meta(), []byte("something else"), 0o600))
		default:
			require.NoError(t, os.WriteFile(l.meta(), l.metas[n], 0o600))
		}
		require.Equal(t, want, infosOf(t, l.r.dir), "with meta file %d", n)
		if l.r.open != nil {
			continue
		}
		copied := memoryDir(t)
		require.NoError(t, os.CopyFS(copied, os.DirFS(l.r.dir)))
		j := begin(t, notCompacting(t, copied))
		require.Equal(t, want["Load"].Generation+1, j.Restored().Generation)
		require.NoError(t, closeAs(j, snapshot.StatusFailed))
		for name, info := range infosOf(t, copied) {
			require.Equal(t, snapshot.StatusFailed, info.Status, name)
			require.Equal(t, want["Load"].Pinned, info.Pinned, name)
			require.Equal(t, want["Load"].Metadata, info.Metadata, name)
		}
	}
}

// The process ended after the update was stored, but before the meta file was written.
func TestAnUpdateThatWasCutShortIsListed(t *testing.T) {
	s, _, dir := oldRuns(t, 1)
	lister := notCompacting(t, dir)
	require.False(t, list(t, lister, snapshot.Filter{})[0].Pinned)
	metas := 0
	killed := newFileStore(t, dir, filestore.WithDisk(writingDisk{filestore.OSDisk, func(name string) error {
		if name == "meta" {
			metas++
		}
		if metas == 2 {
			return syscall.EIO
		}
		return nil
	}}), filestore.WithWarnings(func(string, error) {}))
	_, err := killed.Update(t.Context(), "run-0000", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.Equal(t, 2, metas)
	require.True(t, list(t, lister, snapshot.Filter{})[0].Pinned)
	require.True(t, list(t, s, snapshot.Filter{})[0].Pinned)
}

// A writingDisk can refuse to write to a file that already existed.
type writingDisk struct {
	filestore.Disk
	write func(name string) error
}

func (d writingDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.OpenToWrite(name)
	return writingFile{f, d}, err
}

type writingFile struct {
	filestore.DiskFile
	disk writingDisk
}

func (f writingFile) WriteAt(data []byte, offset int64) (int, error) {
	if err := f.disk.write(filepath.Base(f.Name())); err != nil {
		return 0, err
	}
	return f.DiskFile.WriteAt(data, offset)
}
