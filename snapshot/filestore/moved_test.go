package filestore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
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

// moves are the things that a user may do to a run's directory while a process has the run open.
var moves = map[string]func(t testing.TB, dir string){
	"removed": func(t testing.TB, dir string) { require.NoError(t, os.RemoveAll(dir)) },
	"moved":   func(t testing.TB, dir string) { require.NoError(t, os.Rename(dir, aside(dir))) },
	"replaced": func(t testing.TB, dir string) {
		require.NoError(t, os.Rename(dir, aside(dir)))
		require.NoError(t, os.CopyFS(dir, os.DirFS(aside(dir))))
	},
}

func aside(dir string) string { return filepath.Join(filepath.Dir(filepath.Dir(dir)), "aside") }

// Whatever happens to the directory of an open run, the process that has the run open gets an
// error. A process that has since opened a run with the same ID keeps everything that it has
// stored.
func TestProcessThatLostItsDirectoryDoesNotAffectOthers(t *testing.T) {
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			quiet := filestore.WithWarnings(func(string, error) {})
			first := begin(t, newFileStore(t, dir, quiet))
			require.NoError(t, first.Append(storetest.Records(1, 3)...))
			require.NoError(t, first.Sync(t.Context(), 3))
			move(t, filepath.Join(dir, "runs", "run"))

			s := newFileStore(t, dir)
			second := begin(t, s)
			n := uint64(second.Restored().Len())
			require.NoError(t, second.Append(storetest.Records(n+1, 20)...))
			require.NoError(t, second.Sync(t.Context(), n+20))
			before := seen(t, filepath.Join(dir, "runs"))

			if err := first.Append(storetest.Records(4, 37)...); err == nil {
				filestore.Compact(first)
				filestore.WaitForCompaction(first)
				require.ErrorIs(t, first.Sync(t.Context(), 40), snapshot.ErrFenced)
			}
			<-first.Lost()
			require.ErrorIs(t, closeAs(first, snapshot.StatusCompleted), snapshot.ErrFenced)
			assert.Equal(t, before, seen(t, filepath.Join(dir, "runs")), "the first process has changed files of the second")

			require.NoError(t, second.Append(storetest.Records(n+21, 2)...))
			require.NoError(t, closeAs(second, snapshot.StatusPaused))
			run := load(t, s, "run")
			requireRecords(t, run.Records, int(n)+22)
			require.Equal(t, snapshot.StatusPaused, run.Status)
		})
	}
}

func TestAProcessThatLostItsDirectoryCannotClose(t *testing.T) {
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newFileStore(t, dir)
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 3)...))
			move(t, filepath.Join(dir, "runs", "run"))
			require.ErrorIs(t, closeAs(j, snapshot.StatusCompleted), snapshot.ErrFenced)
			require.ErrorIs(t, j.Sync(t.Context(), 3), snapshot.ErrFenced)
			run, err := s.Load(t.Context(), "run")
			if err != nil {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
			} else {
				require.Equal(t, snapshot.StatusInterrupted, run.Status)
			}
		})
	}
}

// A movingDisk calls move before one of the operations that change a file.
type movingDisk struct {
	filestore.Disk
	left *atomic.Int64 // operations before that
	move func()
}

func (d movingDisk) In(dir *os.Root, path string) filestore.Disk {
	return movingDisk{d.Disk.(filestore.DirOpener).In(dir, path), d.left, d.move}
}

func (d movingDisk) count() {
	if d.left.Add(-1) == 0 {
		d.move()
	}
}

func (d movingDisk) Create(name string) (filestore.DiskFile, error) {
	d.count()
	return d.Disk.Create(name)
}

func (d movingDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	d.count()
	return d.Disk.OpenToWrite(name)
}

func (d movingDisk) Rename(from, to string) error {
	d.count()
	return d.Disk.Rename(from, to)
}

func (d movingDisk) Remove(name string) error {
	d.count()
	return d.Disk.Remove(name)
}

