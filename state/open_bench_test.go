package state_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkOpen measures the time it takes to open a run of 200,000 calls in a directory, and the
// memory that the open run needs. In one run, a single unfinished agent has made all calls. In the
// other, each of 20 agents called 100 agents, which made 100 calls each.
func BenchmarkOpen(b *testing.B) {
	for name, widths := range map[string][]int{"flat": {200_000}, "nested": {20, 100, 100}} {
		b.Run(name, func(b *testing.B) {
			store, err := filestore.New(b.TempDir())
			require.NoError(b, err)
			record200k(b, store, widths)
			before := heap()
			for b.Loop() {
				b.StopTimer()
				runtime.GC()
				b.StartTimer()
				st, err := state.Open(b.Context(), store, "run", state.WithSync(state.SyncNever))
				b.StopTimer()
				require.NoError(b, err)
				b.ReportMetric(float64(heap()-before)/1e6, "MB")
				require.NoError(b, st.Close())
				b.StartTimer()
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func record200k(b *testing.B, store *filestore.Store, widths []int) {
	b.Helper()
	st, err := state.Open(b.Context(), store, "run", state.WithSync(state.SyncNever))
	require.NoError(b, err)
	tool := testkit.Define(b, core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (string, error) { return "out", nil })
	var level func(ctx context.Context, widths []int) error
	level = func(ctx context.Context, widths []int) error {
		for i := range widths[0] {
			var err error
			if len(widths) == 1 {
				_, err = tool.Event().Execute(ctx, i)
			} else {
				agent := testkit.Define(b, core.Spec{Kind: record.KindAgent, Name: fmt.Sprint("agent", i)}, func(ctx context.Context, _ int) (int, error) { return 0, level(ctx, widths[1:]) })
				_, err = agent.Event().Execute(ctx, i)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	root := testkit.Define(b, core.Spec{Kind: record.KindAgent, Name: "root"}, func(ctx context.Context, _ int) (int, error) {
		if err := level(ctx, widths); err != nil {
			return 0, err
		}
		_, err := core.Await[string](ctx, "done?")
		return 0, err
	})
	_, err = root.Event().Execute(st.Context(b.Context()), 0)
	require.True(b, core.IsSuspension(err), "%v", err)
	require.NoError(b, st.Close())
}
