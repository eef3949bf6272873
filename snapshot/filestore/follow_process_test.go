package filestore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// follow follows the run up to the record with number last, and fails if a record is missing or
// appears twice.
func follow(ctx context.Context, s *filestore.Store, last uint64) error {
	want := uint64(1)
	for rec, err := range s.Follow(ctx, "run", snapshot.Cursor{}) {
		switch {
		case err != nil:
			return err
		case rec.Seq != want:
			return fmt.Errorf("record %d follows record %d", rec.Seq, want-1)
		case rec.Seq == last:
			return nil
		}
		want++
	}
	return nil
}

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"live": live, "churn": churn, "put": put, "follow": func(args ...string) error {
		last, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		s, err := filestore.New(args[0])
		if err != nil {
			return err
		}
		fmt.Println("following")
		return follow(context.Background(), s, last)
	}})
}

func TestFollowersMissNothingWhileTheWriterCompactsAllTheTime(t *testing.T) {
	last := uint64(4_000)
	if *long {
		last = 100_000
	}
	dir := memoryDir(t)
	writer := newFileStore(t, dir)
	j := begin(t, writer)
	require.NoError(t, j.Append(lines(1, 1)...))

	var following sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, s := range []*filestore.Store{writer, newFileStore(t, dir)} {
		following.Go(func() { assert.NoError(t, follow(ctx, s, last)) })
	}
	other := process.Start(t, process.Command(t, "follow", dir, strconv.FormatUint(last, 10)))
	other.Await("following")

	compactions, snapshots := 0, ""
	for seq := uint64(2); seq <= last; seq++ {
		require.NoError(t, j.Append(lines(seq, 1)...))
		if seq%20 != 0 {
			continue
		}
		if seq%200 == 0 {
			filestore.WaitForCompaction(j) // so that there are many compactions
		}
		filestore.Compact(j)
		if now := strings.Join(runFiles(t, dir), " "); now != snapshots {
			snapshots, compactions = now, compactions+1
		}
		if seq%(last/5) == 0 { // begin another generation now and then
			require.NoError(t, closeAs(j, snapshot.StatusPaused))
			j = begin(t, writer)
		}
	}
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	require.Zero(t, other.Wait())
	following.Wait()
	require.GreaterOrEqual(t, compactions, int(last/200))
	t.Logf("%d records, the files changed %d times", last, compactions)
}
