package openai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// each publishes records to several publishers.
type each []state.Publisher

func (all each) Publish(r record.Record) {
	for _, p := range all {
		p.Publish(r)
	}
}

// The service quotes the key wherever it can, but the key must not appear anywhere afterwards.
func TestAPlantedKeyIsNowhere(t *testing.T) {
	bodies := []string{
		`{"error":{"message":"KEY","type":"KEY","code":"KEY","param":"KEY"}}`,
		`{"error":"KEY"}`, `[{"error":{"message":"KEY","status":"KEY"}}]`, `{"message":"KEY"}`, `{"detail":[{"msg":"KEY"}]}`,
		`<p>KEY</p>`, `KEY`, `{"error":{"metadata":{"raw":"KEY"},"message":"m"}}`, `{"choices":"KEY"}`, `{"choices":[{"finish_reason":"error","error":{"message":"KEY","code":"KEY"}}]}`,
		`{"status":"failed","error":{"message":"KEY","code":"KEY"}}`, `{"status":"KEY"}`,
		"data: {\"error\":{\"message\":\"KEY\",\"type\":\"KEY\",\"param\":\"KEY\"}}\n\n", "event: error\ndata: {\"message\":\"KEY\",\"code\":\"KEY\"}\n\n",
		"data: KEY\n\n", "data: {\"choices\":[{\"delta\":KEY\n\n", "event: KEY\ndata: {}\n\n",
		"data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"KEY\",\"message\":\"KEY\"}}}\n\n",
		"data: {\"type\":\"error\",\"code\":\"KEY\",\"message\":\"KEY\",\"param\":\"KEY\"}\n\n",
	}
	// The replies of the service. Only net/http sees the headers of a client that was passed to
	// WithClient.
	type answer struct {
		status int
		body   string
	}
	var reply atomic.Pointer[answer]
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req "+secret)
		w.Header().Set("Retry-After", "0 "+secret)
		w.WriteHeader(reply.Load().status)
		_, _ = io.WriteString(w, reply.Load().body)
	}))
	defer service.Close()

	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	var console, log bytes.Buffer
	dash, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	site := httptest.NewServer(dash)
	screen := printer.New(&console, printer.WithTerminal(func() (columns, rows int) { return 200, 50 }))
	lines := printer.NewLog(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	st, err := state.Open(t.Context(), store, "r", state.WithPublisher(each{dash, screen, lines}), state.WithPayloads())
	require.NoError(t, err)

	var mu sync.Mutex
	var emitted []live.Delta
	watched := live.Watch(live.Watch(live.Watch(st.Context(t.Context()), dash.PublishDelta), screen.PublishDelta), func(d live.Delta) {
		mu.Lock()
		defer mu.Unlock()
		emitted = append(emitted, d)
	})
	failures := 0
	for _, ctx := range []context.Context{st.Context(t.Context()), watched} {
		for _, api := range []openai.API{openai.Chat, openai.Responses} {
			for _, body := range bodies {
				for _, status := range []int{200, 400, 500} {
					reply.Store(&answer{status, strings.ReplaceAll(body, "KEY", secret)})
					for _, model := range []openai.Model{
						{Name: "m", APIKey: secret, BaseURL: service.URL, API: api},
						{Name: "m", Client: newClient(t, service.URL), API: api},
					} {
						_, err := model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(ctx, question)
						if err != nil {
							failures++
						}
						for e := err; e != nil; e = errors.Unwrap(e) {
							require.NotContains(t, fmt.Sprintf("%v %+v", e, e), secret, body)
						}
					}
				}
			}
		}
	}
	require.Greater(t, failures, 2*len(bodies))
	require.NoError(t, st.Close())

	resp, err := http.Get(site.URL + "/api/runs/r")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	require.NoError(t, screen.Close())
	require.NoError(t, dash.Close(t.Context()))
	site.Close()
	require.Contains(t, string(page), "[redacted]")
	require.Contains(t, console.String(), "[redacted]")
	require.Contains(t, log.String(), "[redacted]")
	require.NotEmpty(t, emitted)
	require.NotContains(t, string(page)+console.String()+log.String()+fmt.Sprint(emitted), secret)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), secret, path)
		return err
	}))
}
