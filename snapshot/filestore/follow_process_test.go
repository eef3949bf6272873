package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// What the process that follows gets in its environment: a directory, and the
// number of the last record.
const followEnv = "REPRISE_FOLLOW"

// follow reads up to the last record, and fails at one that is missing or comes
// twice.
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

// TestMain follows a run in place of testing if it is told to.
func TestMain(m *testing.M) {
	dir, last, ok := strings.Cut(os.Getenv(followEnv), "\n")
	if !ok {
		os.Exit(m.Run())
	}
	n, err := strconv.ParseUint(last, 10, 64)
	var s *filestore.Store
	if err == nil {
		s, err = filestore.New(dir)
	}
	fmt.Println("following")
	if err == nil {
		err = follow(context.Background(), s, n)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
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
	other := exec.CommandContext(ctx, os.Args[0])
	other.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d", followEnv, dir, last))
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	said := bufio.NewScanner(out)
	require.True(t, said.Scan())

	compactions, snapshots := 0, ""
	for seq := uint64(2); seq <= last; seq++ {
		require.NoError(t, j.Append(lines(seq, 1)...))
		if seq%20 != 0 {
			continue
		}
		if seq%200 == 0 {
			filestore.WaitForCompaction(j) // so that there are many
		}
		filestore.Compact(j)
		if now := strings.Join(runFiles(t, dir), " "); now != snapshots {
			snapshots, compactions = now, compactions+1
		}
		if seq%(last/5) == 0 { // another generation now and then
			require.NoError(t, closeAs(j, snapshot.StatusPaused))
			j = begin(t, writer)
		}
	}
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
	for said.Scan() {
		assert.Fail(t, said.Text())
	}
	require.NoError(t, other.Wait())
	following.Wait()
	require.GreaterOrEqual(t, compactions, int(last/200))
	t.Logf("%d records, the files changed %d times", last, compactions)
}
