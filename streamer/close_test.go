package streamer_test

import (
	"bufio"
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// stuck is a source that blocks until its context ends.
type stuck struct {
	*shelf
	asked chan struct{}
}

func (s stuck) Records(ctx context.Context, _ string, _ uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		s.asked <- struct{}{}
		<-ctx.Done()
		yield(record.Record{}, context.Cause(ctx))
	}
}

func TestCloseStopsASourceThatDoesNotAnswer(t *testing.T) {
	source := stuck{newShelf(), make(chan struct{}, 1)}
	newFeed("r", source.put).open()
	h, err := streamer.New(source, streamer.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	w := connect(t, server.URL+"/events?run=r", "")
	<-source.asked
	require.NoError(t, h.Close(t.Context()))
	_, err = io.ReadAll(w.lines)
	require.NoError(t, err)
}

// unread requests a path and never reads the response.
func unread(t *testing.T, server *httptest.Server, path string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(1 << 10)
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
}

// blocked returns once a write from the handler to a client is blocked.
func blocked(t *testing.T, writing *sync.Map) {
	t.Helper()
	for since := time.Now(); ; {
		stalled := false
		writing.Range(func(_, begun any) bool {
			stalled = stalled || time.Since(begun.(time.Time)) > 200*time.Millisecond
			return true
		})
		if stalled {
			return
		}
		require.Less(t, time.Since(since), time.Minute)
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nothing signals that a write blocks
	}
}

// watched records the writes that have begun but not ended.
type watched struct {
	http.ResponseWriter
	writing *sync.Map
}

func (w watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w watched) Write(p []byte) (int, error) {
	w.writing.Store(w, time.Now())
	defer w.writing.Delete(w)
	return w.ResponseWriter.Write(p)
}

func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			h, err := streamer.New(nil, streamer.Options{WriteTimeout: time.Hour})
			require.NoError(t, err)
			var writing sync.Map
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				assert.Equal(t, proto, req.Proto)
				h.ServeHTTP(watched{w, &writing}, req)
			}))
			if proto == "HTTP/2.0" {
				server.EnableHTTP2 = true
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			f := newFeed("r", h.Publish)
			f.open()
			for range 5000 {
				f.publish(record.Record{Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Message: strings.Repeat("x", 4000)}})
			}
			if proto == "HTTP/2.0" {
				resp, err := server.Client().Get(server.URL + "/events?run=r")
				require.NoError(t, err)
				defer resp.Body.Close()
				_, err = bufio.NewReader(resp.Body).ReadString('\n')
				require.NoError(t, err)
			} else {
				unread(t, server, "/events?run=r")
			}
			blocked(t, &writing)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, h.Close(ctx))
			assert.Zero(t, h.Stats().Clients)
		})
	}
}
