package streamer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// large is a Starter whose result is many times as large as the buffers of a connection.
type large struct{ streamer.Starter }

func (large) Result(context.Context, string) (streamer.Result, error) {
	return streamer.Result{Output: json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 24<<20)) + `"`)}, nil
}

// serveLarge serves a large response at /api/runs/r/result. The group waits for the requests, and
// the map holds the writes that have not ended.
func serveLarge(t *testing.T, proto string, o streamer.Options) (*streamer.Handler, *httptest.Server, *sync.WaitGroup, *sync.Map) {
	t.Helper()
	o.Starter = large{}
	h, err := streamer.New(nil, o)
	require.NoError(t, err)
	newFeed("r", h.Publish).open()
	var requests sync.WaitGroup
	var writing sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, proto, req.Proto)
		requests.Add(1)
		defer requests.Done()
		h.ServeHTTP(watched{w, &writing}, req)
	}))
	if proto == "HTTP/2.0" {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(func() { assert.NoError(t, h.Close(context.WithoutCancel(t.Context()))) })
	return h, server, &requests, &writing
}

// stall requests the large response and does not read it.
func stall(t *testing.T, server *httptest.Server, writing *sync.Map) {
	t.Helper()
	if server.EnableHTTP2 {
		resp, err := server.Client().Get(server.URL + "/api/runs/r/result")
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
	} else {
		unread(t, server, "/api/runs/r/result")
	}
	blocked(t, writing)
}

// ends reports an error if the requests do not end soon.
func ends(t *testing.T, requests *sync.WaitGroup) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		requests.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the request of the client that does not read has not ended")
	}
}

func TestClientThatDoesNotReadAResponseIsCutOff(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			_, server, requests, writing := serveLarge(t, proto, streamer.Options{WriteTimeout: time.Second})
			stall(t, server, writing)
			ends(t, requests)
		})
	}
}

func TestCloseEndsTheResponseToAClientThatDoesNotRead(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			h, server, requests, writing := serveLarge(t, proto, streamer.Options{WriteTimeout: time.Hour})
			stall(t, server, writing)
			require.NoError(t, h.Close(t.Context()))
			ends(t, requests)
		})
	}
}

func TestClientThatReadsSlowlyIsNotCutOff(t *testing.T) {
	const timeout = time.Second
	_, server, _, _ := serveLarge(t, "HTTP/1.1", streamer.Options{WriteTimeout: timeout})
	resp, err := server.Client().Get(server.URL + "/api/runs/r/result")
	require.NoError(t, err)
	defer resp.Body.Close()
	read, begun := int64(0), time.Now()
	for err == nil {
		var n int64
		n, err = io.CopyN(io.Discard, resp.Body, 256<<10)
		read += n
		<-time.After(25 * time.Millisecond)
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Greater(t, read, int64(24<<20))
	assert.Greater(t, time.Since(begun), 2*timeout, "the whole took longer than one write may")
}

// The write deadline of a response ends with the response: another handler may use the connection
// later.
func TestConnectionIsUsableAfterTheTimeOfAWrite(t *testing.T) {
	const timeout = 2 * time.Second
	h, err := streamer.New(nil, streamer.Options{WriteTimeout: timeout})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	server := httptest.NewServer(mux)
	defer server.Close()
	defer func() { assert.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	var client http.Client
	client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	for _, path := range []string{"/health", "/hello"} {
		resp, err := client.Get(server.URL + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		<-time.After(timeout + time.Second)
	}
}
