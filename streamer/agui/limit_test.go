package agui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

func TestClientThatExceedsALimitIsToldWhenToComeBack(t *testing.T) {
	for status, limits := range map[int]streamer.Options{
		http.StatusTooManyRequests:    {ClientsPerAddress: 1},
		http.StatusServiceUnavailable: {Clients: 1},
	} {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ready, served := make(chan string, 1), make(chan error, 1)
		go func() {
			o := service.Options{Store: memstore.New(), Streamer: limits, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}
			o.Runner.Grace = -1
			served <- service.Serve(ctx, o, func(r *runner.Runner) error {
				runner.Register(r, conversation.NewProgram(r.Store(), talking(nil)))
				return nil
			})
		}()
		var url string
		select {
		case url = <-ready:
		case err := <-served:
			require.FailNow(t, "the service has ended", "%v", err)
		}
		resp, err := http.Post(url+"agui/assistant", "application/json", strings.NewReader(say("a", "wait")))
		require.NoError(t, err)
		_, err = read(t, resp.Body, func(e event) bool { return e.Type != "TEXT_MESSAGE_CONTENT" })
		require.NoError(t, err)
		for path, method := range map[string]string{"agui/assistant": "POST", "chat/assistant": "POST", "chat/assistant/a/stream": "GET"} {
			req, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
			require.NoError(t, err)
			refused, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, refused.Body.Close())
			assert.Equal(t, status, refused.StatusCode, path)
			assert.NotEmpty(t, refused.Header.Get("Retry-After"), path)
		}
		require.NoError(t, resp.Body.Close())
		cancel()
		require.NoError(t, <-served)
	}
}
