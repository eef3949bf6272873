package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// wire is a client that sends raw requests over HTTP.
type wire struct {
	url  string
	bare bool   // without the capability for tasks
	can  string // additional capabilities, in JSON
}

// named sets the header Mcp-Name, which requests about a task need.
type named string

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Mcp-Name", string(n))
	return http.DefaultTransport.RoundTrip(r)
}

// send sends a request and returns the result or the error.
func (w wire) send(t *testing.T, method, params string) (result map[string]any, failed *jsonrpc.Error) {
	t.Helper()
	var p map[string]any
	require.NoError(t, json.Unmarshal([]byte(params), &p))
	can := map[string]any{}
	if !w.bare {
		can["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	}
	if w.can != "" {
		require.NoError(t, json.Unmarshal([]byte(w.can), &can))
	}
	p["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": modern, "io.modelcontextprotocol/clientCapabilities": can,
	}
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	id, err := jsonrpc.MakeID("1")
	require.NoError(t, err)
	transport := &sdk.StreamableClientTransport{Endpoint: w.url, DisableStandaloneSSE: true}
	if task, ok := p["taskId"].(string); ok {
		transport.HTTPClient = &http.Client{Transport: named(task)}
	}
	connection, err := transport.Connect(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, connection.Close()) }()
	if err := connection.Write(t.Context(), &jsonrpc.Request{ID: id, Method: method, Params: raw}); err != nil {
		require.ErrorAs(t, err, &failed)
		return nil, failed
	}
	m, err := connection.Read(t.Context())
	require.NoError(t, err)
	response := m.(*jsonrpc.Response)
	if errors.As(response.Error, &failed) {
		return nil, failed
	}
	require.NoError(t, response.Error)
	require.NoError(t, json.Unmarshal(response.Result, &result))
	return result, nil
}

// task waits until a task's status is no longer "working".
func (w wire) task(t *testing.T, id string) map[string]any {
	t.Helper()
	for {
		result, failed := w.send(t, "tasks/get", `{"taskId":"`+id+`"}`)
		require.Nil(t, failed)
		if result["status"] != "working" {
			return result
		}
	}
}

func TestARunIsATask(t *testing.T) {
	store := memstore.New()
	url, _, stop := served(t, store, mcp.ServerOptions{})
	w := wire{url: url}
	made, failed := w.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	assert.Equal(t, "task", made["resultType"])
	assert.Equal(t, "working", made["status"])
	assert.Nil(t, made["ttlMs"])
	assert.Contains(t, made, "ttlMs", "null for no limit")
	id := made["taskId"].(string)

	asks := w.task(t, id)
	assert.Equal(t, "input_required", asks["status"])
	assert.Equal(t, "complete", asks["resultType"])
	requests := asks["inputRequests"].(map[string]any)
	require.Contains(t, requests, "plan?1")
	asked := requests["plan?1"].(map[string]any)
	assert.Equal(t, "elicitation/create", asked["method"])
	assert.Equal(t, "Where to, Ada?", asked["params"].(map[string]any)["message"])

	// A wrong answer is refused, and the question stays open.
	_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"plan?1":{"action":"accept","content":{"answer":7}}}}`)
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, "want a string")
	// An answer to an unknown question is ignored.
	_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"plan?9":{"action":"accept","content":{"answer":7}}}}`)
	require.Nil(t, failed)

	stop() // another process finds the task
	url, _, _ = served(t, store, mcp.ServerOptions{})
	w.url = url
	asks = w.task(t, id)
	require.Contains(t, asks["inputRequests"], "plan?1")
	for range 2 { // an answer that is sent twice counts once
		_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"plan?1":{"action":"accept","content":{"answer":"Lisbon"}}}}`)
		require.Nil(t, failed)
	}
	for {
		if asks = w.task(t, id); asks["inputRequests"].(map[string]any)["plan?2"] != nil {
			break
		}
	}
	_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"plan?2":{"action":"accept","content":{"answer":3}}}}`)
	require.Nil(t, failed)
	var done map[string]any
	for done = w.task(t, id); done["status"] == "input_required"; done = w.task(t, id) {
	}
	assert.Equal(t, "completed", done["status"])
	assert.Equal(t, map[string]any{"city": "Lisbon", "days": 3.0}, done["result"].(map[string]any)["structuredContent"])
}

