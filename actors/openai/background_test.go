package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) { process.Main(m, process.Programs{"background": background}) }

const completed = `{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}],"usage":{"input_tokens":3,"output_tokens":2}}`

func inBackgroundMode() actors.Request {
	req := question
	req.Options.ExtraBody = map[string]any{"background": true, "store": true}
	return req
}

// A call is interrupted while it polls, and then continued: the response is created only once. When
// the run is opened once more, the service receives no request.
func TestAPolledResponseIsPolledAgainAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		var st *state.ExecutionState
		client := inBackground(t, &asked,
			func() (*http.Response, error) {
				st.Interrupt(snapshot.Stop{})
				return reply(nil, 200, `{"id":"resp_1","status":"in_progress","output":[]}`, "", ""), nil
			},
			answering200(completed))
		llm := openai.Model{Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client}.LLM()
		store := memstore.New()
		ask := func() (resp actors.Response, err error) {
			st, err = state.Open(t.Context(), store, "run")
			require.NoError(t, err)
			defer st.Close()
			return llm.Call(st.Context(t.Context()), inBackgroundMode())
		}
		_, err := ask()
		require.ErrorIs(t, err, core.ErrInterrupted)
		for range 2 {
			resp, err := ask()
			require.NoError(t, err)
			require.Equal(t, "Fine.", resp.Message.Text)
			require.Equal(t, core.Usage{InputTokens: 3, OutputTokens: 2}, resp.Usage)
		}
		require.Equal(t, []string{"POST /v1/responses", "GET /v1/responses/resp_1", "GET /v1/responses/resp_1"}, asked)
	})
}

func TestARetryInBackgroundModeCreatesANewResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		client := inBackground(t, &asked,
			answering200(`{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"sorry"}}`),
			answering200(completed))
		llm := openai.Model{Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client}.LLM(atOnce)
		st := state.New()
		defer st.Close()
		resp, err := llm.Call(st.Context(t.Context()), inBackgroundMode())
		require.NoError(t, err)
		require.Equal(t, "Fine.", resp.Message.Text)
		require.Equal(t, []string{"POST /v1/responses", "GET /v1/responses/resp_1", "POST /v1/responses", "GET /v1/responses/resp_1"}, asked)
	})
}

// The service refuses the first request and answers the second one at once. Neither uses a stream,
// although the call is watched.
func TestRequestsInBackgroundModeFailAndSucceedAsOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := []*http.Response{
			reply(nil, 429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "Retry-After", "7"),
			reply(nil, 200, completed, "", ""),
			reply(nil, 400, `{"error":{"message":"no","code":"context_length_exceeded"}}`, "", ""),
		}
		asked := 0
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			require.Equal(t, "application/json", r.Header.Get("Accept"))
			resp := replies[asked]
			asked++
			resp.Request = r
			return resp, nil
		})}
		llm := openai.Model{Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client, FirstToken: 1}.LLM()
		st := state.New()
		defer st.Close()
		ctx := live.Watch(st.Context(t.Context()), func(live.Delta) {})
		resp, err := llm.Call(ctx, inBackgroundMode())
		require.NoError(t, err)
		require.Equal(t, "Fine.", resp.Message.Text)
		_, err = llm.Call(ctx, inBackgroundMode())
		require.ErrorIs(t, err, actors.ErrContextTooLong)
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 400, e.Status)
		require.Equal(t, 3, asked)
	})
}

// background makes one call in background mode in a stored run.
func background(args ...string) error {
	ctx := context.Background()
	store, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	st, err := state.Open(ctx, store, "run")
	if err != nil {
		return err
	}
	llm := openai.Model{Name: "m", API: openai.Responses, BaseURL: args[1], APIKey: secret}.LLM()
	resp, err := llm.Call(st.Context(ctx), inBackgroundMode())
	if err == nil && resp.Message.Text != "Fine." {
		err = fmt.Errorf("got the answer %q", resp.Message.Text)
	}
	return errors.Join(err, st.Close())
}

func TestAResponseIsCreatedOnceAlthoughTheProcessIsKilledWhileItPolls(t *testing.T) {
	var mu sync.Mutex
	created, polled := 0, 0
	polling := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == http.MethodPost:
			created++
			_, _ = io.WriteString(w, `{"id":"resp_1","status":"queued","output":[]}`)
		case polled == 0:
			polled++
			polling <- struct{}{}
			_, _ = io.WriteString(w, `{"id":"resp_1","status":"in_progress","output":[]}`)
		default:
			polled++
			_, _ = io.WriteString(w, completed)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	first := process.Start(t, process.Command(t, "background", dir, server.URL+"/v1"))
	<-polling
	first.Kill()
	for range 2 {
		out, err := process.Command(t, "background", dir, server.URL+"/v1").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, created)
	require.Equal(t, 2, polled)
}
