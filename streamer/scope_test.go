package streamer_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// TestAuthorizeIsAskedAgainForLongStreams checks that a client that is still allowed loses nothing,
// and that a client whose permission was revoked is refused.
func TestAuthorizeIsAskedAgainForLongStreams(t *testing.T) {
	var asked atomic.Int64
	var revoked atomic.Bool
	h, server := serve(t, nil, streamer.Options{Authorize: func(*http.Request) (streamer.Access, error) {
		asked.Add(1)
		if revoked.Load() {
			return streamer.Access{}, streamer.ErrUnauthenticated
		}
		return streamer.Access{TTL: 5 * time.Millisecond}, nil
	}})
	f := newFeed("r", h.Publish)
	f.open()
	client := &streamer.Client{URL: server.URL, Run: "r", HTTPClient: through(t), MaxDelay: time.Millisecond}
	next := uint64(1)
	for e, err := range client.Events(t.Context()) {
		if revoked.Load() && err != nil {
			require.ErrorIs(t, err, streamer.ErrUnauthenticated)
			break
		}
		require.NoError(t, err)
		require.Equal(t, next, number(t, e))
		next++
		if asked.Load() >= 10 {
			revoked.Store(true)
			continue // the next event must be the refusal
		}
		f.log(1)
		<-time.After(time.Millisecond)
	}
	assert.True(t, revoked.Load())
}

func TestPagesOfOtherSitesMayNotRead(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Origins: []string{"https://ops.example.com"}})
	newFeed("r", h.Publish).open()
	for name, c := range map[string]struct {
		header []string
		path   string
		status int
	}{
		"a program":                 {nil, "/api/runs", 200},
		"the page itself":           {[]string{"Sec-Fetch-Site", "same-origin"}, "/api/runs", 200},
		"typed into the browser":    {[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "/", 200},
		"a link on another site":    {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "/", 200},
		"a frame of another site":   {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, "/", 403},
		"an image of another site":  {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, "/api/runs", 403},
		"a script of another site":  {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, "/api/runs/r", 403},
		"a stream of another site":  {[]string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example"}, "/events?run=r", 403},
		"an older browser":          {[]string{"Origin", "https://evil.example"}, "/health", 403},
		"no origin at all":          {[]string{"Origin", "null"}, "/health", 403},
		"an origin that is listed":  {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://ops.example.com"}, "/api/runs", 200},
		"the server's own, an old":  {[]string{"Origin", server.URL}, "/health", 200},
		"a file of the page, other": {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "script"}, "/app.js", 403},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+c.path, nil)
			require.NoError(t, err)
			for i := 0; i < len(c.header); i += 2 {
				req.Header.Set(c.header[i], c.header[i+1])
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, c.status, resp.StatusCode)
		})
	}
}

func TestQuestionThatIsAskedAgainSaysWhy(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	ask := func(err error) {
		f.publish(record.Record{Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "refund?1", Err: err, Detail: &record.Detail{Message: "Refund?"}})
	}
	ask(nil)
	ask(&record.Error{Message: "the answer 7 does not fit: got a number, want a boolean"})
	list, err := (&streamer.Client{URL: server.URL}).Runs(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, list.Runs[0].Questions, 1)
	assert.Equal(t, "the answer 7 does not fit: got a number, want a boolean", list.Runs[0].Questions[0].Refused)
}
