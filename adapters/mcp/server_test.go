package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type person struct {
	Name string `json:"name"`
}

type trip struct {
	City string `json:"city"`
	Days int    `json:"days"`
}

// register registers the programs that the tests serve.
func register(r *runner.Runner) error {
	runner.Register(r, decorators.Tool("greet", "Greets somebody.", func(_ context.Context, p person) (string, error) {
		if p.Name == "nobody" {
			return "", core.Permanent(errors.New("there is nobody"))
		}
		return "Hello, " + p.Name, nil
	}))
	runner.Register(r, decorators.Agent("plan", "Plans a trip.", func(ctx context.Context, p person) (map[string]any, error) {
		city, err := core.Await[string](ctx, "Where to, "+p.Name+"?")
		if err != nil {
			return nil, err
		}
		days, err := core.Await[int](ctx, "How many days?")
		if err != nil {
			return nil, err
		}
		return map[string]any{"city": city, "days": days}, nil
	}))
	book := decorators.Tool("book", "Books a trip.", func(_ context.Context, in trip) (string, error) { return "booked " + in.City, nil }, actors.WithApproval())
	runner.Register(r, decorators.Agent("travel", "Books a trip if somebody approves.", func(ctx context.Context, in trip) (string, error) { return book.Call(ctx, in) }))
	runner.Register(r, decorators.Tool("sleep", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}))
	return nil
}

// served returns the URL of a server for the programs, which keeps its runs in the store. stop ends
// the server as if its process had ended.
func served(t *testing.T, store snapshot.Store, o mcp.ServerOptions, more ...func(*runner.Runner)) (url string, r *runner.Runner, stop func()) {
	t.Helper()
	r, err := runner.New(store, runner.Options{Grace: -1})
	require.NoError(t, err)
	require.NoError(t, register(r))
	for _, register := range more {
		register(r)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Serve(ctx) // returns the error of its context
	}()
	server := httptest.NewServer(mcp.NewHandler(r, o))
	var stopped atomic.Bool
	stop = func() {
		if stopped.CompareAndSwap(false, true) {
			server.CloseClientConnections()
			server.Close()
			cancel()
			<-ended
		}
	}
	t.Cleanup(stop)
	return server.URL, r, stop
}

// connected returns a session of the SDK's client. elicit is nil for a client that
// cannot ask its user.
func connected(t *testing.T, transport sdk.Transport, version string, elicit func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.ClientSession {
	t.Helper()
	o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}
	if elicit != nil {
		o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return elicit(r.Params), nil }
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() }) // the server may already have ended
	return session
}

func overHTTP(url string) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}
}

// overPipe returns a transport to a server over pipes.
func overPipe(t *testing.T, r *runner.Runner, o mcp.ServerOptions) sdk.Transport {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- mcp.ServeIO(context.WithoutCancel(t.Context()), r, in, out, o) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		require.NoError(t, <-ended)
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
}

func textOf(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	require.NotEmpty(t, r.Content, "%+v", r)
	return r.Content[0].(*sdk.TextContent).Text
}

func callTool(t *testing.T, s *sdk.ClientSession, name string, arguments any) *sdk.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err)
	return r
}

const (
	modern = "2026-07-28"
	older  = "2025-11-25"
)

func TestProgramsAreTools(t *testing.T) {
	for _, version := range []string{modern, older} {
		url, r, _ := served(t, memstore.New(), mcp.ServerOptions{Only: []string{"greet"}})
		for transport, s := range map[string]*sdk.ClientSession{
			"http": connected(t, overHTTP(url), version, nil), "stdio": connected(t, overPipe(t, r, mcp.ServerOptions{Only: []string{"greet"}}), version, nil),
		} {
			list, err := s.ListTools(t.Context(), nil)
			require.NoError(t, err, "%s %s", version, transport)
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			assert.Equal(t, []string{"greet", "run_answer", "run_wait"}, names)
			assert.Equal(t, "Greets somebody.", list.Tools[0].Description)
			schema, err := json.Marshal(list.Tools[0].InputSchema)
			require.NoError(t, err)
			assert.Contains(t, string(schema), `"required":["name"]`)

			assert.Equal(t, "Hello, Ada", textOf(t, callTool(t, s, "greet", person{"Ada"})))
			refused := callTool(t, s, "greet", map[string]int{"name": 7})
			assert.True(t, refused.IsError)
			assert.Contains(t, textOf(t, refused), "name: got an integer, want a string")
			failed := callTool(t, s, "greet", person{"nobody"})
			assert.True(t, failed.IsError)
			assert.Contains(t, textOf(t, failed), "there is nobody")
			_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "plan"})
			require.ErrorContains(t, err, `unknown tool "plan"`)
		}
	}
}

