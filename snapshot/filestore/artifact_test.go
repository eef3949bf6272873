package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func artifactFile(dir, ref string) string {
	return filepath.Join(dir, "artifacts", ref[:2], ref[2:])
}

// age sets the modification times of all artifacts to a time in the past.
func age(t testing.TB, dir string, by time.Duration) {
	t.Helper()
	old := time.Now().Add(-by)
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "artifacts"), func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Chtimes(path, old, old)
	}))
}

func TestADamagedArtifactIsNotReturnedAndIsReplacedByPut(t *testing.T) {
	dir := t.TempDir()
	a, err := filestore.NewArtifacts(dir)
	require.NoError(t, err)
	ref, err := a.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	for _, damaged := range []string{"an oUtput", "", "an output and more"} {
		require.NoError(t, os.WriteFile(artifactFile(dir, ref), []byte(damaged), 0o600))
		_, err = a.Get(t.Context(), ref)
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.ErrorContains(t, err, ref)
	}
	_, err = a.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	got, err := a.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "an output", string(got))
}

func TestAnArtifactIsSyncedBeforePutReturnsAndWrittenOnce(t *testing.T) {
	disk := newCrashDisk(t.TempDir(), 1<<20)
	s := newFileStore(t, disk.root, filestore.WithDisk(disk))
	var refs []string
	for n := range 5 {
		before := len(disk.done)
		ref, err := s.Put(t.Context(), fmt.Appendf(nil, "output %d", n%3))
		require.NoError(t, err)
		refs = append(refs, ref)
		written := 0
		for _, op := range disk.done[before:] {
			if strings.HasPrefix(op, "write") {
				written++
			}
		}
		require.Equal(t, n < 3, written == 1, "%v", disk.done[before:])
		for name, world := range disk.worlds(t) {
			found, err := filestore.NewArtifacts(world)
			require.NoError(t, err)
			for _, ref := range refs {
				_, err = found.Get(t.Context(), ref)
				require.NoError(t, err, name)
			}
		}
	}
}

func TestAnArtifactThatIsNotStoredIsAnError(t *testing.T) {
	d := newFaultyDisk()
	dir := t.TempDir()
	s := newFileStore(t, dir, filestore.WithDisk(d))
	d.sync = func(string) error { return syscall.ENOSPC }
	_, err := s.Put(t.Context(), []byte("an output"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "artifacts"), func(path string, e os.DirEntry, err error) error {
		require.True(t, e.IsDir() || e.Name() == "lock", "%s was left", path)
		return err
	}))
}

func TestAnArtifactOfAnUnfinishedPutIsSyncedByTheNextPut(t *testing.T) {
	crash := newCrashDisk(t.TempDir(), 1<<20)
	d := newFaultyDisk()
	d.Disk = crash
	s := newFileStore(t, crash.root, filestore.WithDisk(d))
	for _, data := range []string{"one", "another"} {
		syncs := 0
		d.syncDir = func(string) error {
			if syncs++; syncs > 1 {
				return syscall.EIO
			}
			return nil
		}
		_, err := s.Put(t.Context(), []byte(data))
		require.ErrorIs(t, err, syscall.EIO)
		d.syncDir = func(string) error { return nil }
		ref, err := s.Put(t.Context(), []byte(data))
		require.NoError(t, err)
		for name, world := range crash.worlds(t) {
			found, err := filestore.NewArtifacts(world)
			require.NoError(t, err)
			_, err = found.Get(t.Context(), ref)
			require.NoError(t, err, name)
		}
	}
}

