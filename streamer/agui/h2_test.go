package agui_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestMessagesUseTheSameHTTP2Connection(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate
	defer other.Close()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		o := service.Options{Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }, TLS: &tls.Config{Certificates: other.TLS.Certificates}}
		served <- service.Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), talking(nil)))
			return nil
		})
	}()
	defer func() { cancel(); assert.NoError(t, <-served) }()
	url := <-ready
	var connections atomic.Int64
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: other.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			connections.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for i := range 5 {
		resp, err := client.Post(url+"agui/assistant", "application/json", strings.NewReader(input("a", "", user(fmt.Sprint(i)))))
		require.NoError(t, err)
		require.Equal(t, 2, resp.ProtoMajor)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.EqualValues(t, 1, connections.Load())
}
