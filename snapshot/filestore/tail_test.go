package filestore_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// recordsAfter returns the numbers of the records that Records yields, and the error that it
// yields.
func recordsAfter(t testing.TB, s snapshot.Reader, after uint64) (seqs []uint64, last error) {
	t.Helper()
	for rec, err := range s.Records(t.Context(), "run", after) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, rec.Seq)
	}
	return seqs, nil
}

func TestTheEndOfARunIsReadWithoutTheRest(t *testing.T) {
	t.Parallel()
	disk := &countingDisk{Disk: fastDisk{filestore.OSDisk}}
	dir := memoryDir(t)
	s := newFileStore(t, dir, filestore.WithDisk(disk))
	const n = 20_000
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, n)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	require.True(t, hasSnapshot(t, dir))
	size := int64(0)
	for _, name := range runFiles(t, dir) {
		info, err := os.Stat(filepath.Join(dir, "runs", "run", name))
		require.NoError(t, err)
		size += info.Size()
	}
	for after, most := range map[uint64]int64{n - 10: size / 20, n: size / 20, n + 5: size / 20, n / 2: size * 6 / 10, 0: size + size/20} {
		disk.read.Store(0)
		seqs, err := recordsAfter(t, s, after)
		require.NoError(t, err)
		require.Len(t, seqs, int(n-min(after, n)))
		assert.Less(t, disk.read.Load(), most, "after record %d", after)
	}
	disk.read.Store(0)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	for rec, err := range s.Follow(ctx, "run", snapshot.Cursor{Seq: n - 1}) {
		if err != nil {
			require.ErrorIs(t, err, errLooked)
			break
		}
		require.EqualValues(t, n, rec.Seq)
		stop(errLooked)
	}
	assert.Less(t, disk.read.Load(), size/10, "a follower")

	// Damage is an error only if the damaged part is read.
	snapshotFile := ""
	for _, name := range runFiles(t, dir) {
		if filepath.Ext(name) == ".snapshot" {
			snapshotFile = filepath.Join(dir, "runs", "run", name)
		}
	}
	data, err := os.ReadFile(snapshotFile)
	require.NoError(t, err)
	for _, at := range []int64{30, int64(len(data)) * 9 / 10, int64(len(data)) - 6} {
		require.NoError(t, os.WriteFile(snapshotFile, flipped(data, at), 0o600))
		seqs, err := recordsAfter(t, s, n/2)
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "byte %d", at)
		for i, seq := range seqs {
			require.EqualValues(t, n/2+1+i, seq)
		}
	}
}

func TestTheEndOfARunIsReadFromItsJournals(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, run string){
		"as they are":  func(*testing.T, string) {},
		"a torn end":   func(t *testing.T, run string) { appendTo(t, newest(t, run), "torn") },
		"no meta file": func(t *testing.T, run string) { require.NoError(t, os.Remove(filepath.Join(run, "meta"))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			s := newFileStore(t, dir)
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 50)...))
			require.NoError(t, closeAs(j, snapshot.StatusPaused)) // makes a snapshot
			j = begin(t, s)
			defer filestore.Abandon(j)
			for n := range uint64(100) {
				require.NoError(t, j.Append(storetest.Records(51+n, 1)...))
			}
			change(t, filepath.Join(dir, "runs", "run"))
			for after := range uint64(160) {
				seqs, err := recordsAfter(t, s, after)
				require.NoError(t, err)
				require.Len(t, seqs, int(150-min(after, 150)), "after %d", after)
				if len(seqs) > 0 {
					require.Equal(t, after+1, seqs[0])
				}
			}
		})
	}
}

func newest(t *testing.T, run string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(run, "*.journal"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// appendTo writes text after the frames of a journal, in place of the zeros.
func appendTo(t *testing.T, name, text string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(framesAlone(t, data), text...), 0o600))
}

// Wherever the damage is, Records yields only records of the run, and yields an error if requested
// records are missing.
func TestRecordsAgreesWithLoadAboutADamagedRun(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	s := newFileStore(t, dir)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 30)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	j = begin(t, s)
	for n := range uint64(10) {
		require.NoError(t, j.Append(storetest.Records(31+n, 1)...))
		require.NoError(t, j.Sync(t.Context(), 31+n))
	}
	filestore.Abandon(j)
	step := int64(23)
	if *long {
		step = 1
	}
	for _, name := range runFiles(t, dir) {
		file := filepath.Join(dir, "runs", "run", name)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if filepath.Ext(name) == ".journal" {
			data = framesAlone(t, data)
		}
		for at := int64(0); at < int64(len(data)); at += step {
			require.NoError(t, os.WriteFile(file, flipped(data, at), 0o600))
			run, loadErr := s.Load(t.Context(), "run")
			for _, after := range []uint64{0, 25, 35} {
				seqs, err := recordsAfter(t, s, after)
				for i, seq := range seqs {
					require.Equal(t, after+1+uint64(i), seq)
				}
				where := fmt.Sprintf("%s, byte %d, after %d: %v, %v", name, at, after, err, loadErr)
				if loadErr == nil {
					require.NoError(t, err, where)
					require.Len(t, seqs, int(run.LastSeq-min(after, run.LastSeq)), where)
				} else if err == nil {
					require.Len(t, seqs, int(40-after), where)
				}
			}
		}
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
}

// A gapDisk lists a directory as the system may list it while a compaction adds a snapshot and
// removes a journal: the listing contains neither of these files.
type gapDisk struct {
	filestore.Disk
	hidden []string // names that the next listing leaves out
}

func (d *gapDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := d.Disk.ReadDir(name)
	if filepath.Base(name) == "run" {
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(d.hidden, e.Name()) })
		d.hidden = nil
	}
	return entries, err
}

func TestRecordsAreNotMissedInADirectoryThatChangesWhileItIsListed(t *testing.T) {
	t.Parallel()
	disk := &gapDisk{Disk: fastDisk{filestore.OSDisk}}
	dir := memoryDir(t)
	s := newFileStore(t, dir, filestore.WithDisk(disk))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 50)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused)) // makes snapshot 1
	j = begin(t, s)
	defer filestore.Abandon(j)
	require.NoError(t, j.Append(storetest.Records(51, 10)...)) // into journal 2
	disk.hidden = []string{"00000002.journal"}
	seqs, err := recordsAfter(t, s, 0)
	require.NoError(t, err)
	require.Len(t, seqs, 60, "the first listing had only the snapshot")

	old := readRun(t, dir)["00000001.snapshot"]
	filestore.Compact(j)
	filestore.WaitForCompaction(j) // makes snapshot 2 and journal 3
	require.Equal(t, []string{"00000002.snapshot", "00000003.journal", "lock", "meta"}, runFiles(t, dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", "00000001.snapshot"), old, 0o600))
	disk.hidden = []string{"00000002.snapshot"}
	seqs, err = recordsAfter(t, s, 45)
	require.NoError(t, err)
	require.Len(t, seqs, 15, "the first listing had only the older snapshot and the empty journal")
}