func TestARunThatFailsIsATaskThatHasCompletedWithAnError(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	w := wire{url: url}
	made, failed := w.send(t, "tools/call", `{"name":"greet","arguments":{"name":"nobody"}}`)
	require.Nil(t, failed)
	done := w.task(t, made["taskId"].(string))
	assert.Equal(t, "completed", done["status"])
	assert.Equal(t, true, done["result"].(map[string]any)["isError"])
}

func TestATaskIsCancelled(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	w := wire{url: url}
	made, failed := w.send(t, "tools/call", `{"name":"sleep","arguments":{}}`)
	require.Nil(t, failed)
	id := made["taskId"].(string)
	for range 2 {
		_, failed = w.send(t, "tasks/cancel", `{"taskId":"`+id+`"}`)
		require.Nil(t, failed)
	}
	assert.Equal(t, "cancelled", w.task(t, id)["status"])
}

func TestRequestsAboutTasksThatCannotBeMade(t *testing.T) {
	url, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	_, err := r.Start(t.Context(), "greet", "chosen", person{"Ada"}, runner.StartOptions{})
	require.NoError(t, err)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		_, failed := wire{url: url, bare: true}.send(t, method, `{"taskId":"x"}`)
		require.NotNil(t, failed, method)
		assert.EqualValues(t, -32021, failed.Code, method)
		for _, id := range []string{"mcp-guessed", "chosen", "", "../../etc"} {
			_, failed = wire{url: url}.send(t, method, `{"taskId":"`+id+`"}`)
			require.NotNil(t, failed, "%s %s", method, id)
			assert.EqualValues(t, jsonrpc.CodeInvalidParams, failed.Code)
			assert.Contains(t, failed.Message, "there is no task")
		}
	}
	made, failed := wire{url: url, bare: true}.send(t, "tools/call", `{"name":"greet","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	assert.Equal(t, "complete", made["resultType"], "never a task for a client that does not support tasks")
}

// Proxies route by the header, so it must match the request.
func TestARequestAboutATaskWhoseHeaderNamesAnotherIsRefused(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	made, failed := wire{url: url}.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	for _, name := range []string{"", "mcp-another"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + made["taskId"].(string) + `","_meta":{"io.modelcontextprotocol/protocolVersion":"` + modern +
			`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": modern, "Mcp-Method": "tasks/get", "Mcp-Name": name} {
			request.Header.Set(key, value)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Contains(t, string(answer), `"code":-32020`)
		assert.Contains(t, string(answer), "want the taskId of the request")
	}
}

// Responses that do not belong to an open question are ignored, whatever they contain. A response
// to an open question must be an answer.
func TestResponsesToNoQuestionAreIgnoredAndWrongOnesAreRefused(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	w := wire{url: url}
	made, failed := w.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	id := made["taskId"].(string)
	require.Contains(t, w.task(t, id)["inputRequests"], "plan?1")
	_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"nothing":{"ignored":true},"more":7}}`)
	require.Nil(t, failed)
	_, failed = w.send(t, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"plan?1":7}}`)
	require.NotNil(t, failed)
	assert.EqualValues(t, jsonrpc.CodeInvalidParams, failed.Code)
	assert.Contains(t, failed.Message, "question plan?1")
	require.Contains(t, w.task(t, id)["inputRequests"], "plan?1", "the question stays open")
}

func TestAProgramThatPanicsIsATaskThatHasFailed(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{}, func(r *runner.Runner) {
		runner.Register(r, decorators.Tool("broken", "", func(context.Context, struct{}) (string, error) { panic("out of order") }))
	})
	made, failed := wire{url: url}.send(t, "tools/call", `{"name":"broken","arguments":{}}`)
	require.Nil(t, failed)
	done := wire{url: url}.task(t, made["taskId"].(string))
	assert.Equal(t, "failed", done["status"])
	assert.Contains(t, done["error"].(map[string]any)["message"], "out of order")
	assert.NotContains(t, done, "result")
	_, failed = wire{url: url, bare: true}.send(t, "tools/call", `{"name":"broken","arguments":{}}`)
	require.NotNil(t, failed)
	assert.EqualValues(t, jsonrpc.CodeInternalError, failed.Code)
}

