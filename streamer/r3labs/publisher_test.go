package r3labs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/r3labs"
)

// inBubble runs a test in a synctest bubble, with a server that is closed at the end of the test.
func inBubble(t *testing.T, test func(t *testing.T, server *sse.Server, guard *r3labs.Guarded)) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		defer server.Close()
		test(t, server, r3labs.Guard(server, time.Second))
	})
}

func TestEventsAreThoseOfTheHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{Guard: guard})
		all := connect(t, guard, "runs", "")
		defer all.leave()
		synctest.Wait()
		p.Publish(began("a"))
		assert.Equal(t, "run_started", all.next(t).name)
		synctest.Wait()                      // by now, the run's stream has sent the event, too
		one := connect(t, guard, "a", "1-1") // like a browser that reconnects
		defer one.leave()
		synctest.Wait()
		failed := newRecord("a", 2, record.KindTool, record.StatusFailed)
		failed.Name, failed.Err, failed.WillRetry = "get\nid: 7\n", errors.New("down\n\nevent: x"), true
		recovered := record.Record{RunID: "a", Kind: record.KindTool, Status: record.StatusRecovered, Replayed: true}
		for _, r := range []record.Record{failed, recovered, ended("a", 3)} {
			go p.Publish(r)
			synctest.Wait()
			got, same := one.next(t), all.next(t)
			assert.Equal(t, got.name, same.name)
			assert.JSONEq(t, got.data, same.data)
			switch r.Status {
			case record.StatusFailed:
				assert.Equal(t, "1-2", got.id)
				assert.Equal(t, "failed", got.name)
				assert.Contains(t, got.data, `"original_error":"down\n\nevent: x"`)
			case record.StatusRecovered:
				assert.Equal(t, "1-2", got.id, "a recovered record has no ID, and an empty ID would reset the cursor")
			case record.StatusCompleted:
				assert.Equal(t, "1-3", got.id)
				assert.Equal(t, "run_completed", got.name)
			}
		}
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestServersThatWouldLoseEventsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*sse.Server, *r3labs.Options){
		"EncodeBase64 is on":           func(s *sse.Server, _ *r3labs.Options) { s.EncodeBase64 = true },
		"AutoReplay is on":             func(s *sse.Server, _ *r3labs.Options) { s.AutoReplay = true },
		"EventTTL of 1m0s":             func(s *sse.Server, _ *r3labs.Options) { s.EventTTL = time.Minute },
		"Options.Queue is -1":          func(_ *sse.Server, o *r3labs.Options) { o.Queue = -1 },
		"Options.Guard guards another": func(_ *sse.Server, o *r3labs.Options) { o.Guard = r3labs.Guard(newServer(), 1) },
		`stream "runs" already exists with AutoRepl`: func(s *sse.Server, _ *r3labs.Options) {
			s.AutoReplay = true
			s.CreateStream("runs")
			s.AutoReplay = false
		},
	} {
		server, options := newServer(), r3labs.Options{}
		change(server, &options)
		_, err := r3labs.New(server, options)
		assert.ErrorContains(t, err, want)
		server.Close()
	}
	_, err := r3labs.New(nil, r3labs.Options{})
	assert.ErrorContains(t, err, "the server is nil")
	assert.PanicsWithError(t, "r3labs: Guard's write timeout is 0s: want more than 0", func() { r3labs.Guard(newServer(), 0) })
	assert.PanicsWithError(t, "r3labs: Guard was called with a nil server", func() { r3labs.Guard(nil, 1) })
}

func TestStreamsOfOthersAreNotRemovedAndNotReplayed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		server.CreateStream("mine")
		server.AutoReplay = true
		server.CreateStream("kept")
		server.AutoReplay = false
		p := newPublisher(t, server, r3labs.Options{Guard: guard, All: "-"})
		for _, id := range []string{"mine", "kept", "new"} {
			p.Publish(began(id))
			p.Publish(ended(id, 2))
		}
		synctest.Wait()
		assert.True(t, server.StreamExists("mine"))
		assert.True(t, server.StreamExists("kept"))
		assert.False(t, server.StreamExists("new"))
		assert.False(t, server.StreamExists("-"))
		assert.Equal(t, r3labs.Stats{Streams: 1, Sent: 4, Refused: 2}, p.Stats())
		require.NoError(t, p.Close(t.Context()))
		assert.True(t, server.StreamExists("mine"))
	})
}

