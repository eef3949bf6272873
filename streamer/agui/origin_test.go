package agui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/agui"
	"github.com/reprise-go/reprise/streamer/aisdk"
	"github.com/reprise-go/reprise/streamer/stored"
)

// A page in Options.Origins may read responses. A form-like request, which a browser sends without
// asking the server first, must not begin or stop a turn.
func TestPageOfAListedOriginCannotControl(t *testing.T) {
	store := memstore.New()
	dash, err := streamer.New(stored.New(store), streamer.Options{Origins: []string{"https://ops.example.com"}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, dash.Close(context.WithoutCancel(t.Context()))) }()
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	control, threads := service.NewControl(r), storedThreads{store: store}
	a, err := agui.New(dash, agui.Options{Threads: threads, Control: control, Program: "assistant"})
	require.NoError(t, err)
	defer a.Close()
	b, err := aisdk.New(dash, aisdk.Options{Threads: threads, Control: control, Program: "assistant"})
	require.NoError(t, err)
	defer b.Close()
	for name, c := range map[string]struct {
		handler http.Handler
		path    string
		body    string
	}{
		"a turn with AG-UI":         {a, "/", say("a", "hello")},
		"stop with AG-UI":           {a, "/a/stop", ""},
		"a turn with the AI SDK":    {b, "/", `{"id":"c","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`},
		"stop with the AI SDK":      {b, "/c/stop", ""},
		"an unknown path with POST": {b, "/c/d/e", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+c.path, strings.NewReader(c.body))
			req.RemoteAddr = "127.0.0.1:1234"
			req.Header.Set("Origin", "https://ops.example.com")
			req.Header.Set("Sec-Fetch-Site", "cross-site")
			req.Header.Set("Content-Type", "text/plain")
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, req)
			assert.Equal(t, http.StatusForbidden, w.Code)
			assert.Contains(t, w.Body.String(), "cross_origin")
		})
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/c", nil)
	req.RemoteAddr = "127.0.0.1:1234"
	req.Header.Set("Origin", "https://ops.example.com")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, req)
	assert.NotEqual(t, http.StatusForbidden, w.Code, "it may read")
}
