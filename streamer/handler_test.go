package streamer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

func TestSmoke(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	st := state.New(state.WithRunID("r1"), state.WithPublisher(h))
	n := 0
	tool := decorators.Tool("flaky", "fails once", func(ctx context.Context, in map[string]string) (string, error) {
		if n++; n == 1 {
			return "", io.ErrUnexpectedEOF
		}
		return "ok", nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: 1e6}))
	_, err = tool.Call(st.Context(t.Context()), map[string]string{"q": "x"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	resp, err := http.Get(srv.URL + "/events?run=r1")
	require.NoError(t, err)
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		t.Log(sc.Text())
		if strings.Contains(sc.Text(), "run_completed") {
			break
		}
	}
	for _, p := range []string{"/api/runs", "/api/runs/r1", "/health", "/api/runs/nope", "/events?type=x"} {
		r, err := http.Get(srv.URL + p)
		require.NoError(t, err)
		b, _ := io.ReadAll(r.Body)
		var v any
		require.NoError(t, json.Unmarshal(b, &v))
		t.Log(r.Status, string(b))
	}
	require.NoError(t, h.Close(t.Context()))
}