func TestGCRemovesWhatNoRunRefersTo(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	var refs []string
	for n := range 5 {
		ref, err := s.Put(t.Context(), fmt.Appendf(nil, "output %d", n))
		require.NoError(t, err)
		refs = append(refs, ref)
	}
	name := func(runID string, seq uint64, ref string) snapshot.Journal {
		j, err := s.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		r := storetest.Records(seq, 1)[0]
		r.Detail = &record.Detail{Artifact: ref}
		require.NoError(t, j.Append(r))
		return j
	}
	require.NoError(t, closeAs(name("closed", 1, refs[0]), snapshot.StatusCompleted))
	filestore.Abandon(name("crashed", 1, refs[1]))
	open := name("open", 1, refs[2])
	require.NoError(t, closeAs(name("deleted", 1, refs[3]), snapshot.StatusCompleted))
	require.NoError(t, s.Delete(t.Context(), "deleted"))
	leftover := artifactFile(dir, refs[4]) + ".1-1.tmp"
	require.NoError(t, os.WriteFile(leftover, nil, 0o600))

	removed, err := s.GC(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, removed, "the artifacts are too recent")
	age(t, dir, 2*time.Hour)
	_, err = s.Put(t.Context(), []byte("output 4")) // it is already stored, and becomes recent again
	require.NoError(t, err)
	garbage, err := s.Garbage(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, refs[3:4], garbage)
	require.FileExists(t, artifactFile(dir, refs[3]), "Garbage removes nothing")
	removed, err = s.GC(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.NoFileExists(t, leftover)
	for n, ref := range refs {
		_, err := s.Get(t.Context(), ref)
		if n == 3 {
			require.ErrorIs(t, err, snapshot.ErrNotFound)
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, closeAs(open, snapshot.StatusCompleted))
}

func TestGCRemovesNothingIfARunCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	ref, err := s.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	age(t, dir, time.Hour)
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusCompleted))
	name := filepath.Join(dir, "runs", "run", "00000001.snapshot")
	require.FileExists(t, name)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for kind, data := range map[error][]byte{
		snapshot.ErrFormat:  []byte("\x82\xa6format\xabreprise-run\xa7version\x02"),
		snapshot.ErrCorrupt: whole[:len(whole)-1],
	} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
		removed, err := s.GC(t.Context(), time.Minute)
		require.ErrorIs(t, err, kind)
		require.Zero(t, removed)
	}
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)
}

// A run that was replaced by a link is not listed, but may refer to any artifact.
func TestGCRemovesNothingIfARunIsALink(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	ref, err := s.Put(t.Context(), []byte("an artifact of a run"))
	require.NoError(t, err)
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	run := filepath.Join(dir, "runs", "run")
	require.NoError(t, os.Rename(run, filepath.Join(dir, "elsewhere")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), run))
	_, err = s.GC(t.Context(), -time.Hour)
	require.ErrorContains(t, err, "run run: ")
	require.ErrorContains(t, err, "it is a link")
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)
}

func TestGCKeepsArtifactsStoredAndRecordedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j := begin(t, s)
	const n = 60
	for k := range n {
		_, err := s.Put(t.Context(), fmt.Appendf(nil, "output %d", k))
		require.NoError(t, err)
	}
	age(t, dir, 2*time.Hour) // from earlier runs that were deleted
	var wait sync.WaitGroup
	wait.Go(func() {
		for k := range n {
			ref, err := s.Put(t.Context(), fmt.Appendf(nil, "output %d", k))
			if err != nil {
				t.Error(err)
				return
			}
			r := storetest.Records(uint64(k)+1, 1)[0]
			r.Detail = &record.Detail{Artifact: ref}
			if err := j.Append(r); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		_, err := s.GC(t.Context(), time.Hour)
		require.NoError(t, err)
	}
	wait.Wait()
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	sn := load(t, s, "run")
	require.Len(t, sn.Records, n)
	for _, r := range sn.Records {
		_, err := s.Get(t.Context(), r.Detail.Artifact)
		require.NoError(t, err)
	}
}

// A fork refers to the artifacts of its original. The fork was completed before the original was
// deleted.
func TestGCKeepsTheArtifactsOfAForkThatReplacesItsOriginal(t *testing.T) {
	for at := 1; ; at++ {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		ref, err := s.Put(t.Context(), []byte("an output"))
		require.NoError(t, err)
		age(t, dir, 2*time.Hour)
		rec := storetest.Records(1, 1)[0]
		rec.Detail = &record.Detail{Artifact: ref}
		j := begin(t, s)
		require.NoError(t, j.Append(rec))
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))

		isForked := false
		d := &instantDisk{Disk: fastDisk{filestore.OSDisk}, at: at, do: func() {
			isForked = true
			fork, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			fork.RunID = "a-fork"
			_, err = s.Create(t.Context(), fork)
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), "run"))
		}}
		_, err = newFileStore(t, dir, filestore.WithDisk(d)).GC(t.Context(), time.Hour)
		require.NoError(t, err)
		_, err = s.Get(t.Context(), ref)
		require.NoError(t, err, "forked at step %d", at)
		if !isForked {
			require.Greater(t, at, 2, "GC has read nothing")
			break
		}
	}
}