func TestRunThatEndsSoonIsNotATaskIfTheServerMayWait(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{TaskAfter: 10 * time.Second})
	made, failed := wire{url: url}.send(t, "tools/call", `{"name":"greet","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	assert.Equal(t, "complete", made["resultType"])
	made, failed = wire{url: url}.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	assert.Equal(t, "task", made["resultType"], "at once, because the run asks")
}

// The state of a continued request is sent by the client. It must not give access to another
// client's run. Answers that do not belong to a question, and repeated answers, must change
// nothing.
func TestInvalidStateIsRefusedAndAnAnswerCountsOnce(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	asks := `{"elicitation":{}}`
	goOn := func(state, responses string) (map[string]any, *jsonrpc.Error) {
		return wire{url: url, bare: true, can: asks}.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"},"requestState":"`+state+`","inputResponses":{`+responses+`}}`)
	}
	first, failed := wire{url: url, bare: true, can: asks}.send(t, "tools/call", `{"name":"plan","arguments":{"name":"Ada"}}`)
	require.Nil(t, failed)
	require.Equal(t, "input_required", first["resultType"])
	state := first["requestState"].(string)
	for _, none := range []string{"x", state + "x", "mcp-guessed~1", "~", "../../etc~1"} {
		_, failed = goOn(none, "")
		require.NotNil(t, failed, none)
		assert.Contains(t, failed.Message, "there is no task")
	}
	again, failed := goOn(state, `"plan?9":{"action":"accept","content":{"answer":"Rome"}}`)
	require.Nil(t, failed)
	assert.Contains(t, again["inputRequests"], "plan?1", "the question is asked again")
	for range 2 {
		again, failed = goOn(state, `"plan?1":{"action":"accept","content":{"answer":"Rome"}}`)
		require.Nil(t, failed)
		assert.Contains(t, again["inputRequests"], "plan?2")
		assert.NotEqual(t, state, again["requestState"], "another round has another state")
	}
	done, failed := goOn(again["requestState"].(string), `"plan?2":{"action":"accept","content":{"answer":3}}`)
	require.Nil(t, failed)
	assert.Equal(t, map[string]any{"city": "Rome", "days": 3.0}, done["structuredContent"])
}

// A task ends in each of the known ways, and in unknown ways.
func TestEndsOfATask(t *testing.T) {
	for name, c := range map[string]struct{ task, want string }{
		"completed":       {`{"status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`, ""},
		"an error":        {`{"status":"completed","result":{"content":[{"type":"text","text":"it broke"}],"isError":true}}`, "it broke"},
		"without result":  {`{"status":"completed"}`, "invalid tool result"},
		"failed":          {`{"status":"failed","error":{"code":-32603,"message":"no ink"}}`, "no ink (code -32603)"},
		"cancelled":       {`{"status":"cancelled","statusMessage":"by hand"}`, "the task was cancelled: by hand"},
		"needs input":     {`{"status":"input_required","inputRequests":{}}`, "the task requires user input"},
		"in a new state":  {`{"status":"dreaming"}`, `task status is "dreaming", want working`},
		"of a wrong type": {`{"status":7}`, "invalid tool result"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var request struct {
					ID     any
					Method string
				}
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
				result, ok := map[string]string{
					"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
					"tools/list":      `{"tools":[{"name":"t"}]}`,
					"tools/call":      `{"resultType":"task","taskId":"7","status":"working","pollIntervalMs":1}`,
					"tasks/get":       c.task,
					"tasks/cancel":    `{}`,
				}[request.Method]
				if !ok {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				if request.Method[:5] == "tasks" && r.Header.Get("Mcp-Name") != "7" {
					t.Errorf("%s: the header Mcp-Name is %q", request.Method, r.Header.Get("Mcp-Name"))
				}
				w.Header().Set("Content-Type", "application/json")
				assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": json.RawMessage(result)}))
			}))
			t.Cleanup(server.Close)
			client := mcp.HTTP("s", server.URL, mcp.Options{})
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			out, err := call(t, t.Context(), client, "s_t", `{}`)
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "done", out.Text)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, core.ErrPermanent)
		})
	}
}
