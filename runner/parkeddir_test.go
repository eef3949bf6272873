package runner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// numberFrom returns the number in an environment variable, or byDefault if it is not set.
func numberFrom(t testing.TB, name string, byDefault int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// TestParkedRunsOfADirectoryWakeInTheirOrder starts with a directory of parked runs. REPRISE_PARKED
// sets the number of runs, and TMPDIR sets where the directory is.
func TestParkedRunsOfADirectoryWakeInTheirOrder(t *testing.T) {
	n := numberFrom(t, "REPRISE_PARKED", 100)
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	const apart = 10 * time.Millisecond                // short, so that few other timers fire in between
	due := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC) // a minute after a synctest bubble's clock begins
	left := newRunner(t, store, runner.Options{})
	program := runner.Register(left, echo)
	began := time.Now()
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		at := due.Add(time.Duration(at) * apart)
		_, err := program.Start(t.Context(), fmt.Sprintf("run-%06d", i), word{at.Format(time.RFC3339Nano)}, runner.StartOptions{At: at})
		require.NoError(t, err)
	}
	t.Logf("started %d runs in %v", n, time.Since(began))

	synctest.Test(t, func(t *testing.T) {
		store, err := filestore.New(dir, filestore.WithPolling(1000*24*time.Hour)) // long, since each poll reads all runs
		require.NoError(t, err)
		woken := make([]time.Duration, 0, n) // how late each run began
		r := newRunner(t, store, runner.Options{Limit: 1, SweepEvery: 1000 * 24 * time.Hour})
		runner.Register(r, agent("echo", func(_ context.Context, in word) (string, error) {
			at, err := time.Parse(time.RFC3339Nano, in.Text)
			woken = append(woken, time.Since(at))
			return "", err
		}))
		before := heap()
		stop := serve(t, r)
		synctest.Wait()
		require.Equal(t, n, r.Stats().Parked)
		t.Logf("%d bytes of memory per run", (heap()-before)/n)
		sleep(time.Minute + time.Duration(n)*apart)
		require.NoError(t, stop())
		require.Len(t, woken, n)
		for i, late := range woken {
			assert.Zero(t, late, "run %d of %d", i, n)
		}
		assert.EqualValues(t, n, r.Stats().Completed)
	})
}
