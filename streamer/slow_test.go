package streamer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// TestClientThatNeverReadsDoesNotAffectOthers publishes 2,000 events a second to one client that
// never reads and five that do (twenty in the long form).
func TestClientThatNeverReadsDoesNotAffectOthers(t *testing.T) {
	const events = 3000
	clients := 5
	if *long {
		clients = 20
	}
	source := newShelf()
	h, server := serve(t, source, streamer.Options{WriteTimeout: 500 * time.Millisecond, History: 2 * events})
	f := newFeed("r", source.put, h.Publish)
	f.open()

	stalled, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer stalled.Close()
	_, err = fmt.Fprintf(stalled, "GET /events?run=r HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)

	var readers sync.WaitGroup
	var read atomic.Int64
	for range clients {
		readers.Go(func() {
			client := streamer.Client{URL: server.URL, Run: "r", HTTPClient: through(t)}
			next := uint64(1)
			for e, err := range client.Events(t.Context()) {
				if !assert.NoError(t, err) || !assert.Equal(t, next, number(t, e)) {
					return
				}
				if read.Add(1); next == events {
					return
				}
				next++
			}
		})
	}
	longest := time.Duration(0)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	text := strings.Repeat("x", 3000) // enough to fill the socket buffers of the client that never reads
	for n := 1; n < events; {
		<-tick.C
		for range 10 {
			before := time.Now()
			f.publish(record.Record{Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Message: text}})
			longest = max(longest, time.Since(before))
			if n++; n == events {
				break
			}
		}
	}
	readers.Wait()
	assert.EqualValues(t, clients*events, read.Load())
	t.Logf("the longest publish took %v", longest)

	// The stalled client is cut off after the write timeout. Until then, it has received whole
	// events. On a busy machine, clients that read may also have been cut off and have reconnected.
	for h.Stats().Clients > 0 {
		runtime.Gosched()
		require.NoError(t, t.Context().Err())
	}
	assert.Positive(t, h.Stats().SlowDisconnects)
	resp, err := http.ReadResponse(bufio.NewReader(stalled), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got []uint64
	last := readRest(t, resp, &got)
	require.NotEmpty(t, got)
	require.Less(t, len(got), events, "it was cut off in the middle")

	client := streamer.Client{URL: server.URL, Run: "r", HTTPClient: through(t), After: last}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if got = append(got, number(t, e)); len(got) == events {
			break
		}
	}
	assert.Equal(t, count(1, events), got, "without loss")
}

// readRest reads the complete events of a stream that was cut off.
func readRest(t testing.TB, resp *http.Response, got *[]uint64) (lastID string) {
	t.Helper()
	once := streamer.Client{
		URL: "http://stalled/", MaxDelay: time.Hour,
		HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return resp, nil })},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	once.Disconnected = func(error, time.Duration) { cancel() }
	for e, err := range once.Events(ctx) {
		if err != nil {
			break
		}
		*got, lastID = append(*got, number(t, e)), e.ID
	}
	return lastID
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClientThatFallsBehindWhatIsKeptIsCutOff(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{History: 4, WriteTimeout: time.Minute})
	f := newFeed("r", h.Publish)
	f.open()
	w := connect(t, server.URL+"/events?run=r", "")
	seqs(t, w, 1)
	for h.Stats().SlowDisconnects == 0 {
		f.log(100) // faster than clients are woken
	}
	for {
		if _, err := w.lines.ReadString('\n'); err != nil {
			break
		}
	}
}

func TestCloseEndsAThousandClientsAndLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	f := newFeed("r", h.Publish)
	f.open()

	const n = 1000
	var ended sync.WaitGroup
	for range n {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET /events?run=r HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		ended.Go(func() {
			defer conn.Close()
			buf := make([]byte, 1024)
			for err := error(nil); err == nil; {
				_, err = conn.Read(buf)
			}
		})
	}
	for h.Stats().Clients < n {
		runtime.Gosched()
		require.NoError(t, t.Context().Err())
	}
	refused, err := http.Get("http://" + listener.Addr().String() + "/events")
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	assert.Contains(t, []string{"3", "4", "5", "6", "7"}, refused.Header.Get("Retry-After"))
	require.NoError(t, refused.Body.Close())
	f.log(100)

	require.NoError(t, h.Close(t.Context()))
	require.NoError(t, h.Close(t.Context()), "twice is fine")
	assert.Zero(t, h.Stats().Clients)
	ended.Wait()
	f.log(1) // must have no effect
	require.NoError(t, server.Shutdown(t.Context()))
	serving.Wait()
	http.DefaultClient.CloseIdleConnections()
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
		require.NoError(t, t.Context().Err())
	}
}

func TestMemoryIsBoundedByTheHistory(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{History: 1000, Runs: 10})
	require.NoError(t, err)
	publish := func(events int) {
		big := &record.Detail{Output: make([]byte, 20<<10)} // only a preview is kept
		for n := range events {
			r := record.Record{RunID: fmt.Sprint("run-", n/3_000), Seq: uint64(n%3_000 + 1), Time: time.Unix(1, 0), Kind: record.KindLog, Status: record.StatusRecorded}
			if n%10 == 0 {
				r.Detail = big
			}
			h.Publish(r)
		}
	}
	publish(30_000)
	early := heap()
	more := 50_000
	if *long {
		more = 1_000_000
	}
	publish(more)
	late := heap()
	t.Logf("after 30,000 events %d KB, after %d more %d KB", early>>10, more, late>>10)
	assert.Less(t, late, early+4<<20)
	assert.EqualValues(t, 1000, h.Stats().HistoryKept)
	assert.LessOrEqual(t, h.Stats().Runs, 11)
	require.NoError(t, h.Close(t.Context()))
}

func TestCloseEndsAReplay(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(1000)
	h, err := streamer.New(endless{source}, streamer.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	w := connect(t, server.URL+"/events?run=r", "")
	seqs(t, w, 500)
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, w.lines) })
	require.NoError(t, h.Close(t.Context()))
	reading.Wait()
}

// endless is a source whose runs never end.
type endless struct{ *shelf }

func (e endless) Records(ctx context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for {
			for r := range e.shelf.Records(ctx, id, after) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}