func TestStreamIsRemovedWhenTheRunHasEndedAndNobodyIsConnected(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{Guard: guard, All: "-"})
		p.Publish(began("a"))
		synctest.Wait()
		one, two := connect(t, guard, "a", ""), connect(t, guard, "a", "")
		synctest.Wait()
		p.Publish(ended("a", 2))
		for _, c := range []*client{one, two} {
			assert.Equal(t, "run_completed", c.next(t).name)
		}
		synctest.Wait()
		one.leave()
		synctest.Wait()
		assert.True(t, server.StreamExists("a"), "somebody is connected")
		two.leave()
		synctest.Wait()
		assert.False(t, server.StreamExists("a"))

		resumed := began("a")
		resumed.Seq, resumed.Generation = 3, 2
		p.Publish(resumed)
		synctest.Wait()
		assert.True(t, server.StreamExists("a"), "the run has not ended")
		last := connect(t, guard, "a", "")
		synctest.Wait()
		last.leave()
		synctest.Wait()
		assert.True(t, server.StreamExists("a"), "it has not ended")
		require.NoError(t, p.Close(t.Context()))
		assert.False(t, server.StreamExists("a"))
	})
}

// TestAThousandRunsLeaveNothing publishes runs while clients connect and leave. The bubble ends
// only when no goroutines are left.
func TestAThousandRunsLeaveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{Guard: guard})
		var all sync.WaitGroup
		for n := range 1000 {
			id := fmt.Sprint("run-", n)
			all.Go(func() {
				p.Publish(began(id))
				if n%20 == 0 {
					c := connect(t, guard, id, "")
					all.Go(func() {
						defer c.leave()
						for n%40 == 0 && c.next(t).name != "run_completed" { // every second one leaves at once
						}
					})
					time.Sleep(time.Millisecond) //nolint:forbidigo // by the bubble's clock; now it is connected
				}
				for seq := range uint64(8) {
					p.Publish(logged(id, seq+2, "x"))
				}
				p.Publish(ended(id, 10))
			})
		}
		all.Wait()
		synctest.Wait()
		for n := range 1000 {
			require.False(t, server.StreamExists(fmt.Sprint("run-", n)))
		}
		assert.Equal(t, 1, p.Stats().Streams)
		assert.EqualValues(t, 2*10*1000, p.Stats().Sent+p.Stats().Lost)
		require.NoError(t, p.Close(t.Context()))
		assert.False(t, server.StreamExists("runs"))
	})
}

func TestWithoutAGuardNoStreamIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, _ *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{})
		p.Publish(began("a"))
		p.Publish(ended("a", 2))
		synctest.Wait()
		assert.True(t, server.StreamExists("a"))
		require.NoError(t, p.Close(t.Context()))
		assert.True(t, server.StreamExists("a"))
	})
}