// user returns a function that answers the questions of the programs.
func user(t *testing.T) func(*sdk.ElicitParams) *sdk.ElicitResult {
	return func(p *sdk.ElicitParams) *sdk.ElicitResult {
		switch {
		case strings.HasPrefix(p.Message, "Where to"):
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "Lisbon"}}
		case p.Message == "How many days?":
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": 3}}
		case strings.HasPrefix(p.Message, "Approve book"):
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approved": true, "arguments": `{"city":"Porto","days":1}`}}
		}
		t.Errorf("unexpected question %q", p.Message)
		return &sdk.ElicitResult{Action: "cancel"}
	}
}

func TestQuestionsOfARunAreAskedOfTheClient(t *testing.T) {
	url, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	for name, s := range map[string]*sdk.ClientSession{
		"input_required": connected(t, overHTTP(url), modern, user(t)),
		"over stdio":     connected(t, overPipe(t, r, mcp.ServerOptions{}), modern, user(t)),
		"elicitation":    connected(t, overPipe(t, r, mcp.ServerOptions{}), older, user(t)),
	} {
		t.Run(name, func(t *testing.T) {
			result := callTool(t, s, "plan", person{"Ada"})
			assert.JSONEq(t, `{"city":"Lisbon","days":3}`, textOf(t, result))
			assert.False(t, result.IsError)
			assert.Equal(t, "booked Porto", textOf(t, callTool(t, s, "travel", trip{"Lisbon", 2})))
		})
	}
}

func TestADeclinedApprovalIsADisapproval(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	decline := func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} }
	s := connected(t, overHTTP(url), modern, decline)
	result := callTool(t, s, "travel", trip{"Lisbon", 2})
	assert.True(t, result.IsError)
	assert.Contains(t, textOf(t, result), "the user declined")

	assert.Contains(t, textOf(t, callTool(t, s, "plan", person{"Ada"})), "waits for an answer")
}

func TestChangedArgumentsThatDoNotFitAreRefused(t *testing.T) {
	url, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	for name, s := range map[string]*sdk.ClientSession{
		"input_required": connected(t, overHTTP(url), modern, unfit),
		"elicitation":    connected(t, overPipe(t, r, mcp.ServerOptions{}), older, unfit),
	} {
		_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "travel", Arguments: trip{"Lisbon", 2}})
		require.ErrorContains(t, err, "arguments.days: got a string, want an integer", name)
	}
}

// unfit approves the booking of a trip, with arguments that do not fit the tool.
func unfit(*sdk.ElicitParams) *sdk.ElicitResult {
	return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approved": true, "arguments": `{"city":"Porto","days":"1"}`}}
}

// runIn returns the ID of the run that a result names.
func runIn(t *testing.T, text string) string {
	t.Helper()
	i := strings.Index(text, "mcp-")
	require.GreaterOrEqual(t, i, 0, text)
	id, _, _ := strings.Cut(text[i:], " ")
	return id
}

func TestAClientThatCannotAskLearnsHowToAnswer(t *testing.T) {
	store := memstore.New()
	url, _, stop := served(t, store, mcp.ServerOptions{})
	said := textOf(t, callTool(t, connected(t, overHTTP(url), modern, nil), "plan", person{"Ada"}))
	assert.Contains(t, said, `question "plan?1": Where to, Ada?`)
	id := runIn(t, said)
	stop() // the run can be found after a restart
	url, _, _ = served(t, store, mcp.ServerOptions{})
	s := connected(t, overHTTP(url), older, nil)
	wrong := callTool(t, s, "run_answer", map[string]any{"run": id, "question": "plan?1", "answer": 7})
	assert.True(t, wrong.IsError)
	assert.Contains(t, textOf(t, wrong), "want a string")
	said = textOf(t, callTool(t, s, "run_answer", map[string]any{"run": id, "question": "plan?1", "answer": "Rome"}))
	assert.Contains(t, said, "How many days?")
	again := callTool(t, s, "run_answer", map[string]any{"run": id, "question": "plan?1", "answer": "Rome"}) // the response was lost
	assert.True(t, again.IsError)
	assert.Contains(t, textOf(t, again), `the question was already answered`)
	assert.Contains(t, textOf(t, again), `call run_wait with {"run": "`+id+`"}`)
	assert.Contains(t, textOf(t, callTool(t, s, "run_wait", map[string]any{"run": id})), "How many days?")
	said = textOf(t, callTool(t, s, "run_answer", map[string]any{"run": id, "question": "plan?2", "answer": 4}))
	assert.JSONEq(t, `{"city":"Rome","days":4}`, said)
	assert.JSONEq(t, `{"city":"Rome","days":4}`, textOf(t, callTool(t, s, "run_wait", map[string]any{"run": id})))
	assert.True(t, callTool(t, s, "run_wait", map[string]any{"run": "mcp-guessed"}).IsError)
	assert.Contains(t, textOf(t, callTool(t, s, "run_wait", struct{}{})), "run is missing")
}

