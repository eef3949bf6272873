package snapshot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A crashDisk stops after so many operations, and knows what would be on the
// disk if the power went then.
type crashDisk struct {
	root string

	mu      sync.Mutex
	left    int // operations until it stops
	done    []string
	now     tree // as the system shows it
	durable tree // what has survived the power for certain
	removed tree // what was removed, and may be gone though nothing else is durable
}

// A tree is names, relative to the root; nil for directories.
type tree map[string]*content

type content struct {
	data   []byte
	synced int // how much of it is on the disk for certain
}

var errStopped = errors.New("the process has ended")

func newCrashDisk(root string, operations int) *crashDisk {
	return &crashDisk{root: root, left: operations, now: tree{}, durable: tree{".": nil}, removed: tree{}}
}

// step is one operation. It reports whether it is the one that was cut short.
func (d *crashDisk) step(format string, args ...any) (cut bool, err error) {
	if d.left < 0 {
		return false, errStopped
	}
	d.left--
	if d.left < 0 {
		return true, errStopped
	}
	d.done = append(d.done, fmt.Sprintf(format, args...))
	return false, nil
}

func (d *crashDisk) rel(name string) string {
	rel, err := filepath.Rel(d.root, name)
	if err != nil {
		panic(err)
	}
	return rel
}

func (d *crashDisk) Create(name string) (snapshot.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("create %s", d.rel(name)); err != nil {
		return nil, err
	}
	f, err := fastDisk{snapshot.OSDisk}.Create(name)
	if err != nil {
		return nil, err
	}
	c := new(content)
	d.now[d.rel(name)] = c
	return &crashFile{d, f, c, d.rel(name)}, nil
}

func (d *crashDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("rename %s to %s", d.rel(from), d.rel(to)); err != nil {
		return err
	}
	from, to = d.rel(from), d.rel(to)
	moved := tree{}
	for name, c := range d.now {
		if rest, ok := strings.CutPrefix(name, from); ok && (rest == "" || rest[0] == '/') {
			moved[to+rest] = c
			delete(d.now, name)
		}
	}
	maps.Copy(d.now, moved)
	return fastDisk{snapshot.OSDisk}.Rename(filepath.Join(d.root, from), filepath.Join(d.root, to))
}

func (d *crashDisk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("link %s to %s", d.rel(from), d.rel(to)); err != nil {
		return err
	}
	if err := (fastDisk{snapshot.OSDisk}).Link(from, to); err != nil {
		return err
	}
	d.now[d.rel(to)] = d.now[d.rel(from)]
	return nil
}

func (d *crashDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("remove %s", d.rel(name)); err != nil {
		return err
	}
	delete(d.now, d.rel(name))
	d.removed[d.rel(name)] = nil
	return fastDisk{snapshot.OSDisk}.Remove(name)
}

func (d *crashDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("mkdir %s", d.rel(name)); err != nil {
		return err
	}
	d.now[d.rel(name)] = nil
	return fastDisk{snapshot.OSDisk}.Mkdir(name)
}

// SyncDir makes the names in a directory durable, not what is below them.
func (d *crashDisk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("sync directory %s", d.rel(name)); err != nil {
		return err
	}
	dir := d.rel(name)
	inDir := func(name string, _ *content) bool { return filepath.Dir(name) == dir && name != "." }
	maps.DeleteFunc(d.durable, inDir)
	maps.DeleteFunc(d.removed, inDir)
	for name, c := range d.now {
		if inDir(name, c) {
			d.durable[name] = c
		}
	}
	return nil
}

type crashFile struct {
	disk *crashDisk
	file snapshot.DiskFile
	c    *content
	name string
}

func (f *crashFile) Write(data []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	cut, err := f.disk.step("write %d bytes to %s", len(data), f.name)
	if cut {
		data = data[:len(data)/2]
	} else if err != nil {
		return 0, err
	}
	f.c.data = append(f.c.data, data...)
	n, _ := f.file.Write(data)
	return n, err
}

