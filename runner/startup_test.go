package runner_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// BenchmarkStartWithParkedRuns measures how long Serve takes to start with a directory of parked
// runs. If REPRISE_PARKED is set, it also measures that number of runs. The directory is in an
// in-memory file system, if there is one.
func BenchmarkStartWithParkedRuns(b *testing.B) {
	sizes := []int{1000, 10_000}
	if n := numberFrom(b, "REPRISE_PARKED", 0); n > 0 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint("runs=", n), func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "parked") //nolint:usetesting // a directory in memory, if possible
			if err != nil {
				dir = b.TempDir()
			}
			b.Cleanup(func() { _ = os.RemoveAll(dir) })
			store, err := filestore.New(dir)
			require.NoError(b, err)
			sleeper := agent("wake", func(context.Context, word) (string, error) { return "", nil })
			r, err := runner.New(store, runner.Options{})
			require.NoError(b, err)
			program := runner.Register(r, sleeper)
			for i := range n {
				_, err := program.Start(b.Context(), fmt.Sprint("run-", i), word{"x"}, runner.StartOptions{At: time.Now().Add(time.Hour)})
				require.NoError(b, err)
			}
			for b.Loop() {
				r, err := runner.New(store, runner.Options{})
				require.NoError(b, err)
				runner.Register(r, sleeper)
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error)
				go func() { done <- r.Serve(ctx) }()
				for r.Stats().Parked < n {
					runtime.Gosched()
				}
				cancel()
				require.NoError(b, <-done)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/run")
		})
	}
}

// BenchmarkTrivialRuns measures runs that make one call, from Start to the end.
func BenchmarkTrivialRuns(b *testing.B) {
	store, err := filestore.New(b.TempDir())
	require.NoError(b, err)
	r, err := runner.New(store, runner.Options{Limit: 64})
	require.NoError(b, err)
	program := runner.Register(r, echo)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- r.Serve(ctx) }()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			info, err := program.Start(ctx, "", word{"x"}, runner.StartOptions{})
			if err == nil {
				_, err = r.Wait(ctx, info.RunID)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	cancel()
	require.NoError(b, <-done)
}
