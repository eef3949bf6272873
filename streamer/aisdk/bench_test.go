package aisdk_test

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
	post(b, url+"chat/assistant", say("a", "go"))
	var rates [2]float64
	for i, c := range []struct{ name, path, last string }{
		{"raw", "events?run=a-0001&deltas=true", "run_completed"},
		{"aisdk", "chat/assistant/a/stream", "[DONE]"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var events atomic.Int64
			for b.Loop() {
				var readers sync.WaitGroup
				for range clients {
					readers.Go(func() { events.Add(deliver(b, url+c.path, c.last)) })
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
func deliver(b *testing.B, url, last string) (events int64) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
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
		if strings.HasSuffix(line, last) && !strings.HasPrefix(line, "data: {") {
			return events
		}
	}
	return events
}
