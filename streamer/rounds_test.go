package streamer_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// tally is the ResponseWriter of a client that reads everything immediately.
type tally struct {
	header  http.Header
	body    bytes.Buffer
	writes  int
	flushes int
	flushed func()
}

func (w *tally) Header() http.Header { return w.header }
func (w *tally) WriteHeader(int)     {}

func (w *tally) Write(p []byte) (int, error) {
	w.writes++
	return w.body.Write(p)
}

func (w *tally) FlushError() error {
	w.flushes++
	if w.flushed != nil {
		w.flushed()
	}
	return nil
}

func (w *tally) events() int { return strings.Count(w.body.String(), "\ndata: ") }

// watching starts n clients that follow the stream of all runs until leave is called. It must be
// called in a synctest bubble.
func watching(t *testing.T, n int) (h *streamer.Handler, clients []*tally, leave func()) {
	t.Helper()
	h, err := streamer.New(nil, streamer.Options{Clients: n})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	for range n {
		w := &tally{header: make(http.Header)}
		clients = append(clients, w)
		serving.Go(func() {
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
			req.RemoteAddr, req.Host = "127.0.0.1:4711", "localhost"
			h.ServeHTTP(w, req)
		})
	}
	synctest.Wait()
	return h, clients, func() {
		cancel()
		serving.Wait()
		require.NoError(t, h.Close(t.Context()))
	}
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // by the clock of a bubble
	synctest.Wait()
}

func TestEventsThatComeTogetherAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, clients, leave := watching(t, 1)
		defer leave()
		w := clients[0]
		f := newFeed("r", h.Publish)
		before := w.writes
		f.open()
		f.log(30)
		pass(time.Millisecond)
		assert.Equal(t, 31, w.events(), "after a quiet period, events are not delayed")
		assert.Equal(t, before+1, w.writes)
		f.log(10)
		pass(time.Millisecond)
		f.log(10)
		pass(4 * time.Millisecond)
		assert.Equal(t, 51, w.events())
		assert.Equal(t, before+2, w.writes)
	})
}

func TestManyClientsAreWrittenToInLongerRounds(t *testing.T) {
	const events = 100 // one each millisecond
	for n, round := range map[int]int{1: 5, 500: 5, 2000: 20} {
		synctest.Test(t, func(t *testing.T) {
			h, clients, leave := watching(t, n)
			defer leave()
			f := newFeed("r", h.Publish)
			f.open()
			pass(time.Second)
			before := clients[n-1].flushes
			for range events {
				f.log(1)
				pass(time.Millisecond)
			}
			pass(time.Second)
			last := clients[n-1]
			assert.Equal(t, events+1, last.events())
			assert.InDelta(t, events/round, last.flushes-before, 2, "%d clients", n)
		})
	}
}

// TestEventBetweenTwoWaitsIsDelivered checks an event that arrives while the only client is busy
// and that no other event follows.
func TestEventBetweenTwoWaitsIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, clients, leave := watching(t, 1)
		defer leave()
		w := clients[0]
		f := newFeed("r", h.Publish)
		more := 10
		w.flushed = func() {
			if more > 0 {
				more--
				f.publish(record.Record{Kind: record.KindLog, Status: record.StatusRecorded})
			}
		}
		f.open()
		pass(time.Second)
		assert.Equal(t, 11, w.events())
		assert.Zero(t, more)
	})
}
