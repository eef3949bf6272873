package r3labs_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer/r3labs"
)

// subscribe reads a stream with the client of r3labs/sse until the given run ends.
func subscribe(t *testing.T, url, stream, until string, take func(*sse.Event)) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := sse.NewClient(url).SubscribeWithContext(ctx, stream, func(e *sse.Event) {
		take(e)
		if strings.HasPrefix(string(e.Event), "run_completed") && strings.Contains(string(e.Data), `"run_id":"`+until+`"`) {
			cancel()
		}
	})
	if ctx.Err() == nil {
		assert.NoError(t, err)
	}
}

// TestClientThatStalledIsEndedAndTheOthersContinue uses a client that never reads and has a real
// socket, so that the buffers of its connection fill up.
func TestClientThatStalledIsEndedAndTheOthersContinue(t *testing.T) {
	server := newServer()
	subscribed := make(chan struct{}, 2)
	server.OnSubscribe = func(string, *sse.Subscriber) { subscribed <- struct{}{} }
	guard := r3labs.Guard(server, 2*time.Second) // long enough for the other client, even on a busy machine
	gone := make(chan struct{})                  // closed when the stalled client's request ends
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		guard.ServeHTTP(w, req)
		if req.URL.Path == "/stalled" {
			close(gone)
		}
	}))
	defer site.Close()
	defer server.Close()
	p := newPublisher(t, server, r3labs.Options{Guard: guard, Queue: 50})

	stalled, err := net.Dial("tcp", site.Listener.Addr().String())
	require.NoError(t, err)
	defer stalled.Close()
	require.NoError(t, stalled.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprint(stalled, "GET /stalled?stream=runs HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)

	var reading sync.WaitGroup
	got, missed := 0, uint64(0)
	reading.Go(func() {
		subscribe(t, site.URL, "runs", "a", func(e *sse.Event) {
			if string(e.Event) != "gap" {
				got++
				return
			}
			missed += event{data: string(e.Data)}.decode(t).Missed
		})
	})
	<-subscribed
	<-subscribed
	large := strings.Repeat("x", 50<<10)
	over, records := time.After(time.Minute), uint64(0)
	for stalls := true; stalls; {
		records++
		p.Publish(logged("a", records, large)) // it never waits
		select {
		case <-gone:
			stalls = false
		case <-over:
			t.Fatalf("the client was not ended after %d records of 50 KB", records)
		case <-time.After(5 * time.Millisecond): // slow enough for the other client to keep up
		}
	}
	go func() { // repeats the last record, because any event may be lost
		for seq := records + 1; ; seq++ {
			p.Publish(ended("a", seq))
			select {
			case <-t.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	reading.Wait()
	assert.Positive(t, got)
	assert.LessOrEqual(t, records, uint64(got)+missed, "each event has arrived, or is counted in a gap")
}

func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct {
		name   string
		client bool
	}{{"nobody watches", false}, {"a client that does not read", true}} {
		b.Run(c.name, func(b *testing.B) {
			server := newServer()
			defer server.Close()
			p := newPublisher(b, server, r3labs.Options{})
			if c.client {
				_ = connect(b, server, "runs", "")
			}
			rec := logged("a", 1, "a line")
			b.ReportAllocs()
			for b.Loop() {
				p.Publish(rec)
			}
		})
	}
}

// TestLongEventReachesTheClientAsAPreview checks that the events after a long one arrive, too. If
// an event had more than 64 KB, the client of the library would reconnect forever.
func TestLongEventReachesTheClientAsAPreview(t *testing.T) {
	server := newServer()
	subscribed := make(chan struct{}, 1)
	server.OnSubscribe = func(string, *sse.Subscriber) { subscribed <- struct{}{} }
	guard := r3labs.Guard(server, 10*time.Second)
	site := httptest.NewServer(guard)
	defer site.Close()
	defer server.Close()
	p := newPublisher(t, server, r3labs.Options{Guard: guard})
	var reading sync.WaitGroup
	var got []string
	reading.Go(func() {
		subscribe(t, site.URL, "runs", "a", func(e *sse.Event) {
			assert.Less(t, len(e.Data), 64<<10)
			got = append(got, fmt.Sprintf("%s %v", e.Event, strings.Contains(string(e.Data), `"truncated":"the record is too long for an event"`)))
		})
	})
	<-subscribed
	p.Publish(began("a"))
	p.Publish(logged("a", 2, strings.Repeat("x", 70<<10)))
	p.Publish(logged("a", 3, strings.Repeat("x", 50<<10)))
	p.Publish(logged("a", 4, strings.Repeat("\n\"ü", 10<<20)))
	p.Publish(ended("a", 5))
	reading.Wait()
	assert.Equal(t, []string{"run_started false", "recorded true", "recorded false", "recorded true", "run_completed false"}, got)
	require.NoError(t, p.Close(t.Context()))
}
