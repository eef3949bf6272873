package jetstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// A trip is the input of the programs in the dashboard's tests.
type trip struct {
	To string `json:"to"`
}

// travel makes a run with the given number of calls. end determines whether the run fails, asks a
// question or completes.
func travel(t *testing.T, s *jetstream.Store, id, end string, calls int) {
	t.Helper()
	st, err := state.Open(t.Context(), s, id, state.WithPayloads(), state.WithMetadata(snapshot.Metadata{Description: "a trip that " + end + "s", Tags: []string{end}}))
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	for i := range calls {
		tool := decorators.Tool(fmt.Sprint("get_map_", i), "", func(_ context.Context, in trip) (string, error) { return "map of " + in.To, nil })
		_, err = tool.Call(ctx, trip{"Oslo"})
		require.NoError(t, err)
	}
	clerk := decorators.Agent("clerk", "", func(ctx context.Context, _ trip) (string, error) {
		switch end {
		case "fail":
			return "", core.Permanent(errors.New("no room"))
		case "ask":
			return core.Await[string](ctx, "Where to?")
		}
		return "done", nil
	})
	_, _ = clerk.Call(ctx, trip{"Oslo"})
	require.NoError(t, st.Close())
}

// TestADashboardShowsWhatAStoreHas checks the list with its filters, orders and totals, open
// questions and answers to them, inputs and outputs, and runs of other processes that are
// followed, deleted and created again.
func TestADashboardShowsWhatAStoreHas(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: lease})
	for i := range 30 {
		travel(t, s, fmt.Sprintf("trip-%02d", i), "complete", i%3)
	}
	travel(t, s, "lost", "fail", 2)
	travel(t, s, "open", "ask", 1)
	runs := stored.New(s)
	control := stored.NewControl(s)
	h, err := streamer.New(runs, streamer.Options{Control: control})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { _ = runs.Follow(ctx, h) })
	following.Go(func() { _ = runs.FollowChanges(ctx, h.PublishDeletion, h.PublishStopping) })
	t.Cleanup(func() {
		cancel()
		following.Wait()
		assert.NoError(t, h.Close(context.WithoutCancel(ctx)))
		server.Close()
	})
	client := &streamer.Client{URL: server.URL}
	read := func(path string, into any) {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, data)
		require.NoError(t, json.Unmarshal(data, into))
	}
	type list struct {
		Runs  []streamer.RunState
		Total int
		Next  string
	}

	var page list
	read("/api/runs?status=completed&sort=start&order=asc&limit=20", &page)
	assert.Equal(t, 30, page.Total)
	require.Len(t, page.Runs, 20)
	assert.Equal(t, "trip-00", page.Runs[0].RunID)
	rest := list{}
	read("/api/runs?status=completed&sort=start&order=asc&limit=20&after="+url.QueryEscape(page.Next), &rest)
	assert.Len(t, rest.Runs, 10)
	failed := list{}
	read("/api/runs?tag=fail&class=permanent&text=no+room", &failed)
	require.Len(t, failed.Runs, 1)
	assert.Equal(t, 3, failed.Runs[0].Calls.Started)

	var asked struct{ Questions []streamer.QuestionState }
	read("/api/questions", &asked)
	require.Len(t, asked.Questions, 1)
	assert.Equal(t, "Where to?", asked.Questions[0].Text)
	var input trip
	read("/api/runs/lost/calls/get_map_1/input", &input)
	assert.Equal(t, trip{"Oslo"}, input)
	var output string
	read("/api/runs/lost/calls/get_map_1/output", &output)
	assert.Equal(t, "map of Oslo", output)
	answer, err := json.Marshal(map[string]any{"question": asked.Questions[0].ID, "value": "Bergen", "by": "ann"})
	require.NoError(t, err)
	resp, err := http.Post(server.URL+"/api/runs/open/answer", "application/json", bytes.NewReader(answer))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	// Follow the run to its end and beyond.
	next := make(chan streamer.Event)
	events, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		defer close(next)
		for e, err := range client.Events(events) {
			if err != nil {
				return
			}
			next <- e
		}
	}()
	until := func(name, run string) (id string) {
		t.Helper()
		for e := range next {
			var of struct {
				RunID string `json:"run_id"`
			}
			require.NoError(t, json.Unmarshal(e.Data, &of))
			if e.Name == name && of.RunID == run {
				return e.ID
			}
		}
		require.FailNow(t, "the stream has ended before "+name)
		return ""
	}
	for i := 0; ; i++ { // the watch may begin late
		id := fmt.Sprint("before-", i)
		travel(t, s, id, "complete", 0)
		if h.Stats().Events > 0 {
			break
		}
	}
	travel(t, s, "new", "complete", 2)
	until("run_completed", "new")
	cursor := ""
	for e, err := range (&streamer.Client{URL: server.URL, Run: "new", UntilEnd: true}).Events(t.Context()) {
		require.NoError(t, err)
		cursor = e.ID
	}
	require.NoError(t, s.Delete(t.Context(), "new"))
	until("deleted", "new")
	travel(t, s, "new", "complete", 5)
	until("run_completed", "new")
	for e, err := range (&streamer.Client{URL: server.URL, Run: "new", After: cursor, UntilEnd: true}).Events(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, "reset", e.Name, "the cursor belongs to the deleted run")
		break
	}
}
