package openai_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkTurns runs an agent with many turns in a stored run. The model is called over HTTP.
func BenchmarkTurns(b *testing.B) {
	for _, turns := range []int{100, 300} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			var asked atomic.Int64
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				n := int(asked.Add(1))
				if n%turns == 0 {
					_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Done."},"finish_reason":"stop"}]}`)
					return
				}
				_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"f","arguments":"{\"n\":%d}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":5}}`, n, n)
			}))
			defer service.Close()
			tool := actors.NewTool("f", "F.", anyObject{}, func(context.Context, struct{ N int }) (string, error) { return strings.Repeat("x", 200), nil })
			llm := openai.Model{Name: "m", BaseURL: service.URL, HTTPClient: service.Client()}.LLM()
			agent := actors.NewAgent("assistant", llm, actors.WithTools(tool), actors.WithMaxTurns(turns))
			store, err := filestore.New(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			run := 0
			for b.Loop() {
				run++
				st, err := state.Open(b.Context(), store, fmt.Sprint(run))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := agent.Call(st.Context(b.Context()), actors.Ask("?")); err != nil {
					b.Fatal(err)
				}
				_ = st.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*turns), "µs/turn")
		})
	}
}