// TestPublishDoesNotWaitForAClientThatDoesNotRead checks that such a client loses events, and that
// gaps report how many.
func TestPublishDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		server.BufferSize = 4
		p := newPublisher(t, server, r3labs.Options{Queue: 10, All: "-"})
		p.Publish(began("a"))
		synctest.Wait()
		c := connect(t, guard, "a", "")
		defer c.leave()
		synctest.Wait()
		const records = 1000
		for seq := uint64(2); seq <= records; seq++ {
			p.Publish(logged("a", seq, "x")) // nobody reads
		}
		synctest.Wait()
		lost := p.Stats().Lost
		assert.Greater(t, lost, uint64(800))
		next, missed := uint64(2), uint64(0)
		for next <= records {
			e := c.next(t)
			body := e.decode(t)
			if e.name == "gap" {
				missed += body.Missed
				next += body.Missed
				continue
			}
			require.Equal(t, next, body.Seq)
			next++
		}
		assert.Equal(t, lost, missed, "a gap reports each lost event")
		p.Publish(ended("a", records+1))
		assert.Equal(t, "run_completed", c.next(t).name, "the stream continues")
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestGapBeforeTheNextEventIsSentOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		server.BufferSize = 1
		p := newPublisher(t, server, r3labs.Options{Queue: 1})
		all := connect(t, guard, "runs", "")
		defer all.leave()
		synctest.Wait()
		for round := range uint64(3) {
			for n := range uint64(100) {
				p.Publish(logged(fmt.Sprint("run-", n), round+1, "x"))
			}
			synctest.Wait()
		}
		seen := uint64(0)
		for seen < 300 {
			e := all.next(t)
			body := e.decode(t)
			seen += max(1, body.Missed)
			assert.True(t, strings.HasSuffix(e.id, fmt.Sprint("-", seen)), "%s after %d", e.id, seen)
		}
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestLongEventIsCutToWhatTheClientCanRead(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{All: "-"})
		p.Publish(began("a"))
		synctest.Wait()
		c := connect(t, guard, "a", "")
		defer c.leave()
		synctest.Wait()
		p.Publish(logged("a", 2, strings.Repeat("\x01", 1<<20)))
		e := c.next(t)
		assert.Less(t, len(e.data), 60<<10+1)
		assert.Contains(t, e.data, "the record is too long for an event")
		require.NoError(t, p.Close(t.Context()))
	})
}

// TestNamesWithLineBreaksAreOneStreamAndOneEvent uses a name with line breaks. Names occur only in
// the query and inside JSON.
func TestNamesWithLineBreaksAreOneStreamAndOneEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		const id = "a\nid: 7\r\n\nevent: x &stream=b"
		p := newPublisher(t, server, r3labs.Options{Guard: guard})
		p.Publish(began(id))
		synctest.Wait()
		one, all := connect(t, guard, url.QueryEscape(id), ""), connect(t, guard, "runs", "")
		defer one.leave()
		defer all.leave()
		synctest.Wait()
		go p.Publish(ended(id, 2))
		for _, c := range []*client{one, all} {
			e := c.next(t)
			assert.Equal(t, "run_completed", e.name)
			var body struct {
				RunID string `json:"run_id"`
			}
			require.NoError(t, json.Unmarshal([]byte(e.data), &body))
			assert.Equal(t, id, body.RunID)
		}
		synctest.Wait()
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestTextsAreRedacted(t *testing.T) {
	inBubble(t, func(t *testing.T, server *sse.Server, guard *r3labs.Guarded) {
		p := newPublisher(t, server, r3labs.Options{
			Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "****") },
			Stream: func(runID string) string { return "run/" + runID },
		})
		p.Publish(began("a"))
		synctest.Wait()
		c := connect(t, guard, "run/a", "")
		defer c.leave()
		synctest.Wait()
		p.Publish(logged("a", 2, "a secret"))
		assert.Contains(t, c.next(t).data, "a ****")
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestServerClosedUnderThePublisherBlocksNobody(t *testing.T) {
	server := newServer()
	server.BufferSize = 1
	p := newPublisher(t, server, r3labs.Options{Queue: 100})
	subscribed := make(chan struct{})
	server.OnSubscribe = func(string, *sse.Subscriber) { close(subscribed) }
	server.RemoveStream("runs")
	server.CreateStream("runs") // a new stream uses the current OnSubscribe
	c := connect(t, server, "runs", "")
	<-subscribed
	for seq := range uint64(300) {
		p.Publish(logged("a", seq+1, "x")) // the client does not read
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Close(ctx), context.Canceled, "the server waits for its client")
	server.Close()
	p.Publish(logged("a", 301, "x"))
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, p.Close(t.Context()), "twice is fine")
	_ = c.pipe.Close()
	c.served.Wait()
}
