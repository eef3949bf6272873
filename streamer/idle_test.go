package streamer_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// With HTTP/2, a write deadline ends a stream even if nothing is being written.
func TestIdleStreamStaysOpenOverHTTP2(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{WriteTimeout: 2 * time.Second, Heartbeat: 4 * time.Second})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer func() { assert.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
	newFeed("r", h.Publish).open()
	resp, err := server.Client().Get(server.URL + "/events?run=r")
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	w := wrap(t, resp)
	for line := ""; line != ":\n"; { // the heartbeat
		line, err = w.lines.ReadString('\n')
		require.NoError(t, err)
	}
}
