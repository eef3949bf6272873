package actors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkTurns measures the cost of a turn in conversations of different lengths. The cost must
// not depend on the number of earlier turns.
func BenchmarkTurns(b *testing.B) {
	for _, stored := range []bool{false, true} {
		for _, turns := range []int{100, 300, 900} {
			b.Run(fmt.Sprintf("stored=%v/turns=%d", stored, turns), func(b *testing.B) {
				result := strings.Repeat("x", 200)
				echo := decorators.Tool("echo", "", func(context.Context, number) (string, error) { return result, nil })
				llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
					if n := len(req.Messages) / 2; n < turns-1 {
						return asks(call("echo", fmt.Sprintf(`{"n":%d}`, n))), nil
					}
					return says("done"), nil
				})
				agent := actors.NewAgent("assistant", llm, actors.WithTools(echo), actors.WithMaxTurns(turns))
				b.ReportAllocs()
				for b.Loop() {
					st := state.New()
					if stored {
						var err error
						if st, err = state.Open(b.Context(), memstore.New(), "r"); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := agent.Call(st.Context(b.Context()), actors.Ask("?")); err != nil {
						b.Fatal(err)
					}
					if err := st.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*turns), "µs/turn")
			})
		}
	}
}
