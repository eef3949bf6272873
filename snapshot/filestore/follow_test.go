package filestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// lines returns n log records with consecutive sequence numbers, starting at from.
func lines(from uint64, n int) (all []record.Record) {
	for i := range n {
		all = append(all, record.Record{
			Seq: from + uint64(i), Kind: record.KindLog, Status: record.StatusRecorded,
			Detail: &record.Detail{Message: "a line that takes some room, so that the journal outgrows the snapshot soon"},
		})
	}
	return all
}

func TestFollowYieldsEveryRecordOnceWhileAnotherWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer, err := filestore.New(dir)
	require.NoError(t, err)
	reader, err := filestore.New(dir)
	require.NoError(t, err)
	j, err := writer.Open(t.Context(), "r", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(lines(1, 10)...))

	const total = 20_000
	var writing sync.WaitGroup
	writing.Go(func() {
		seq := uint64(11)
		for seq <= total {
			n := int(min(7, total-seq+1))
			if !assert.NoError(t, j.Append(lines(seq, n)...)) {
				return
			}
			if seq += uint64(n); seq%2000 < 7 { // begin another generation now and then
				assert.NoError(t, closeAs(j, snapshot.StatusInterrupted))
				if j, err = writer.Open(context.WithoutCancel(t.Context()), "r", snapshot.OpenOptions{}); !assert.NoError(t, err) {
					return
				}
			}
		}
		assert.NoError(t, closeAs(j, snapshot.StatusCompleted))
	})
	next := uint64(4)
	for rec, err := range reader.Follow(t.Context(), "r", snapshot.Cursor{Seq: 3}) {
		require.NoError(t, err)
		require.Equal(t, next, rec.Seq)
		require.Equal(t, "r", rec.RunID)
		if next == total {
			break
		}
		next++
	}
	writing.Wait()
}

// The next journal gets its name before the current one is sealed.
func TestAFollowerThatBeginsWhileAJournalIsSealedMissesNothing(t *testing.T) {
	disk := newFaultyDisk()
	sealing, sealed := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	disk.sync = func(name string) error {
		if name == "00000001.journal" && armed.CompareAndSwap(true, false) {
			close(sealing)
			<-sealed
		}
		return nil
	}
	s := newFileStore(t, t.TempDir(), filestore.WithDisk(disk), filestore.WithCompactFrom(1000))
	j := begin(t, s)
	armed.Store(true)
	require.NoError(t, j.Append(storetest.Records(1, 20)...)) // starts a compaction
	<-sealing
	var got []record.Record
	for rec, err := range s.Follow(t.Context(), "run", snapshot.Cursor{}) {
		require.NoError(t, err)
		if got = append(got, rec); len(got) == 20 {
			require.NoError(t, j.Append(storetest.Records(21, 5)...))
			close(sealed)
			filestore.WaitForCompaction(j)
			require.NoError(t, j.Append(storetest.Records(26, 5)...))
		}
		if len(got) == 30 {
			break
		}
	}
	requireRecords(t, got, 30)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

func TestFollowEndsWithItsContext(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	j, err := store.Open(t.Context(), "r", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(lines(1, 1)...))
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	defer cancel(nil)
	var last error
	for _, err := range store.Follow(ctx, "r", snapshot.Cursor{}) {
		last = err
		cancel(enough)
	}
	require.ErrorIs(t, last, enough)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

func TestFollowReportsDamage(t *testing.T) {
	for name, test := range map[string]struct {
		change string
		at     int64 // in the frame
	}{
		"other bytes":        {"damage", 20},
		"another head":       {"damage", 2},
		"zeros":              {strings.Repeat("\x00", 300), 0},
		"zeros for its head": {strings.Repeat("\x00", 16), 0},
	} {
		t.Run(name, func(t *testing.T) { requireFollowNotices(t, test.change, test.at) })
	}
}

// requireFollowNotices requires Follow to report a synced frame that was changed before Follow read
// it.
func requireFollowNotices(t *testing.T, change string, at int64) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	only := func(runID string) (last error) {
		for _, err := range store.Follow(t.Context(), runID, snapshot.Cursor{}) {
			last = err
		}
		return last
	}
	require.ErrorIs(t, only("nope"), snapshot.ErrNotFound)
	require.Error(t, only("../x"))

	j, err := store.Open(t.Context(), "r", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(lines(1, 3)...))
	seen := 0
	var last error
	for _, err := range store.Follow(t.Context(), "r", snapshot.Cursor{}) {
		if last = err; err != nil {
			break
		}
		if seen++; seen == 3 { // damage the next frame, and append another
			files, err := filepath.Glob(filepath.Join(dir, "runs", "r", "*.journal"))
			require.NoError(t, err)
			newest := files[len(files)-1]
			require.NoError(t, j.Append(lines(4, 1)...))
			require.NoError(t, j.Sync(t.Context(), 4))
			data, err := os.ReadFile(newest)
			require.NoError(t, err)
			frames := filestore.Frames(data)
			f, err := os.OpenFile(newest, os.O_WRONLY, 0)
			require.NoError(t, err)
			last := frames[len(frames)-1]
			_, err = f.WriteAt([]byte(change[:min(len(change), len(framesAlone(t, data))-int(last+at))]), last+at)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, j.Append(lines(5, 1)...))
		}
	}
	_ = closeAs(j, snapshot.StatusInterrupted)
	var damage *snapshot.CorruptError
	require.ErrorAs(t, last, &damage)
	require.EqualValues(t, 3, damage.LastSeq)
}

func TestFollowNoticesThatTheRunWasDeleted(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	j, err := store.Open(t.Context(), "r", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(lines(1, 1)...))
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	var last error
	for _, err := range store.Follow(t.Context(), "r", snapshot.Cursor{}) {
		if last = err; err == nil {
			require.NoError(t, store.Delete(t.Context(), "r"))
		}
	}
	require.ErrorIs(t, last, snapshot.ErrNotFound)
}

func TestWatchYieldsRunsThatBegin(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened, seen := make(chan snapshot.Journal, 1), 0
	// The first run exists when Watch begins; the second begins while the event for the first is
	// being handled.
	begin := func(runID string) {
		j, err := store.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		opened <- j
	}
	begin("first")
	var last error
	for e, err := range store.Watch(ctx, snapshot.WatchOptions{}) {
		if last = err; err != nil {
			continue
		}
		switch seen++; e.Info.RunID {
		case "first":
			if e.Info.Open {
				require.NoError(t, closeAs(<-opened, snapshot.StatusCompleted))
				begin("second")
			}
		case "second":
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.GreaterOrEqual(t, seen, 2)
	require.NoError(t, closeAs(<-opened, snapshot.StatusCompleted))
}
