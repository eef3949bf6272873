package agui_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// BenchmarkDeliveries compares how many words a second reach 20 clients of one turn, which is
// over, by the stream of records and deltas, and by the protocol.
func BenchmarkDeliveries(b *testing.B) {
	const clients, steps = 20, 40
	look := actors.NewLLM("model", "", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		text := strings.Repeat("word ", 50)
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: text})
		m := actors.Assistant(text)
		if len(req.Messages) < 2*steps {
			m.ToolCalls = []actors.ToolCall{{ID: "c", Name: "nothing", Arguments: "{}"}}
		}
		return actors.Response{Message: m}, nil
	})
	url, _ := serve(b, memstore.New(), actors.NewAgent("assistant", look, actors.WithMaxTurns(2*steps)))
	post(b, url+"agui/assistant", say("a", "go"))
	var rates [2]float64
	for i, c := range []struct{ name, method, path, body, last string }{
		{"raw", http.MethodGet, "events?run=a-0001&deltas=true", "", "event: run_completed"},
		{"agui", http.MethodPost, "agui/assistant/connect", input("a", ""), `"outcome":{"type":"success"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var events atomic.Int64
			for b.Loop() {
				var readers sync.WaitGroup
				for range clients {
					readers.Go(func() { events.Add(deliver(b, c.method, url+c.path, c.body, c.last)) })
				}
				readers.Wait()
			}
			rates[i] = float64(events.Load()) / b.Elapsed().Seconds()
			b.ReportMetric(rates[i], "events/s")
			if i == 1 {
				b.ReportMetric(rates[1]/rates[0], "of-raw")
			}
		})
	}
}

// deliver reads a stream until its last event, and returns how many there were.
func deliver(b *testing.B, method, url, body, last string) (events int64) {
	req, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
	require.NoError(b, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "data: ") {
			events++
		}
		if strings.HasSuffix(line, last) {
			return events
		}
	}
	return events
}
