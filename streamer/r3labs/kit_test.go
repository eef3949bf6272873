package r3labs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/r3labs"
)

// newServer returns a server that New accepts.
func newServer() *sse.Server {
	server := sse.New()
	server.AutoReplay = false
	return server
}

func newPublisher(t testing.TB, server *sse.Server, options r3labs.Options) *r3labs.Publisher {
	t.Helper()
	p, err := r3labs.New(server, options)
	require.NoError(t, err)
	return p
}

// newRecord returns a record of the given run with the number seq.
func newRecord(runID string, seq uint64, kind record.Kind, status record.Status) record.Record {
	return record.Record{RunID: runID, Seq: seq, Generation: 1, Time: time.Unix(int64(seq), 0).UTC(), Kind: kind, Status: status}
}

func began(runID string) record.Record {
	return newRecord(runID, 1, record.KindRun, record.StatusStarted)
}

func ended(runID string, seq uint64) record.Record {
	return newRecord(runID, seq, record.KindRun, record.StatusCompleted)
}

func logged(runID string, seq uint64, message string) record.Record {
	r := newRecord(runID, seq, record.KindLog, record.StatusRecorded)
	r.Detail = &record.Detail{Message: message}
	return r
}

// event is an event that a client has received.
type event struct {
	id, name, data string
}

func (e event) decode(t testing.TB) (body struct {
	RunID  string `json:"run_id"`
	Seq    uint64
	Missed uint64
},
) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(e.data), &body), e.data)
	return body
}

// client is a client that uses a handler without a network.
type client struct {
	header http.Header
	status int
	from   *bufio.Reader
	pipe   *io.PipeReader
	to     *io.PipeWriter
	cancel context.CancelFunc
	served sync.WaitGroup
}

// connect connects a client to a stream. The caller must read the events and call leave.
func connect(t testing.TB, h http.Handler, stream, lastEventID string) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?stream="+stream, nil)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	c := &client{header: make(http.Header), cancel: cancel}
	c.pipe, c.to = io.Pipe()
	c.from = bufio.NewReader(c.pipe)
	c.served.Go(func() {
		h.ServeHTTP(c, req)
		_ = c.to.Close()
	})
	return c
}

func (c *client) Header() http.Header         { return c.header }
func (c *client) WriteHeader(status int)      { c.status = status }
func (c *client) Write(p []byte) (int, error) { return c.to.Write(p) }
func (c *client) Flush()                      {}

// leave ends the connection, and waits until the handler has returned.
func (c *client) leave() {
	c.cancel()
	_ = c.pipe.Close()
	c.served.Wait()
}

// next reads the next event.
func (c *client) next(t testing.TB) (e event) {
	t.Helper()
	for {
		line, err := c.from.ReadString('\n')
		require.NoError(t, err)
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			return e
		}
	}
}
