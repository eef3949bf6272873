package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A taskServer answers each call to its tool with a task that is completed at a given time. It is a
// transport that needs no network, for tests with the fake clock.
type taskServer struct {
	t        *testing.T
	interval time.Duration // between polls, as suggested to the client
	done     time.Time
	fails    int            // how many polls fail before one succeeds
	hangs    map[string]int // how many requests of each method are never answered before one succeeds
	made     int            // tools/call requests
	read     int            // tasks/get requests that were answered with the result
}

// RoundTrip implements http.RoundTripper.
func (s *taskServer) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(7 * time.Millisecond) // so that no two executions of the run see the same times
	if method := r.Header.Get("Mcp-Method"); s.hangs[method] > 0 {
		s.hangs[method]--
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	w := httptest.NewRecorder()
	s.serve(w, r)
	response := w.Result()
	response.Request = r
	return response, nil
}

func (s *taskServer) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     any
		Method string
	}
	assert.NoError(s.t, json.NewDecoder(r.Body).Decode(&request))
	working := fmt.Sprintf(`"status":"working","pollIntervalMs":%d`, s.interval.Milliseconds())
	var result string
	switch request.Method {
	case "server/discover":
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	case "tools/list":
		result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		s.made++
		result = `{"resultType":"task","taskId":"7",` + working + `}`
	case "tasks/get":
		if s.fails > 0 {
			s.fails--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		result = `{` + working + `}`
		if !time.Now().Before(s.done) {
			s.read++
			result = `{"status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`
		}
	default:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	assert.NoError(s.t, json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": json.RawMessage(result)}))
}

// open opens the run of an agent that calls the tool, and interrupts the run after the given time,
// unless that is 0.
func (s *taskServer) open(store snapshot.Store, interruptAfter time.Duration) (actors.Answer, error) {
	client := mcp.HTTP("s", "http://localhost:1/mcp", mcp.Options{HTTPClient: &http.Client{Transport: s}})
	defer func() { require.NoError(s.t, client.Close()) }()
	model := actors.NewLLM("m", func(ctx context.Context, r actors.Request) (actors.Response, error) {
		if last := r.Messages[len(r.Messages)-1]; last.Role == actors.RoleTool {
			return actors.Response{Message: actors.Assistant("it says " + last.Text)}, nil
		}
		return actorstest.Calls(actorstest.Call("s_t", struct{}{}))(ctx, r)
	})
	st, err := state.Open(s.t.Context(), store, "r", state.WithParking(time.Minute))
	require.NoError(s.t, err)
	if interruptAfter > 0 {
		timer := time.AfterFunc(interruptAfter, func() { st.Interrupt(snapshot.Stop{}) })
		defer timer.Stop()
	}
	out, err := actors.NewAgent("a", model, mcp.WithServers(client)).Call(st.Context(s.t.Context()), actors.Ask("go"))
	require.NoError(s.t, st.Close())
	return out, err
}

// The run is stopped again and again while its task is working, and each time the resumed run polls
// the existing task. It does not matter whether the run was waiting in the process, sleeping or
// parked, or how long it takes to reach the same poll again.
func TestARunThatWasStoppedContinuesToPollItsTask(t *testing.T) {
	for name, c := range map[string]struct {
		interval  time.Duration
		stopAfter time.Duration // 0 if the run is only parked
		done      time.Duration
		fails     int
		hangs     map[string]int
	}{
		"parked once":                         {interval: 2 * time.Minute, done: 100 * time.Second},
		"parked often":                        {interval: 2 * time.Minute, done: time.Hour},
		"interrupted between polls":           {interval: time.Second, stopAfter: 400 * time.Millisecond, done: 2 * time.Minute},
		"interrupted in a sleep":              {interval: 15 * time.Second, stopAfter: 20 * time.Second, done: 10 * time.Minute},
		"interrupted while the waits grow":    {interval: time.Second, stopAfter: 400 * time.Second, done: time.Hour},
		"completed while the run was stopped": {interval: 15 * time.Second, stopAfter: 400 * time.Second, done: 410 * time.Second},
		"completed soon":                      {interval: 15 * time.Second, stopAfter: 40 * time.Second, done: 50 * time.Second},
		"polls fail":                          {interval: 15 * time.Second, stopAfter: 40 * time.Second, done: 10 * time.Minute, fails: 7},
		"polls are not answered":              {interval: 15 * time.Second, stopAfter: 400 * time.Second, done: time.Hour, hangs: map[string]int{"tools/list": 2, "tasks/get": 7}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskServer{t: t, interval: c.interval, done: time.Now().Add(c.done), fails: c.fails, hangs: c.hangs}
				store := memstore.New()
				out, err := s.open(store, c.stopAfter)
				require.Error(t, err)
				for err != nil {
					require.ErrorIs(t, err, core.ErrInterrupted)
					require.NotErrorIs(t, err, core.ErrDivergence)
					require.NoError(t, state.AwaitAnswers(t.Context(), store, "r"), "a parked run is due")
					<-time.After(3 * time.Second)
					out, err = s.open(store, c.stopAfter)
				}
				assert.Equal(t, "it says done", out.Text)
				assert.Less(t, time.Since(s.done), 7*time.Minute, "the waits grow to a tenth of the time")
				assert.Equal(t, 1, s.made, "the task is not begun again")
				assert.Equal(t, 1, s.read, "its result is read once")
			})
		})
	}
}