// After a process has checked that the directory is still there, and before it creates, renames or
// removes a file in it, the directory may be moved, and another run may begin in its place.
func TestADirectoryIsMovedRightBeforeAFileIsChanged(t *testing.T) {
	uses := map[string]func(t *testing.T, s *filestore.Store){
		"open, compact and close": func(t *testing.T, s *filestore.Store) {
			j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
			if err != nil {
				return
			}
			if err := j.Append(storetest.Records(uint64(j.Restored().Len())+1, 10)...); err == nil {
				filestore.Compact(j)
				filestore.WaitForCompaction(j)
			}
			_ = closeAs(j, snapshot.StatusPaused)
		},
		"update": func(t *testing.T, s *filestore.Store) {
			_, _ = s.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Pinned = true; return nil })
		},
		"delete": func(t *testing.T, s *filestore.Store) { _ = s.Delete(t.Context(), "run") },
	}
	polls := filestore.WithPolling(time.Hour) // otherwise an open run soon creates and watches its inbox
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			for operation := int64(1); ; operation++ {
				dir := t.TempDir()
				s := newFileStore(t, dir)
				j := begin(t, s)
				require.NoError(t, j.Append(storetest.Records(1, 3)...))
				require.NoError(t, closeAs(j, snapshot.StatusPaused))

				runs := filepath.Join(dir, "runs")
				var left atomic.Int64
				var other snapshot.Journal
				var before map[string]string
				left.Store(operation)
				move := func() {
					moves["moved"](t, filepath.Join(runs, "run"))
					other = begin(t, newFileStore(t, dir, polls))
					require.NoError(t, other.Append(storetest.Records(1, 20)...))
					require.NoError(t, other.Sync(t.Context(), 20))
					before = seen(t, filepath.Join(runs, "run"))
				}
				quiet := filestore.WithWarnings(func(string, error) {})
				use(t, newFileStore(t, dir, filestore.WithDisk(movingDisk{fastDisk{filestore.OSDisk}, &left, move}), quiet, polls))
				if other == nil {
					require.Greater(t, operation, int64(1), "nothing was changed")
					break
				}
				assert.True(t, maps.Equal(before, seen(t, filepath.Join(runs, "run"))), "operation %d has changed files of the other run", operation)
				require.NoError(t, closeAs(other, snapshot.StatusPaused))
				requireRecords(t, load(t, newFileStore(t, dir), "run").Records, 20)
			}
		})
	}
}

// A directory that is moved back before the process has noticed still belongs to that process.
func TestAProcessWhoseDirectoryIsMovedBackContinues(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	run := filepath.Join(dir, "runs", "run")
	require.NoError(t, os.Rename(run, aside(run)))
	require.NoError(t, os.Rename(aside(run), run))
	require.NoError(t, j.Sync(t.Context(), 3))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	requireRecords(t, load(t, s, "run").Records, 3)
}

func TestFileStoreKeepsTheRulesForFencing(t *testing.T) {
	storetest.RunFencing(t, func(t *testing.T) (first, second snapshot.Store, takeAway func()) {
		dir := t.TempDir()
		quiet := filestore.WithWarnings(func(string, error) {})
		return newFileStore(t, dir, quiet), newFileStore(t, dir, quiet), func() { moves["replaced"](t, filepath.Join(dir, "runs", "run")) }
	})
}

// Even a process that stores nothing for a while notices that its directory is gone. Otherwise it
// could make a call that another process makes as well.
func TestWaitingProcessNoticesThatItsDirectoryIsGone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := begin(t, newFileStore(t, dir, filestore.WithPolling(time.Second)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "runs", "run")))
		<-j.Lost()
		require.ErrorIs(t, j.Append(storetest.Records(1, 1)...), snapshot.ErrFenced)
		require.ErrorIs(t, closeAs(j, snapshot.StatusCompleted), snapshot.ErrFenced)
	})
}

// A life is a process that has a run open.
type life struct {
	journal   snapshot.Journal
	restored  uint64
	confirmed atomic.Uint64 // the last record that Sync has confirmed
	ended     chan struct{}
}

// startLife opens the run, and then appends and syncs records until that fails or stop is closed.
// Each record contains the number of the life.
func startLife(t *testing.T, dir string, number int, moved *atomic.Int64, stop <-chan struct{}) *life {
	s := newFileStore(t, dir, filestore.WithCompactFrom(4<<10), filestore.WithWarnings(func(string, error) {}))
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true, Wait: true})
	require.NoError(t, err)
	l := &life{journal: j, restored: uint64(j.Restored().Len()), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		defer func() { _ = closeAs(j, snapshot.StatusPaused) }()
		for seq := l.restored + 1; ; seq++ {
			select {
			case <-stop:
				return
			default:
			}
			rec := storetest.Records(seq, 1)[0]
			rec.Name = owner(number, seq)
			before := moved.Load() // if the directory is moved later, the record may have been synced before that
			if err := j.Append(rec); err != nil {
				return
			}
			if err := j.Sync(t.Context(), seq); err != nil {
				return
			}
			if before%2 > 0 && moved.Load() == before {
				t.Errorf("life %d: record %d was confirmed while the directory was moved away", number, seq)
			}
			l.confirmed.Store(seq)
		}
	}()
	return l
}

func owner(life int, seq uint64) string { return fmt.Sprintf("life %d, record %d", life, seq) }