// A user may take longer to answer than a call is held. After the answer, the call waits for the
// result.
func TestASlowUserGetsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := runner.New(memstore.New(), runner.Options{Grace: -1})
		require.NoError(t, err)
		runner.Register(r, decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
			return core.Await[string](ctx, "Where to?")
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { _ = r.Serve(ctx) }) // returns the error of its context
		t.Cleanup(func() { cancel(); serving.Wait() })
		s := connected(t, overPipe(t, r, mcp.ServerOptions{HoldFor: time.Minute}), older, func(*sdk.ElicitParams) *sdk.ElicitResult {
			<-time.After(time.Hour)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "Lisbon"}}
		})
		assert.Equal(t, "Lisbon", textOf(t, callTool(t, s, "trip", struct{}{})))
	})
}

func TestAClientLearnsHowToDecideAboutACallInDoubt(t *testing.T) {
	pay := decorators.Tool("pay", "Pays.", func(context.Context, struct{}) (string, error) {
		return "", core.InDoubt(errors.New("the line is dead"))
	}, actors.WithInDoubt(core.InDoubtAsk))
	registered := func(r *runner.Runner) { runner.Register(r, pay) }
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{}, registered)

	s := connected(t, overHTTP(url), modern, nil)
	said := textOf(t, callTool(t, s, "pay", struct{}{}))
	assert.Contains(t, said, `answer: {"decision": "completed", "output": …}, {"decision": "run_again"} or {"decision": "failed", "message": "…"}`+"\n")
	assert.Contains(t, said, `schema: {"type":"object"`)
	assert.Contains(t, said, `"output":{"type":"string"}`)
	paid := callTool(t, s, "run_answer", map[string]any{
		"run": runIn(t, said), "question": "pay?in-doubt1", "answer": map[string]any{"decision": "completed", "output": "paid"},
	})
	assert.Equal(t, "paid", textOf(t, paid))

	var form string
	s = connected(t, overHTTP(url), modern, func(p *sdk.ElicitParams) *sdk.ElicitResult {
		schema, err := json.Marshal(p.RequestedSchema)
		require.NoError(t, err)
		form = string(schema)
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "completed", "output": `"paid"`}}
	})
	assert.Equal(t, "paid", textOf(t, callTool(t, s, "pay", struct{}{})))
	assert.Contains(t, form, `["completed","run_again","failed"]`)
}

func TestARunThatTakesLongIsFoundAgain(t *testing.T) {
	url, r, _ := served(t, memstore.New(), mcp.ServerOptions{HoldFor: 20 * time.Millisecond})
	s := connected(t, overHTTP(url), modern, nil)
	said := textOf(t, callTool(t, s, "sleep", struct{}{}))
	assert.Contains(t, said, "is still running")
	id := runIn(t, said)
	require.NoError(t, r.Cancel(t.Context(), id, snapshot.Stop{Message: "enough"}))
	result := callTool(t, s, "run_wait", map[string]any{"run": id})
	assert.True(t, result.IsError)
	assert.Contains(t, textOf(t, result), "the run was cancelled: enough")
}

func TestACallWithAnIdempotencyKeyStartsOneRun(t *testing.T) {
	store := memstore.New()
	url, _, _ := served(t, store, mcp.ServerOptions{})
	s := connected(t, overHTTP(url), modern, nil)
	for range 2 {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Meta: sdk.Meta{"io.github.reprise-go/idempotencyKey": "k"}, Name: "greet", Arguments: person{"Ada"}})
		require.NoError(t, err)
		assert.Equal(t, "Hello, Ada", textOf(t, r))
	}
	page, err := store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1)
}

