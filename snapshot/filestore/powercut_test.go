package filestore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A traced run is stored on a powerDisk. After each change, the run is checked in
// the worlds that a power cut may leave.
type traced struct {
	t      *testing.T
	disk   *powerDisk
	random *rand.Rand
	most   int // about how many worlds are checked after each change
	dir    string
	seen   map[seenWorld]bool

	appended, promised int // numbers of records of the run
	status             map[snapshot.Status]bool
	fork               int    // number of records of a fork; 0 before it is created
	forked             bool   // the fork was confirmed
	posted, pinned     bool   // were confirmed
	queued             bool   // the run is created as queued, and queued again later
	created            bool   // the creation was confirmed
	last               string // the latest change
	cutAgain           int    // the power is cut a second time in one out of this many worlds
	again              bool   // true after the second power cut
	seconds            int    // number of worlds found after a second power cut
}

// A seenWorld identifies a world and what was confirmed before the power cut that left it.
type seenWorld struct {
	world  uint64
	ledger [7]int
}

func (tr *traced) cut(what string) {
	tr.last = what
	tr.disk.worlds(tr.most, tr.random, tr.look)
}

func (tr *traced) look(w world) {
	bit := map[bool]int{true: 1}
	key := seenWorld{w.key(), [7]int{tr.appended, tr.promised, len(tr.status), bit[tr.forked], bit[tr.posted], bit[tr.pinned], bit[tr.created]}}
	if tr.seen[key] {
		return
	}
	tr.seen[key] = true
	again := !tr.again && tr.random.IntN(tr.cutAgain) == 0
	if !again && !testkit.Sampled(len(tr.seen)) {
		return
	}
	w.write(tr.t, tr.dir)
	defer func() {
		if tr.t.Failed() {
			tr.t.Logf("after %s; %d appended, %d confirmed:\n%v", tr.last, tr.appended, tr.promised, w)
		}
	}()
	tr.check(tr.dir)
	if again {
		tr.openAndCut(w)
	}
}

// openAndCut opens the run in a world, and cuts the power while the run is being written.
func (tr *traced) openAndCut(w world) {
	t := tr.t
	second := *tr
	second.again, second.seen, second.most, second.dir = true, make(map[seenWorld]bool), min(tr.most, 100), tr.dir+"2"
	second.status = map[snapshot.Status]bool{snapshot.StatusInterrupted: true, snapshot.StatusCancelled: true}
	maps.Copy(second.status, tr.status)
	root := tr.dir + "1"
	w.write(t, root)
	s := newFileStore(t, root, filestore.WithWarnings(func(string, error) {}))
	found, err := s.Load(t.Context(), "run")
	if err != nil {
		return // nothing was confirmed
	}
	second.appended, second.promised = found.Len()+1, found.Len()
	second.disk = newPowerDisk(root, func(string) {})
	for name, data := range w {
		node := &inode{isDir: data == nil, data: slices.Clone(data), disk: data, parts: make(map[int][][]byte)}
		second.disk.now[name], second.disk.durable[name] = node, node
	}
	second.disk.cut = second.cut
	s = newFileStore(t, root, filestore.WithDisk(second.disk), filestore.WithWarnings(func(string, error) {}), filestore.WithCompactFrom(100))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(uint64(second.appended), 1)...))
	filestore.WaitForCompaction(j)
	require.NoError(t, closeAs(j, snapshot.StatusCancelled))
	second.promised = second.appended
	second.cut("closed again")
	tr.seconds += len(second.seen)
}

// check checks the run that was found, and continues it.
func (tr *traced) check(dir string) {
	t := tr.t
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	run, err := s.Load(t.Context(), "run")
	if tr.promised == 0 && !tr.created && errors.Is(err, snapshot.ErrNotFound) {
		return
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, run.Len(), tr.promised)
	require.LessOrEqual(t, run.Len(), tr.appended)
	requireStored(t, run, run.Len())
	require.True(t, tr.status[run.Status], "%s", run.Status)
	if tr.pinned {
		require.True(t, run.Pinned)
	}
	info, err := s.Info(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, run.Info, info)
	for _, listed := range list(t, s, snapshot.Filter{}) {
		require.True(t, listed.RunID != "run" || listed.Status == run.Status, "%s, listed as %s", run.Status, listed.Status)
	}
	if tr.posted {
		waiting, err := s.Messages(t.Context(), "run")
		require.NoError(t, err)
		require.Len(t, waiting, 1)
	}
	fork, err := s.Load(t.Context(), "fork")
	if tr.forked || !errors.Is(err, snapshot.ErrNotFound) {
		require.NoError(t, err)
		requireStored(t, fork, tr.fork)
	}
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	requireStored(t, j.Restored(), run.Len())
	require.NoError(t, j.Append(storetest.Records(uint64(run.Len())+1, 1)...))
	require.NoError(t, closeAs(j, snapshot.StatusFailed))
	run, err = s.Load(t.Context(), "run")
	require.NoError(t, err)
	requireStored(t, run, j.Restored().Len()+1)
}