// TestDirectoriesAreMovedUnderLiveProcesses removes, moves, replaces and restores the directory of
// a run at any moment, while processes append to the run, compact it and close it. Confirmed
// records must be in the directory of their process, and no record number may be confirmed to two
// processes in the same directory.
func TestDirectoriesAreMovedUnderLiveProcesses(t *testing.T) {
	rounds := 60
	if *long {
		rounds = 5000
	}
	for round := range rounds {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		movedRound(t, random)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

func movedRound(t *testing.T, random *rand.Rand) {
	dir := t.TempDir()
	run := filepath.Join(dir, "runs", "run")
	stop := make(chan struct{})
	var lives []*life
	var homes []string // where the directory of each life is at the end
	for number := range 2 + random.IntN(3) {
		var moved atomic.Int64 // odd while the directory is moved away
		l := startLife(t, dir, number, &moved, stop)
		lives, homes = append(lives, l), append(homes, run)
		for until := l.restored + random.Uint64N(60); l.confirmed.Load() < until; {
			select {
			case <-l.ended:
				t.Fatalf("life %d has ended with its directory in place", number)
			default:
			}
		}
		away := filepath.Join(dir, fmt.Sprint("away", number))
		require.NoError(t, os.Rename(run, away))
		moved.Add(1)
		homes[number] = away
		switch random.IntN(4) {
		case 0: // the next life begins a new run
		case 1: // the next life continues in a copy
			<-l.ended
			require.NoError(t, os.CopyFS(run, os.DirFS(away)))
		case 2: // another process opens the run meanwhile
			var never atomic.Int64
			done := make(chan struct{})
			other := startLife(t, dir, 100+number, &never, done)
			for other.confirmed.Load() < other.restored+5 {
				select {
				case <-other.ended:
					t.Fatal("the other process has ended with its directory in place")
				default:
				}
			}
			close(done)
			<-other.ended
			requireLife(t, dir, "run", 100+number, other)
			require.NoError(t, os.RemoveAll(run))
			fallthrough
		case 3: // the directory is moved back
			moved.Add(1) // before it is moved back
			require.NoError(t, os.Rename(away, run))
			homes[number] = run
			for range random.IntN(3) { // a moment in which the process may notice the move
				_ = l.confirmed.Load()
			}
			_ = l.journal.Sync(t.Context(), 1)
			require.NoError(t, os.Rename(run, away))
			moved.Add(1)
			homes[number] = away
		}
	}
	close(stop)
	for number, l := range lives {
		<-l.ended
		home := filepath.Join(dir, fmt.Sprint("home", number), "runs")
		require.NoError(t, os.MkdirAll(home, 0o700))
		require.NoError(t, os.CopyFS(filepath.Join(home, "run"), os.DirFS(homes[number])))
		requireLife(t, filepath.Dir(home), "run", number, l)
	}
}

// requireLife checks that a directory has all records that were confirmed during a life.
func requireLife(t *testing.T, dir, runID string, number int, l *life) {
	t.Helper()
	found, err := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {})).Load(t.Context(), runID)
	require.NoError(t, err)
	confirmed := l.confirmed.Load()
	require.GreaterOrEqual(t, uint64(found.Len()), confirmed, "life %d", number)
	for rec, err := range found.RecordsAfter(l.restored) {
		require.NoError(t, err)
		if rec.Seq <= confirmed {
			requireOwner(t, rec, number)
		}
	}
}

func requireOwner(t *testing.T, rec record.Record, number int) {
	t.Helper()
	require.Equal(t, owner(number, rec.Seq), rec.Name)
}

// A program that keeps a shared lock on a run has locked the run, unlike a program that only checks
// the lock and holds it for a moment.
func TestALockThatIsSharedForLongIsHeld(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newFileStore(t, dir, filestore.WithPolling(time.Second))
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		lock := filepath.Join(dir, "runs", "run", "lock")
		release := filestore.ShareLock(t, lock)
		_, opened := s.Open(t.Context(), "run", snapshot.OpenOptions{})
		_, repaired := s.Repair(t.Context(), "run")
		for _, err := range []error{opened, repaired, s.Delete(t.Context(), "run")} {
			require.ErrorIs(t, err, snapshot.ErrLocked)
			require.EqualError(t, err, "snapshot: run run: another program holds a shared lock on "+lock+"; a writer needs an exclusive one")
		}
		release()
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))

		release = filestore.ShareLock(t, filepath.Join(dir, "runs", "run", "meta"))
		_, err := s.Update(t.Context(), "run", func(*snapshot.Info) error { return nil })
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		require.ErrorContains(t, err, "another program has the lock on "+filepath.Join(dir, "runs", "run", "meta"))
		release()
	})
}
