package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

// live opens and closes a run until its process is killed, and prints what the store has confirmed.
// Some generations append records that follow those of the previous generation, and some update the
// run.
func live(args ...string) error {
	ctx := context.Background()
	s, err := filestore.New(args[0], filestore.WithDisk(fastDisk{filestore.OSDisk}), filestore.WithCompactFrom(20_000))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := 0; ; n++ {
		j, err := s.Open(ctx, "run", snapshot.OpenOptions{Create: true, Wait: true})
		if err != nil {
			return err
		}
		last, generation := uint64(j.Restored().Len()), j.Restored().Generation
		fmt.Println("opened", generation, last, j.Restored().Status)
		for range n % 4 {
			if err := j.Append(storetest.Records(last+1, 1)...); err != nil {
				return err
			}
			last++
			if err := j.Sync(ctx, last); err != nil {
				return err
			}
			fmt.Println("synced", generation, last)
		}
		if n%3 == 0 {
			if _, err := s.Update(ctx, "run", func(i *snapshot.Info) error {
				i.Metadata.Description = fmt.Sprint(generation)
				return nil
			}); err != nil {
				return err
			}
			fmt.Println("updated", generation, last)
		}
		end := []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted, snapshot.StatusFailed}[n%3]
		if err := j.Close(ctx, snapshot.End{Status: end}); err != nil {
			return err
		}
		fmt.Println("closed", generation, last, end)
	}
}

// No matter when a process is killed, nothing that was confirmed is lost, and no two generations
// have the same number.
func TestNoKillLosesConfirmedData(t *testing.T) {
	kills := 15
	if *long {
		kills = 400
	}
	dir := memoryDir(t)
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	random := rand.New(rand.NewPCG(3, 4))
	generation, last, updated := uint64(0), uint64(0), uint64(0)
	reading, stop := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() { read <- readAsItGrows(reading, s) }()
	for n := range kills {
		cmd := process.Command(t, "live", dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		// On a busy machine, this time may pass before the process has opened the run. So for every
		// second process, the time counts from the opening.
		var kill *time.Timer
		after, from := time.Duration(random.Int64N(int64(40*time.Millisecond))), []string{"ready", "opened"}[n%2]
		status := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f := strings.Fields(lines.Text())
			if kill == nil && f[0] == from {
				kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			}
			if f[0] == "ready" {
				continue
			}
			var g, l uint64
			_, err := fmt.Sscan(f[1]+" "+f[2], &g, &l)
			require.NoError(t, err)
			if f[0] == "opened" {
				require.Greater(t, g, generation, "kill %d: two generations have the same number", n)
				require.GreaterOrEqual(t, l, last)
				generation = g
			}
			last = l
			if f[0] == "updated" {
				updated = g
			}
			status = ""
			if f[0] == "closed" {
				status = f[3]
			}
		}
		_ = cmd.Wait()
		require.NotNil(t, kill, "the process was not killed, but ended")
		kill.Stop()
		if generation == 0 {
			continue
		}
		run, err := s.Load(t.Context(), "run")
		require.NoError(t, err, "kill %d", n)
		require.False(t, run.Open)
		require.GreaterOrEqual(t, uint64(run.Len()), last)
		last = uint64(run.Len())
		requireStored(t, run, run.Len())
		if status != "" && run.Generation == generation {
			require.Equal(t, status, string(run.Status))
		}
		described := uint64(0)
		_, _ = fmt.Sscan(run.Metadata.Description, &described)
		require.GreaterOrEqual(t, described, updated)
		info, err := s.Info(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, run.Info, info)
		require.Equal(t, []snapshot.Info{run.Info}, list(t, s, snapshot.Filter{}))
	}
	stop()
	require.ErrorIs(t, <-read, context.Canceled)
	t.Logf("%d generations, %d records", generation, last)
	require.GreaterOrEqual(t, generation, uint64(kills/2))
}

// readAsItGrows reads the run in several ways until ctx ends, and requires that the numbers of
// records and generations that it finds never decrease.
func readAsItGrows(ctx context.Context, s *filestore.Store) error {
	last, generation := uint64(0), uint64(0)
	for n := 0; ; n++ {
		var info snapshot.Info
		var err error
		switch n % 3 {
		case 0:
			var run *snapshot.Run
			if run, err = s.Load(ctx, "run"); err == nil {
				info = run.Info
			}
		case 1:
			info, err = s.Info(ctx, "run")
		case 2:
			var page snapshot.Page
			page, err = s.List(ctx, snapshot.Filter{})
			if len(page.Runs) == 0 {
				continue
			}
			info = page.Runs[0]
			info.LastSeq = max(info.LastSeq, last) // List may show a smaller number for an open run
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case strings.Contains(fmt.Sprint(err), "no run run"):
			continue
		case err != nil:
			return err
		case info.LastSeq < last || info.Generation+1 < generation: // the last generation may not have begun
			return fmt.Errorf("read %d: generation %d with %d records after generation %d with %d", n%3, info.Generation, info.LastSeq, generation, last)
		}
		last, generation = info.LastSeq, info.Generation
	}
}
