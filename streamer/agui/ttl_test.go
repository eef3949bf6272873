package agui_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

// TestStreamsEndWhenTheirTTLHasPassed signs a user out while streams are open.
func TestStreamsEndWhenTheirTTLHasPassed(t *testing.T) {
	var revoked atomic.Bool
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		o := service.Options{Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}
		o.Runner.Grace = -1
		o.Streamer.Authorize = func(*http.Request) (streamer.Access, error) {
			if revoked.Load() {
				return streamer.Access{}, streamer.ErrUnauthenticated
			}
			return streamer.Access{Principal: "ann", Control: true, TTL: 500 * time.Millisecond}, nil
		}
		served <- service.Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), talking(nil)))
			return nil
		})
	}()
	defer func() { cancel(); assert.NoError(t, <-served) }()
	url := <-ready
	client := http.Client{Timeout: 10 * time.Second}
	posted, err := client.Post(url+"agui/assistant", "application/json", strings.NewReader(say("a", "wait")))
	require.NoError(t, err)
	connected, err := client.Get(url + "chat/assistant/a/stream")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, connected.StatusCode)
	revoked.Store(true)
	for _, resp := range []*http.Response{posted, connected} {
		_, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the stream must be cut, so that the page reconnects")
		require.NoError(t, resp.Body.Close())
	}
	again, err := client.Get(url + "chat/assistant/a/stream")
	require.NoError(t, err)
	require.NoError(t, again.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, again.StatusCode)
}
