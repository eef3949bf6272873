package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// requireStored requires that a run has the records 1 to n as they were appended.
func requireStored(t testing.TB, run *snapshot.Run, n int) {
	t.Helper()
	require.Equal(t, n, run.Len())
	for i, r := range storetest.Records(1, n) {
		want, err := snapshot.AppendRecord(nil, &r)
		require.NoError(t, err)
		require.Equal(t, want, run.Encoded(uint64(i)+1), "record %d", i+1)
	}
}

// completedRun creates a completed run of 23 records. The last 3 are in a journal, the others in a
// snapshot.
func completedRun(t testing.TB) (s *filestore.Store, journal string) {
	t.Helper()
	dir := memoryDir(t)
	s = newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 20)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	j = begin(t, s)
	for seq := range uint64(3) {
		require.NoError(t, j.Append(storetest.Records(21+seq, 1)...))
	}
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	return s, filepath.Join(dir, "runs", "run", "00000002.journal")
}

func TestALostEndOfACompletedRunIsNoticed(t *testing.T) {
	t.Parallel()
	s, journal := completedRun(t)
	whole, err := os.ReadFile(journal)
	require.NoError(t, err)
	frames := filestore.Frames(whole)
	require.Len(t, frames, 5, "a header, three records, an end")
	end := len(framesAlone(t, whole))
	for size := range len(whole) {
		if !testkit.Sampled(size) {
			continue
		}
		require.NoError(t, os.WriteFile(journal, whole[:size], 0o600))
		run, err := s.Load(t.Context(), "run")
		if size >= end {
			require.NoError(t, err, "%d bytes contain all frames", size)
			require.Equal(t, snapshot.StatusCompleted, run.Status)
			requireStored(t, run, 23)
			continue
		}
		kept := uint64(20)
		for _, at := range frames[2:] {
			if int64(size) >= at {
				kept++
			}
		}
		var damage *snapshot.CorruptError
		require.ErrorAs(t, err, &damage, "%d bytes", size)
		require.Equal(t, kept, damage.LastSeq, "%d bytes", size)
		require.Equal(t, "00000002.journal", damage.File)
		_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "%d bytes", size)
	}
	require.NoError(t, os.WriteFile(journal, whole[:end-1], 0o600))
	report, err := s.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.True(t, report.IsWhole, "the end of the generation is lost, but the meta file has it")
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusCompleted, run.Status)
	requireStored(t, run, 23)
}

func TestRepairOfALostEndSaysHowMuchWasLost(t *testing.T) {
	for kept := range 3 {
		s, journal := completedRun(t)
		whole, err := os.ReadFile(journal)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(journal, filestore.Frames(whole)[kept+1]+5))
		report, err := s.Repair(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, uint64(20+kept), report.Kept)
		require.Equal(t, uint64(3-kept), report.Lost)
		require.False(t, report.IsWhole)
		run, err := s.Load(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusInterrupted, run.Status)
		require.False(t, run.Stop.Reason.ContinuesByItself(), "a runner would make the calls again whose outcomes were lost")
		require.Regexp(t, "^a repair has lost [123] records?: ", run.Stop.Message)
		requireStored(t, run, 20+kept)
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(uint64(kept)+21, 10)...))
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		run, err = s.Load(t.Context(), "run")
		require.NoError(t, err)
		requireStored(t, run, 30+kept)
	}
}

// The power was cut before the meta file said that the queued run had begun, and the beginning of
// the run's journal is damaged.
func TestRepairOfARunThatHadBegunDoesNotTakeItForQueued(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
	meta, journal := filepath.Join(dir, "runs", "run", "meta"), filepath.Join(dir, "runs", "run", "00000001.journal")
	queued, err := os.ReadFile(meta)
	require.NoError(t, err)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(t.Context(), 3))
	filestore.Abandon(j)
	require.NoError(t, os.WriteFile(meta, queued, 0o600))
	whole, err := os.ReadFile(journal)
	require.NoError(t, err)
	whole[30] ^= 1
	require.NoError(t, os.WriteFile(journal, whole, 0o600))

	report, err := s.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.NotNil(t, report.Damage)
	require.False(t, report.IsWhole)
	run, err = s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusInterrupted, run.Status)
}

func TestAMissingFileOfACompletedRunIsNoticed(t *testing.T) {
	for _, gone := range [][]string{{"00000002.journal"}, {"00000001.snapshot"}, {"00000001.snapshot", "00000002.journal"}} {
		s, journal := completedRun(t)
		for _, name := range gone {
			require.NoError(t, os.Remove(filepath.Join(filepath.Dir(journal), name)))
		}
		_, err := s.Load(t.Context(), "run")
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "%v", gone)
		_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "%v", gone)
	}
}

// After a crash, any part of the data that was not synced may be missing. But if a later frame says
// that the data was synced, missing data is damage.
func TestTornEndIsDistinguishedFromDamageByWhatWasSynced(t *testing.T) {
	dir := memoryDir(t)
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	j := begin(t, s)
	for seq := uint64(1); seq <= 12; seq++ {
		require.NoError(t, j.Append(storetest.Records(seq, 1)...))
		if seq == 4 || seq == 8 {
			require.NoError(t, j.Sync(t.Context(), seq))
		}
	}
	filestore.Abandon(j)
	journal := filepath.Join(dir, "runs", "run", "00000001.journal")
	whole, err := os.ReadFile(journal)
	require.NoError(t, err)
	frames := filestore.Frames(whole)
	require.Len(t, frames, 13, "a header, twelve records")
	for n, at := range frames {
		for _, change := range []struct {
			name string
			data []byte
		}{
			{"its length", flipped(whole, at+7)},
			{"its check", flipped(whole, at)},
			{"its first byte", flipped(whole, at+17)},
			{"a hole", slices.Concat(whole[:at], make([]byte, 40), whole[at+40:])},
		} {
			t.Run(fmt.Sprintf("frame %d, %s", n, change.name), func(t *testing.T) {
				require.NoError(t, os.WriteFile(journal, change.data, 0o600))
				run, torn, err := s.Verify(t.Context(), "run")
				if n <= 8 { // the frames of records 9 to 12 say that the earlier ones are on the disk
					var damage *snapshot.CorruptError
					require.ErrorAs(t, err, &damage)
					require.Equal(t, "00000001.journal", damage.File)
					require.Equal(t, uint64(max(0, n-1)), damage.LastSeq)
					return
				}
				require.NoError(t, err)
				require.Equal(t, snapshot.StatusInterrupted, run.Status)
				requireStored(t, run, n-1)
				require.Equal(t, &filestore.TornTail{File: "00000001.journal", Offset: at, Size: int64(len(whole)) - at}, torn)
			})
		}
	}
	require.NoError(t, os.WriteFile(journal, flipped(whole, frames[10]+3), 0o600))
	j = begin(t, s)
	require.Equal(t, frames[10], j.(*filestore.Journal).Torn().Offset)
	requireStored(t, j.Restored(), 9)
	require.NoError(t, j.Append(storetest.Records(10, 3)...))
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	run, torn, err := s.Verify(t.Context(), "run")
	require.NoError(t, err)
	require.Nil(t, torn)
	requireStored(t, run, 12)
}

// flipped returns data with one bit changed at an offset.
func flipped(data []byte, at int64) []byte {
	data = slices.Clone(data)
	data[at] ^= 1
	return data
}