func (f *crashFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.step("sync %s", f.name); err != nil {
		return err
	}
	f.c.synced = len(f.c.data)
	return nil
}

func (f *crashFile) Close() error { return f.file.Close() }

// worlds are the directories that may be found after the crash: with the
// names that are durable, with these but for what was removed since, or with
// all names; and of each file what was synced,
// half of the rest, or all of it. The process alone ending leaves the last.
func (d *crashDisk) worlds(t *testing.T) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.durable)
	maps.DeleteFunc(left, func(name string, _ *content) bool { _, gone := d.removed[name]; return gone })
	worlds := make(map[string]string)
	for names, found := range map[string]tree{"durable names": d.durable, "durable names but for removed ones": left, "all names": d.now} {
		for _, percent := range []int{0, 50, 100} {
			if len(left) == len(d.durable) && names == "durable names but for removed ones" || percent == 50 && names == "durable names" {
				continue // nothing new
			}
			dir := t.TempDir()
			for _, name := range slices.Sorted(maps.Keys(found)) { // a directory before what is in it
				path := filepath.Join(dir, name)
				if _, err := os.Stat(filepath.Dir(path)); err != nil {
					continue // its directory was lost
				}
				c := found[name]
				if c == nil {
					if err := os.Mkdir(path, 0o700); !errors.Is(err, fs.ErrExist) {
						require.NoError(t, err)
					}
					continue
				}
				n := c.synced + (len(c.data)-c.synced)*percent/100
				require.NoError(t, os.WriteFile(path, c.data[:n], 0o600))
			}
			worlds[fmt.Sprintf("%s, %d%% of the data", names, percent)] = dir
		}
	}
	return worlds
}

// A script is the life of a run: two generations, several compactions. It
// tells how many records were appended, for how many it was promised that
// they survive, and how the run stands.
type script struct {
	appended, promised int
	status             snapshot.Status
	err                error
}

func (sc *script) run(t *testing.T, disk snapshot.Disk, dir string) {
	s, err := snapshot.NewFileStore(dir, snapshot.WithDisk(disk), snapshot.WithCompactFrom(1500))
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

func (sc *script) generation(t *testing.T, s *snapshot.FileStore, end snapshot.Status) {
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	if err != nil {
		sc.err = err
		return
	}
	defer snapshot.Abandon(j)
	for range 14 {
		batch := storetest.Records(uint64(sc.appended)+1, 2)
		sc.appended += len(batch)
		if sc.err = j.Append(batch...); sc.err != nil {
			return
		}
		snapshot.WaitForCompaction(j) // so that operations come in the same order each time
		if sc.appended%4 != 0 {
			continue
		}
		if sc.err = j.Sync(uint64(sc.appended)); sc.err != nil {
			return
		}
		sc.promised = sc.appended
	}
	sc.status = end // it may be from here on
	if sc.err = j.Close(end); sc.err != nil {
		return
	}
	sc.promised = sc.appended
}

func TestNothingPromisedIsLostWhereverACrashStopsARun(t *testing.T) {
	whole := newCrashDisk(t.TempDir(), 1<<20)
	var sc script
	sc.run(t, whole, whole.root)
	require.NoError(t, sc.err)
	operations := len(whole.done)
	require.Greater(t, operations, 80)
	compactions := 0
	for _, op := range whole.done {
		if strings.HasSuffix(op, "to runs/run/snapshot") && strings.HasPrefix(op, "rename") {
			compactions++
		}
	}
	require.GreaterOrEqual(t, compactions, 3)

	for stop := range operations {
		d := newCrashDisk(t.TempDir(), stop)
		var sc script
		sc.run(t, d, d.root)
		if sc.err == nil {
			// Close survives what is only for List and compaction.
			require.GreaterOrEqual(t, stop, operations/2)
		}
		last := "nothing"
		if len(d.done) > 0 {
			last = d.done[len(d.done)-1]
		}
		for name, dir := range d.worlds(t) {
			t.Run(fmt.Sprintf("%d, after %s, %s", stop, last, name), func(t *testing.T) {
				sc.check(t, dir)
			})
		}
	}
}

// check looks at what a crash has left, and goes on with it.
func (sc *script) check(t *testing.T, dir string) {
	s := newFileStore(t, dir, snapshot.WithWarnings(func(string, error) {}))
	listed, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	sn, err := s.Load(t.Context(), "run")
	if errors.Is(err, snapshot.ErrNotFound) && sc.promised == 0 {
		require.Empty(t, listed)
		return
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(sn.Records), sc.promised)
	require.LessOrEqual(t, len(sn.Records), sc.appended)
	requireRecords(t, sn.Records, len(sn.Records))
	require.Len(t, listed, 1)
	require.Equal(t, sn.Info, listed[0])
	if sc.err == nil {
		require.Equal(t, snapshot.StatusCompleted, sn.Status)
	}
	require.Contains(t, []snapshot.Status{snapshot.StatusInterrupted, snapshot.StatusPaused, sc.status}, sn.Status)

	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, sn.Records, j.Restored().Records)
	require.Equal(t, sn.Generation+1, j.Restored().Generation)
	require.NoError(t, j.Append(storetest.Records(sn.LastSeq+1, 3)...))
	require.NoError(t, j.Close(snapshot.StatusFailed))
	after, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusFailed, after.Status)
	requireRecords(t, after.Records, len(sn.Records)+3)
	for _, name := range names(t, filepath.Join(dir, "runs", "run")) {
		require.NotEqual(t, ".tmp", filepath.Ext(name))
	}
}