// allow sets the statuses that are allowed for the run from now on, and checks all worlds again.
func (tr *traced) allow(what string, statuses ...snapshot.Status) {
	tr.status = make(map[snapshot.Status]bool)
	for _, s := range statuses {
		tr.status[s] = true
	}
	tr.cut(what)
}

func (tr *traced) live() {
	t := tr.t
	tr.status = map[snapshot.Status]bool{snapshot.StatusInterrupted: true}
	s := newFileStore(t, tr.disk.root, filestore.WithDisk(tr.disk), filestore.WithCompactFrom(int64(1000+tr.random.IntN(3000))), filestore.WithCompactAtClose(int64(tr.random.IntN(2)*1<<20)))
	before := snapshot.StatusInterrupted
	if tr.queued {
		run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
		require.NoError(t, err)
		tr.allow("before it is created", snapshot.StatusQueued)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		tr.created, before = true, snapshot.StatusQueued
	}
	for _, end := range []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted, snapshot.StatusFailed} {
		tr.allow("before it is opened", before, snapshot.StatusInterrupted)
		j := begin(t, s)
		tr.allow("opened", snapshot.StatusInterrupted)
		for range 3 + tr.random.IntN(4) {
			n := 1 + tr.random.IntN(3)
			if tr.random.IntN(5) == 0 {
				n = 12 // enough for several sectors
			}
			batch := storetest.Records(uint64(tr.appended)+1, n)
			tr.appended += n
			require.NoError(t, j.Append(batch...))
			filestore.WaitForCompaction(j)
			if tr.random.IntN(3) == 0 {
				require.NoError(t, j.Sync(t.Context(), uint64(tr.appended)))
				tr.promised = tr.appended
				tr.cut("synced")
			}
		}
		tr.allow("before it is closed", end, snapshot.StatusInterrupted)
		require.NoError(t, closeAs(j, end))
		tr.promised = tr.appended
		tr.allow("closed", end)
		before = end
		tr.meanwhile(s)
		if tr.queued && end == snapshot.StatusPaused {
			before = snapshot.StatusQueued
			tr.allow("before it is queued", end, before)
			_, err := s.Update(t.Context(), "run", func(info *snapshot.Info) error { info.Status = before; return nil })
			require.NoError(t, err)
			tr.allow("queued again", before)
		}
	}
}

// meanwhile does what other processes do with the run while it is closed.
func (tr *traced) meanwhile(s *filestore.Store) {
	t := tr.t
	switch {
	case !tr.posted:
		require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("waiting", "true")))
		tr.posted = true
	case !tr.pinned:
		_, err := s.Update(t.Context(), "run", func(info *snapshot.Info) error { info.Pinned = true; return nil })
		require.NoError(t, err)
		tr.pinned = true
	default:
		run, err := s.Load(t.Context(), "run")
		require.NoError(t, err)
		tr.fork = run.Len()
		fork, _, err := run.Extend()
		require.NoError(t, err)
		fork.RunID = "fork"
		_, err = s.Create(t.Context(), fork)
		require.NoError(t, err)
		tr.forked = true
	}
	tr.cut("confirmed")
}

// In every world that a power cut may leave, everything that was confirmed is there, and the run
// can be opened. The short form checks only a few worlds of two lives.
func TestNoPowerCutLosesConfirmedData(t *testing.T) {
	lives, most, cutAgain := 2, 15, 100
	if *long {
		lives, most, cutAgain = 30, 1500, 50
	}
	for life := range testkit.Seeds(uint64(lives)) {
		t.Run(fmt.Sprint("life ", life), func(t *testing.T) {
			t.Parallel()
			tr := &traced{
				t: t, queued: life%2 == 0, dir: filepath.Join(memoryDir(t), "world"), most: most, cutAgain: cutAgain, seen: make(map[seenWorld]bool),
				random: rand.New(rand.NewPCG(life, 7)),
			}
			tr.disk = newPowerDisk(memoryDir(t), tr.cut)
			tr.disk.together = life%4 < 2
			tr.live()
			t.Logf("%d records, %d worlds, and %d after a second cut", tr.appended, len(tr.seen), tr.seconds)
			require.Greater(t, len(tr.seen), 200)
			require.Greater(t, tr.seconds, 200)
		})
	}
}
