package filestore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func TestFollowDoesNotTakeANamesakeForTheRun(t *testing.T) {
	store, err := filestore.New(t.TempDir(), filestore.WithPolling(time.Millisecond))
	require.NoError(t, err)
	begin := func(n int) *filestore.Journal {
		j, err := store.Open(t.Context(), "r", snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(lines(1, n)...))
		return j.(*filestore.Journal)
	}
	j := begin(5)
	var last error
	var got []uint64
	for rec, err := range store.Follow(t.Context(), "r", snapshot.Cursor{}) {
		if last = err; err != nil {
			break
		}
		if got = append(got, rec.Seq); rec.Seq == 5 {
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
			require.NoError(t, store.Delete(t.Context(), "r"))
			j = begin(9)
		}
	}
	require.ErrorIs(t, last, snapshot.ErrNotFound)
	assert.Len(t, got, 5)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

// The system may give the new run's files the inode numbers of the old run's files.
func TestFollowSeesThatARunIsReplacedByOneThatIsCompactedLikeIt(t *testing.T) {
	r := &changingRun{dir: t.TempDir()}
	writer := newFileStore(t, r.dir)
	d := &instantDisk{Disk: fastDisk{filestore.OSDisk}, do: func() {
		assert.NoError(t, writer.Delete(t.Context(), "run"))
		r.extend(t, writer, "new", 5, snapshot.StatusCompleted)
	}}
	store := newFileStore(t, r.dir, filestore.WithDisk(d), filestore.WithPolling(time.Millisecond))
	r.extend(t, writer, "old", 5, snapshot.StatusCompleted)
	for range 20 {
		for rec, err := range store.Follow(t.Context(), "run", snapshot.Cursor{}) {
			if err != nil {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
				break
			}
			if rec.Seq == 5 {
				d.at = d.steps + 1 // after the last read of the run's files
			}
		}
	}
}