// requireRecords requires the n records that storetest.Records makes.
func requireRecords(t *testing.T, got []core.Record, n int) {
	t.Helper()
	require.Len(t, got, n)
	want := storetest.Records(1, n)
	for i := range want {
		want[i].RunID = "run"
	}
	for i := range got {
		if got[i].Seq != want[i].Seq || got[i].Address != want[i].Address || !got[i].Time.Equal(want[i].Time) {
			require.Equal(t, want[i], got[i])
		}
	}
	if n > 0 {
		require.Equal(t, want[n-1], got[n-1])
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestNoRecordIsInAJournalBeforeThoseBeforeItAreOnTheDisk(t *testing.T) {
	crash := newCrashDisk(t.TempDir(), 1<<20)
	d := newFaultyDisk()
	d.Disk = crash
	s := newFileStore(t, crash.root, snapshot.WithDisk(d), snapshot.WithCompactFrom(1000))
	j := begin(t, s)
	var once sync.Once
	var begun atomic.Bool
	d.synced = func(name string) error {
		if name == "journal-00000001" && begun.Load() { // it is being sealed, and the run goes on
			once.Do(func() { require.NoError(t, j.Append(storetest.Records(21, 3)...)) })
		}
		return nil
	}
	begun.Store(true)
	require.NoError(t, j.Append(storetest.Records(1, 20)...))
	snapshot.WaitForCompaction(j)
	require.NoError(t, j.Append(storetest.Records(24, 1)...))
	for name, dir := range crash.worlds(t) {
		sn, err := newFileStore(t, dir).Load(t.Context(), "run")
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, len(sn.Records), 23, name)
	}
	crash.mu.Lock()
	require.NotContains(t, crash.now, "runs/run/journal-00000001")
	order := slices.Clone(crash.done)
	crash.mu.Unlock()
	sealed := slices.Index(order, "rename runs/run/journal-00000002.tmp to runs/run/journal-00000002")
	require.Positive(t, sealed)
	last := ""
	for _, op := range order[sealed:] {
		if strings.HasSuffix(op, "journal-00000001.tmp") && !strings.HasPrefix(op, "remove") {
			last = op
		}
		if strings.HasSuffix(op, "journal-00000002.tmp") && strings.HasPrefix(op, "write") {
			break
		}
	}
	require.Equal(t, "sync runs/run/journal-00000001.tmp", last, "%v", order[sealed:])
	require.NoError(t, j.Close(snapshot.StatusCompleted))
}
