package tests

import (
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// BenchmarkWatchedRun measures a run that is stored, printed, and shown on a page. The run's agent
// calls a tool a thousand times, and every fourth attempt of the tool fails. The time and the
// allocations are per record. Each retry adds three records.
func BenchmarkWatchedRun(b *testing.B) {
	for _, name := range []string{"stored", "watched"} {
		b.Run(name, func(b *testing.B) {
			ctx, records := b.Context(), uint64(0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				store, err := filestore.New(b.TempDir())
				require.NoError(b, err)
				options := []state.Option{state.WithSync(state.SyncNever)}
				dash, err := streamer.New(stored.New(store), streamer.Options{})
				require.NoError(b, err)
				if name == "watched" {
					options = append(options, state.WithPublisher(printer.New(io.Discard)), state.WithPublisher(dash))
				}
				st, err := state.Open(ctx, store, "run", options...)
				require.NoError(b, err)
				_, err = flakyAgent().Call(st.Context(ctx), order{"in"})
				require.NoError(b, err)
				require.NoError(b, st.Close())
				require.NoError(b, dash.Close(ctx))
				records += st.Report().Records
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(records), "allocs/record")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(records), "B/record")
		})
	}
}

// flakyAgent returns an agent that makes a thousand calls. Every fourth attempt fails, so every
// third call is retried.
func flakyAgent() actors.Agent[order, string] {
	n := 0
	tool, err := core.NewDefinition(core.Spec{
		Kind: record.KindTool, Name: "fetch", Retry: &core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay},
	}, func(_ context.Context, in order) (string, error) {
		if n++; n%4 == 0 {
			return "", core.Retryable(io.ErrUnexpectedEOF)
		}
		return in.Item, nil
	})
	if err != nil {
		panic(err)
	}
	return decorators.Agent("agent", "", func(ctx context.Context, in order) (string, error) {
		for range 1000 {
			if _, err := tool.Event().Execute(ctx, in); err != nil {
				return "", err
			}
		}
		return in.Item, nil
	})
}
