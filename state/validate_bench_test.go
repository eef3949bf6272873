package state_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkValidate validates runs whose agent has made many calls. The time for each call must not
// depend on the number of calls.
func BenchmarkValidate(b *testing.B) {
	for _, n := range []int{1_000, 30_000} {
		b.Run(fmt.Sprintf("calls=%d", n), func(b *testing.B) {
			store := memstore.New()
			agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) {
				for i := range n {
					if _, err := core.Step(ctx, "step", func(context.Context) (int, error) { return i, nil }); err != nil {
						return 0, err
					}
				}
				return n, nil
			})
			program := func(ctx context.Context) error {
				_, err := agent.Call(ctx, struct{}{})
				return err
			}
			st, err := state.Open(b.Context(), store, "r")
			require.NoError(b, err)
			require.NoError(b, program(st.Context(b.Context())))
			require.NoError(b, st.Close())
			b.ReportAllocs()
			for b.Loop() {
				found, err := state.Validate(b.Context(), store, "r", program)
				require.NoError(b, err)
				require.Empty(b, found)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/call")
		})
	}
}
