package service

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
)

// unread requests a path and reads no more than the beginning of the response.
func unread(t *testing.T, url, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
	return conn
}

// The service ends without an error even if a client does not read an output and a route's handler
// does not return.
func TestServiceEndsWithoutAnErrorAlthoughRequestsDoNot(t *testing.T) {
	begun := make(chan struct{})
	url, stop := served(t, Options{Routes: map[string]http.Handler{
		"GET /hooks/deaf": http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			close(begun)
			<-req.Context().Done()
		}),
	}}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("big", "", func(context.Context, ticket) (string, error) { return strings.Repeat("x", 20<<20), nil }))
		return nil
	})
	status, body := do(t, "POST", url+"api/runs", `{"program":"big","run_id":"big","input":{"text":""}}`)
	require.Equal(t, 201, status, body)
	until(t, url, "big", "run_completed")
	_, err := unread(t, url, "/api/runs/big/calls/big/output").Read(make([]byte, 1))
	require.NoError(t, err)
	unread(t, url, "/hooks/deaf")
	<-begun
	stop()
}
