package r3labs_test

import (
	"bufio"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer/r3labs"
)

// With HTTP/2, an expired write deadline ends a stream even if nothing is being written.
func TestIdleClientStaysConnectedOverHTTP2(t *testing.T) {
	server := newServer()
	const timeout = 2 * time.Second
	guard := r3labs.Guard(server, timeout)
	site := httptest.NewUnstartedServer(guard)
	site.EnableHTTP2 = true
	site.StartTLS()
	defer site.Close()
	defer server.Close()
	pub := newPublisher(t, server, r3labs.Options{Guard: guard})
	resp, err := site.Client().Get(site.URL + "/?stream=runs")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
	lines := bufio.NewReader(resp.Body)
	receive := func() {
		pub.Publish(began("r"))
		for line := ""; !strings.HasPrefix(line, "data:"); {
			line, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
	}
	receive()
	<-time.After(2 * timeout)
	receive()
}
