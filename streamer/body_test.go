package streamer_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// pipes is a listener whose connections are in memory and use the clock of synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// local is a connection from this machine.
type local struct{ net.Conn }

func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestBodyThatDoesNotComeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &control{}
		h, err := streamer.New(nil, streamer.Options{Control: c})
		require.NoError(t, err)
		defer func() { require.NoError(t, h.Close(t.Context())) }()
		newFeed("r", h.Publish).open()
		listener := make(pipes)
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
		served := make(chan error)
		go func() { served <- server.Serve(listener) }()
		defer func() {
			require.NoError(t, server.Close())
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		}()

		conn, there := net.Pipe()
		listener <- local{there}
		replies := bufio.NewReader(conn)
		post := func(body string) {
			_, err := io.WriteString(conn, "POST /api/runs/r/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"+body)
			require.NoError(t, err)
		}
		reply := func() (int, string) {
			resp, err := http.ReadResponse(replies, nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp.StatusCode, string(said)
		}
		post(`{"message":`)
		time.Sleep(29 * time.Second) //nolint:forbidigo // synctest
		_, err = io.WriteString(conn, `"x"}`)
		require.NoError(t, err)
		status, said := reply()
		require.Equal(t, 200, status, said)
		assert.Equal(t, "r by dashboard: x", c.cancelled)

		time.Sleep(time.Hour) //nolint:forbidigo // synctest: the time limit for the body does not apply to the next request
		*c = control{}
		began := time.Now()
		post(`{"message":"x"`)
		status, said = reply()
		assert.Equal(t, http.StatusRequestTimeout, status)
		assert.Contains(t, said, "did not arrive within 30s")
		assert.Equal(t, 30*time.Second, time.Since(began))
		_, err = replies.ReadByte()
		require.ErrorIs(t, err, io.EOF, "the connection is closed")
		assert.Equal(t, control{}, *c, "nothing was done")
	})
}
