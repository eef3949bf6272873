package r3labs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"time"

	"github.com/r3labs/sse/v2"
	"gopkg.in/cenkalti/backoff.v1"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/r3labs"
)

// fetchOnce executes a run with the given ID, in which a tool fails at first.
func fetchOnce(runID string, publisher state.Publisher) {
	tries := 0
	fetch := decorators.Tool("fetch", "Fetches.", func(context.Context, struct{}) (string, error) {
		if tries++; tries == 1 {
			return "", core.Retryable(errors.New("connection lost"))
		}
		return "done", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	st := state.New(state.WithRunID(runID), state.WithPublisher(publisher))
	if _, err := fetch.Call(st.Context(context.Background()), struct{}{}); err != nil {
		panic(err)
	}
	if err := st.Close(); err != nil {
		panic(err)
	}
}

// A program that already has an r3labs/sse server publishes its runs on that server.
func Example() {
	server := sse.New()
	server.AutoReplay = false
	subscribed := make(chan struct{})
	server.OnSubscribe = func(string, *sse.Subscriber) { close(subscribed) }
	guard := r3labs.Guard(server, 10*time.Second)
	site := httptest.NewServer(guard)
	pub, err := r3labs.New(server, r3labs.Options{Guard: guard})
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sse.NewClient(site.URL).SubscribeWithContext(ctx, "runs", func(e *sse.Event) {
			fmt.Printf("%s\n", e.Event)
			if string(e.Event) == "run_completed" {
				cancel()
			}
		})
	}()
	<-subscribed
	fetchOnce("demo", pub)
	<-ended
	if err := pub.Close(context.Background()); err != nil {
		panic(err)
	}
	site.Close()
	server.Close()
	// Output:
	// run_started
	// started
	// failed
	// retrying
	// started
	// completed
	// run_completed
}

// The client of r3labs/sse can follow a streamer.Handler, too. It needs a loop around it, because
// it does not reconnect after a stream ends normally, and stops reconnecting after 15 minutes. It
// also delivers truncated events and moves its cursor to them, so the loop checks the events and
// keeps its own cursor.
func Example_clientOfAHandler() {
	dash, err := streamer.New(nil, streamer.Options{})
	if err != nil {
		panic(err)
	}
	site := httptest.NewServer(dash)
	fetchOnce("demo", dash)

	client := sse.NewClient(site.URL+"/events?run=demo", sse.ClientMaxBufferSize(1<<20)) // an event has at most 256 KB
	client.ReconnectStrategy = &backoff.StopBackOff{}                                    // the loop reconnects
	program := context.Background()                                                      // ends with the program
	cursor, newest := "", map[string]uint64{}
	for ended := false; !ended; {
		ctx, cancel := context.WithCancel(program)
		client.LastEventID.Store([]byte(cursor))
		_ = client.SubscribeRawWithContext(ctx, func(e *sse.Event) {
			var rec struct {
				RunID    string `json:"run_id"`
				Seq      uint64 `json:"seq"`
				Replayed bool   `json:"replayed"`
			}
			if ended || json.Unmarshal(e.Data, &rec) != nil || string(e.ID) == cursor && !rec.Replayed {
				return // the event was truncated
			}
			if wholeID.Match(e.ID) {
				cursor = string(e.ID)
			}
			if !rec.Replayed && rec.Seq > 0 {
				if rec.Seq <= newest[rec.RunID] {
					return // received earlier, with a truncated ID
				}
				newest[rec.RunID] = rec.Seq
			}
			_, number, _ := strings.Cut(string(e.ID), ".") // the part before the dot is the run's creation time
			fmt.Println(number, string(e.Event))
			if ended = string(e.Event) == "run_completed"; ended {
				cancel()
			}
		})
		cancel()
		if !ended {
			select {
			case <-time.After(2 * time.Second):
			case <-program.Done():
				return
			}
		}
	}
	if err := dash.Close(context.Background()); err != nil {
		panic(err)
	}
	site.Close()
	// Output:
	// 1-1 run_started
	// 1-2 started
	// 1-3 failed
	// 1-4 retrying
	// 1-5 started
	// 1-6 completed
	// 1-7 run_completed
}

// wholeID matches an ID unless it was cut off before its hyphen.
var wholeID = regexp.MustCompile(`^(\d+\.)?\d+-\d+$`)
