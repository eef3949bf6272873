package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	r3labs "github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tmaxmax "github.com/tmaxmax/go-sse"
	"gopkg.in/cenkalti/backoff.v1"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/streamer"
)

// event is an event in the form in which a client received it.
type event struct {
	ID, Name, Data string
}

// follow reads the stream at a URL and calls take for each event until take returns
// false.
type follow func(t *testing.T, url string, take func(event) bool)

var clients = map[string]follow{
	"streamer.Client":               ours,
	"r3labs/sse":                    withR3labs,
	"tmaxmax/go-sse":                withTmaxmax,
	"eventsource":                   fromNPM("eventsource"),
	"eventsource-parser":            fromNPM("eventsource-parser"),
	"@microsoft/fetch-event-source": fromNPM("fetch-event-source"),
}

func ours(t *testing.T, url string, take func(event) bool) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &streamer.Client{URL: strings.Replace(url, "/events", "", 1), HTTPClient: &http.Client{Transport: transport}, MaxDelay: time.Millisecond}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if !take(event{e.ID, e.Name, string(e.Data)}) {
			return
		}
	}
}

// wholeID matches an ID with a hyphen. An ID without one has been cut off.
var wholeID = regexp.MustCompile(`^(\d+\.)?\d+-\d+$`)

// withR3labs uses the client in the loop that the documentation of streamer/r3labs shows.
func withR3labs(t *testing.T, url string, take func(event) bool) {
	client := r3labs.NewClient(url, r3labs.ClientMaxBufferSize(1<<20))
	client.ReconnectStrategy = &backoff.StopBackOff{}
	cursor, newest := "", map[string]uint64{}
	for ended := false; !ended; {
		ctx, cancel := context.WithCancel(t.Context())
		client.LastEventID.Store([]byte(cursor))
		_ = client.SubscribeRawWithContext(ctx, func(e *r3labs.Event) {
			var rec struct {
				RunID    string `json:"run_id"`
				Seq      uint64 `json:"seq"`
				Replayed bool   `json:"replayed"`
			}
			if ended || json.Unmarshal(e.Data, &rec) != nil || string(e.ID) == cursor && !rec.Replayed {
				return // the event was cut off
			}
			if wholeID.Match(e.ID) {
				cursor = string(e.ID)
			}
			if rec.Seq > 0 {
				if rec.Seq <= newest[rec.RunID] {
					return // received before, with an ID that was cut off
				}
				newest[rec.RunID] = rec.Seq
			}
			if ended = !take(event{string(e.ID), string(e.Event), string(e.Data)}); ended {
				cancel()
			}
		})
		cancel()
		if t.Context().Err() != nil {
			return
		}
	}
}

func withTmaxmax(t *testing.T, url string, take func(event) bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &tmaxmax.Client{Backoff: tmaxmax.Backoff{InitialInterval: time.Millisecond, Multiplier: 1, Jitter: -1}}
	conn := client.NewConnection(req)
	conn.SubscribeToAll(func(e tmaxmax.Event) {
		if ctx.Err() == nil && !take(event{e.LastEventID, e.Type, e.Data}) {
			cancel()
		}
	})
	require.ErrorIs(t, conn.Connect(), context.Canceled)
}

// fromNPM returns a follow function that uses the named client in clients.mjs.
func fromNPM(name string) follow {
	return func(t *testing.T, url string, take func(event) bool) {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Skip("skipped: node is not installed")
		}
		if _, err := os.Stat("node_modules/eventsource"); err != nil {
			t.Skip("skipped: run npm ci --prefix tests/clients first")
		}
		cmd := exec.CommandContext(t.Context(), node, "clients.mjs", name, url)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e event
			require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
			if !take(e) {
				break
			}
		}
		require.NoError(t, cmd.Wait())
	}
}

// TestEveryClientGetsEveryEventOnce cuts connections at random positions, while heartbeats are sent
// between the events.
func TestEveryClientGetsEveryEventOnce(t *testing.T) {
	for _, filter := range []string{"", "&status=failed,completed"} {
		for name, follow := range clients {
			t.Run(name+filter, func(t *testing.T) {
				t.Parallel()
				const records, cuts = 3000, 300
				s := newSite(t)
				cut := testkit.NewCutter(t, s.address, cuts, 3000)
				s.publish(t, records, func() bool { return cut.Cuts() >= cuts })
				want := s.wanted(filter)
				got := 0
				follow(t, cut.URL()+"/events?run=r"+filter, func(e event) bool {
					if e.Name == "cursor" {
						assert.JSONEq(t, "{}", e.Data)
						return true
					}
					var rec struct {
						Seq    uint64
						Status string `json:"execution_status"`
					}
					if !assert.NoError(t, json.Unmarshal([]byte(e.Data), &rec), "%+v", e) {
						return false
					}
					if !assert.NotEqual(t, len(want), got, "unexpected event: %+v", e) {
						return false
					}
					if !assert.Equal(t, want[got], rec.Seq, "after %d events and %d cuts: %+v", got, cut.Cuts(), e) {
						return false
					}
					if name != "r3labs/sse" { // r3labs/sse may receive an ID that was cut off
						assert.Regexp(t, fmt.Sprintf(`^\d+\.1-%d$`, rec.Seq), e.ID)
					}
					assert.Equal(t, rec.Status, strings.TrimPrefix(e.Name, "run_"))
					got++
					return e.Name != "run_completed"
				})
				assert.Equal(t, len(want), got)
				t.Logf("%d events, %d cuts", got, cut.Cuts())
			})
		}
	}
}
