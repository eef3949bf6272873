package runner_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// BenchmarkRuns starts runs of one call in a directory, with the default sync, and
// returns when all of them have ended: ns/op is the time of a run from Start to its
// end.
func BenchmarkRuns(b *testing.B) {
	for _, starters := range []int{1, 16} {
		b.Run(fmt.Sprint("starters=", starters), func(b *testing.B) {
			store, err := filestore.New(b.TempDir())
			require.NoError(b, err)
			var ended atomic.Int64
			all := make(chan struct{})
			r, err := runner.New(store, runner.Options{Observe: func(e runner.Event) {
				if e.Type == runner.EventEnded && e.Status == snapshot.StatusCompleted && ended.Add(1) == int64(b.N) {
					close(all)
				}
			}})
			require.NoError(b, err)
			program := runner.Register(r, echo)
			ctx := b.Context()
			var serving sync.WaitGroup
			serving.Go(func() { _ = r.Serve(ctx) })
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var starting sync.WaitGroup
			for range starters {
				starting.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if _, err := program.Start(ctx, fmt.Sprint("run-", i), word{"x"}, runner.StartOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			starting.Wait()
			<-all
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
