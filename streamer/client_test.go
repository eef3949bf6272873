package streamer_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// script is a transport with prepared responses. It records when each response was requested.
type script struct {
	answers []func(*http.Request) (*http.Response, error)
	asked   []time.Duration
	ids     []string
	began   time.Time
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, time.Since(s.began))
	s.ids = append(s.ids, req.Header.Get("Last-Event-ID"))
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer(req)
}

func answer(status int, header, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
		if name, value, ok := strings.Cut(header, ": "); ok {
			h.Set(name, value)
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func unreachable(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// hang returns a response that sends begin and then nothing more, without ending.
func hang(begin string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { _ = w.CloseWithError(context.Cause(req.Context())) })
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader(begin), r), r},
		}, nil
	}
}

// follow runs a client against the given responses until the client ends.
func follow(t *testing.T, c streamer.Client, answers ...func(*http.Request) (*http.Response, error)) (events []string, s *script, err error) {
	s = &script{answers: answers, began: time.Now()}
	c.URL, c.HTTPClient = "http://server/", &http.Client{Transport: s}
	for e, err := range c.Events(t.Context()) {
		if err != nil {
			return events, s, err
		}
		events = append(events, e.ID+" "+e.Name+" "+string(e.Data))
	}
	return events, s, nil
}

func TestClientComesBackWithItsCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, s, err := follow(t, streamer.Client{After: "e-1"},
			answer(200, "", "retry: 1000\nid: e-2\nevent: started\ndata: {}\n\nid: e-3\ndata: cut off"),
			answer(200, "", "data: {\"seq\":3}\nid: e-3\n\nid: e-8\n\n"),
			answer(200, "", "data: {}\nevent: cursor\nid: e-9\n\n"),
			answer(204, "", ""))
		require.NoError(t, err)
		assert.Equal(t, []string{"e-2 started {}", `e-3 message {"seq":3}`}, events)
		assert.Equal(t, []string{"e-1", "e-2", "e-8", "e-9"}, s.ids, "a truncated event does not move the cursor, an ID without data does")
		assert.InDelta(t, 1.1, s.asked[1].Seconds(), 0.15, "waits as long as the server asked for, plus jitter")
	})
}

func TestClientWaitsLongerWhileNothingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []func(*http.Request) (*http.Response, error)
		for range 10 {
			tries = append(tries, unreachable)
		}
		tries = append(tries, answer(200, "", "data: x\n\n"), unreachable, answer(204, "", ""))
		events, s, err := follow(t, streamer.Client{MaxDelay: 20 * time.Second}, tries...)
		require.NoError(t, err)
		assert.Len(t, events, 1)
		last := s.asked[0]
		for i, want := range []float64{2, 4, 8, 16, 20, 20, 20, 20, 20, 20, 2, 4} {
			assert.InDelta(t, want*1.125, (s.asked[i+1] - last).Seconds(), want*0.126, "wait %d", i)
			last = s.asked[i+1]
		}
	})
}

func TestClientWaitsAsLongAsItIsAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		_, s, err := follow(t, streamer.Client{Disconnected: func(err error, wait time.Duration) { told = append(told, err.Error()+" "+wait.String()) }},
			answer(429, "Retry-After: 90", `{"error":{"code":"too_many","message":"slow down"}}`),
			answer(503, "Retry-After: 7200", "busy"),
			answer(204, "", ""))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 90 * time.Second, 7290 * time.Second}, s.asked)
		assert.Equal(t, []string{"streamer: 429 Too Many Requests: slow down 1m30s", "streamer: 503 Service Unavailable: busy 2h0m0s"}, told)
	})
}

func TestClientStopsWhereNoRetryWillHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{400, 401, 403, 404, 410} {
			_, _, err := follow(t, streamer.Client{}, answer(status, "", `{"error":{"message":"no"}}`))
			var refused *streamer.StatusError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, status, refused.StatusCode())
			assert.Equal(t, "no", refused.Message)
		}
		_, _, err := follow(t, streamer.Client{}, answer(200, "Content-Type: text/html", "<html>"))
		require.ErrorContains(t, err, `sends "text/html", not text/event-stream`)
		_, _, err = follow(t, streamer.Client{MaxEvent: 100}, answer(200, "", "data: "+strings.Repeat("x", 101)))
		require.ErrorContains(t, err, "more than 100 bytes")
		for _, err := range (&streamer.Client{URL: ":"}).Events(t.Context()) {
			require.ErrorContains(t, err, "missing protocol scheme")
		}
	})
}

func TestClientLeavesASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		events, s, err := follow(t, streamer.Client{Silence: time.Minute, Disconnected: func(err error, _ time.Duration) { told = err }},
			hang("id: e-1\ndata: x\n\n"), answer(204, "", ""))
		require.NoError(t, err)
		assert.Len(t, events, 1)
		require.ErrorContains(t, told, "nothing arrived")
		assert.InDelta(t, 62.25, s.asked[1].Seconds(), 0.3)
		assert.Equal(t, "e-1", s.ids[1])
	})
}

func TestClientMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) (*http.Response, error){answer(200, "", "data: a\n\ndata: b\n\n"), answer(204, "", "")}}
		c := streamer.Client{URL: "http://server/", HTTPClient: &http.Client{Transport: s}, Silence: time.Second}
		var got []string
		for e, err := range c.Events(t.Context()) {
			require.NoError(t, err)
			got = append(got, string(e.Data))
			time.Sleep(time.Hour) //nolint:forbidigo // synctest: stands for the reader's own work
		}
		assert.Equal(t, []string{"a", "b"}, got)
	})
}

func TestClientEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []func(*http.Request) (*http.Response, error){hang(""), unreachable} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c := streamer.Client{URL: "http://server/", HTTPClient: &http.Client{Transport: &script{answers: []func(*http.Request) (*http.Response, error){first}}}}
			n := 0
			for _, err := range c.Events(ctx) {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				n++
			}
			assert.Equal(t, 1, n)
			cancel()
		}
	})
}

func TestClientSaysThatACursorCannotBeSent(t *testing.T) {
	events, _, err := follow(t, streamer.Client{}, answer(200, "", "id: a\x01b\ndata: x\n\n"), answer(204, "", ""))
	assert.Len(t, events, 1)
	require.ErrorContains(t, err, `the cursor "a\x01b" cannot be sent`)

	_, _, err = follow(t, streamer.Client{After: "a\nb"}, answer(204, "", ""))
	require.ErrorContains(t, err, `the cursor "a\nb" cannot be sent`)
}

func TestClientIsNotSentAwayForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, err := follow(t, streamer.Client{}, answer(429, "Retry-After: 99999999999999", ""), answer(204, "", ""))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 24 * time.Hour}, s.asked)
	})
}

func TestClientWaitsForARunAsLongAsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown := answer(404, "", `{"error":{"message":"there is no run"}}`)
		events, _, err := follow(t, streamer.Client{Absence: time.Minute, MaxDelay: 10 * time.Second},
			unknown, unknown, answer(200, "", "data: x\n\n"), unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown)
		assert.Equal(t, []string{" message x"}, events)
		var refused *streamer.StatusError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, 404, refused.Code)
	})
}