func TestRunsAreVisibleOnlyToTheirStarters(t *testing.T) {
	authorize := func(_ context.Context, header http.Header) (string, error) {
		if who := header.Get("X-Who"); who != "" {
			return who, nil
		}
		return "", errors.New("who are you?")
	}
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{Authorize: authorize})
	as := func(who string) *mcp.Client {
		c := mcp.HTTP("s", url, mcp.Options{Headers: http.Header{"X-Who": {who}}})
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	out, err := call(t, t.Context(), as("ada"), "s_greet", `{"name":"Ada"}`)
	require.NoError(t, err)
	assert.Equal(t, "Hello, Ada", out.Text)
	_, err = as("").Tools(t.Context())
	require.ErrorContains(t, err, "Unauthorized")
}

// Also the names and schemas of the programs are only for those who are authorized.
func TestEveryRequestOverHTTPIsAuthorized(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{Authorize: func(context.Context, http.Header) (string, error) { return "", errors.New("who are you?") }})
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
		assert.Equal(t, "Bearer", response.Header.Get("WWW-Authenticate"))
		assert.Equal(t, "not authorized: who are you?\n", string(text))
	}
}

func TestRunsOverStdioAreAuthorized(t *testing.T) {
	_, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	s := connected(t, overPipe(t, r, mcp.ServerOptions{Authorize: func(_ context.Context, header http.Header) (string, error) {
		assert.Nil(t, header)
		return "", errors.New("who are you?")
	}}), modern, nil)
	_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "greet", Arguments: person{"Ada"}})
	require.ErrorContains(t, err, "not authorized: who are you?")
}

// This tests client and server together: a run calls a run of another process as a task.
func TestATaskIsPolledAcrossRestartsOfBothSides(t *testing.T) {
	store, runs := memstore.New(), memstore.New()
	url, r, _ := served(t, store, mcp.ServerOptions{PollInterval: 100 * time.Millisecond})
	c := mcp.HTTP("s", url, mcp.Options{})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	agent := func(steps ...actorstest.Step) actors.Agent[actors.Prompt, actors.Answer] {
		return actors.NewAgent("a", actorstest.NewScript(t, steps...).LLM("m"), mcp.WithServers(c))
	}
	ctx, cancel := context.WithCancel(t.Context())
	st, err := state.Open(t.Context(), runs, "r")
	require.NoError(t, err)
	go func() { // the process ends while the task is running
		for e, err := range runs.Watch(ctx, snapshot.WatchOptions{RunID: "r", Records: true}) {
			if err != nil || slices.ContainsFunc(e.Records, func(r record.Record) bool {
				return r.Name == "begin" && r.Status == record.StatusCompleted
			}) {
				cancel()
			}
		}
	}()
	_, err = agent(actorstest.Calls(actorstest.Call("s_sleep", struct{}{}))).Call(st.Context(ctx), actors.Prompt{Text: "go"})
	require.True(t, core.IsSuspension(err), "%v", err)
	require.NoError(t, st.Close())

	page, err := store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	require.NoError(t, r.Cancel(t.Context(), page.Runs[0].RunID, snapshot.Stop{Message: "enough"}))
	st, err = state.Open(t.Context(), runs, "r")
	require.NoError(t, err)
	out, err := agent(actorstest.Say("done")).Call(st.Context(t.Context()), actors.Prompt{Text: "go"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, "error: the task was cancelled: enough", out.Messages[2].Text)
	page, err = store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1, "the task is not begun again")
}

// A run that ends before it is watched also reports its progress: the second call finds a run that
// has ended.
func TestRecordsOfARunAreItsProgress(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	told := make(chan *sdk.ProgressNotificationParams, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		told <- r.Params
	}})
	s, err := client.Connect(t.Context(), overHTTP(url), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() }) // the server may already have ended
	for _, token := range []string{"first", "second"} {
		p := &sdk.CallToolParams{Meta: sdk.Meta{"io.github.reprise-go/idempotencyKey": "k"}, Name: "greet", Arguments: person{"Ada"}}
		p.SetProgressToken(token)
		_, err = s.CallTool(t.Context(), p)
		require.NoError(t, err)
		var messages []string
		for last := 0.0; !slices.Contains(messages, "tool greet completed"); {
			progress := <-told
			if progress.ProgressToken != token {
				continue // the first call's progress, about the end of the run
			}
			assert.Greater(t, progress.Progress, last)
			last, messages = progress.Progress, append(messages, progress.Message)
		}
		assert.Contains(t, messages, "tool greet started")
	}
}
