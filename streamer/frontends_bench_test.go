package streamer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// BenchmarkFrontEnds measures how many events per second reach 20 clients of one turn, with the
// stream of records and deltas (raw) and with the protocol of each front end. In mode replay, the
// turn has ended; in mode live, the model writes words as fast as it can. The metric of-raw is the
// number of events per second divided by the number for raw in the same mode.
func BenchmarkFrontEnds(b *testing.B) {
	const clients = 20
	gate := make(chan struct{})
	url := serveWordy(b, gate)
	streams := []struct{ name, method, path, body, last string }{
		{"raw", http.MethodGet, "events?run=%s-0001&deltas=true", "", "event: run_completed"},
		{"agui", http.MethodPost, "agui/assistant/connect", `{"threadId":"%s","runId":"r","messages":[]}`, `"outcome":{"type":"success"}}`},
		{"aisdk", http.MethodGet, "chat/assistant/%s/stream", "", "data: [DONE]"},
	}
	threads := 0
	for _, mode := range []string{"replay", "live"} {
		var raw float64
		for _, s := range streams {
			b.Run(mode+"/"+s.name, func(b *testing.B) {
				var events atomic.Int64
				var took time.Duration
				for b.Loop() {
					threads++
					thread := fmt.Sprint("t", threads)
					turn := sayGo(b, url, thread)
					if mode == "replay" {
						gate <- struct{}{}
						turn.Wait()
					}
					var attached, done sync.WaitGroup
					attached.Add(clients)
					began := time.Now()
					for range clients {
						done.Go(func() {
							body := s.body
							if body != "" {
								body = fmt.Sprintf(body, thread)
							}
							path := s.path
							if strings.Contains(path, "%s") {
								path = fmt.Sprintf(path, thread)
							}
							events.Add(deliver(b, s.method, url+path, body, s.last, attached.Done))
						})
					}
					if mode == "live" {
						attached.Wait()
						began = time.Now()
						gate <- struct{}{}
					}
					done.Wait()
					took += time.Since(began)
					turn.Wait()
				}
				rate := float64(events.Load()) / took.Seconds()
				b.ReportMetric(rate, "events/s")
				b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms/turn")
				if s.name == "raw" {
					raw = rate
				}
				b.ReportMetric(rate/raw, "of-raw")
			})
		}
	}
}

// serveWordy serves an assistant whose turns consist of 40 steps of 50 words each. A turn begins
// when the gate receives a value.
func serveWordy(b *testing.B, gate <-chan struct{}) (url string) {
	const steps = 40
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if len(req.Messages) == 1 {
			<-gate
		}
		var text strings.Builder
		for range 50 {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "word "})
			text.WriteString("word ")
		}
		m := actors.Assistant(text.String())
		if len(req.Messages) < 2*steps {
			m.ToolCalls = []actors.ToolCall{{ID: "c", Name: "nothing", Arguments: "{}"}}
		}
		return actors.Response{Message: m}, nil
	})
	assistant := actors.NewAgent("assistant", model, actors.WithMaxTurns(2*steps))
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		o := service.Options{Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}
		served <- service.Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), assistant))
			return nil
		})
	}()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-served)
	})
	return <-ready
}

// sayGo begins a turn in a thread. Wait returns once the turn has ended.
func sayGo(b *testing.B, url, thread string) (turn *sync.WaitGroup) {
	body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"go"}]}]}`, thread)
	resp, err := http.Post(url+"chat/assistant", "application/json", strings.NewReader(body))
	require.NoError(b, err)
	in := bufio.NewReader(resp.Body)
	_, err = in.ReadString('\n')
	require.NoError(b, err)
	turn = new(sync.WaitGroup)
	turn.Go(func() {
		_, _ = io.Copy(io.Discard, in)
		_ = resp.Body.Close()
	})
	return turn
}

// deliver reads a stream until its last event and returns the number of events. It calls attached
// when the first event arrives.
func deliver(b *testing.B, method, url, body, last string, attached func()) (events int64) {
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
			if events++; events == 1 {
				attached()
			}
		}
		if strings.HasSuffix(line, last) {
			return events
		}
	}
	return events
}
