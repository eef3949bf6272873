package openaitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

func TestRequestsKeepWhatWasAsked(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text("Hi"))
	_, err := goOpenAI(t, srv).CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{
		Model:       "gpt-4o",
		Temperature: 0.5,
		Messages: []openai.ChatCompletionMessage{
			{Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "How cold "}, {Type: "text", Text: "is it?"}}},
			{Role: "assistant", ToolCalls: []openai.ToolCall{
				{ID: "call_1", Type: "function", Function: openai.FunctionCall{Name: "get_weather", Arguments: "{}"}},
			}},
			{Role: "tool", ToolCallID: "call_1", Content: "4"},
		},
		Tools: []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{
			Name: "get_weather", Description: "Tells it.", Parameters: map[string]string{"type": "object"},
		}}},
	})
	require.NoError(t, err)

	require.Len(t, srv.Requests(), 1)
	got := srv.Requests()[0]
	require.Equal(t, "gpt-4o", got.Model)
	require.Equal(t, []openaitest.Message{
		{Role: "user", Content: "How cold is it?"},
		{Role: "assistant", ToolCalls: []openaitest.ToolCall{{ID: "call_1", Name: "get_weather", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "call_1", Content: "4"},
	}, got.Messages)
	require.Equal(t, []openaitest.ToolResult{{CallID: "call_1", Name: "get_weather", Content: "4"}}, got.ToolResults())
	require.Equal(t, "4", got.LastMessage().Content)
	require.Len(t, got.Tools, 1)
	require.Equal(t, "get_weather", got.Tools[0].Name)
	require.Equal(t, "Tells it.", got.Tools[0].Description)
	require.JSONEq(t, `{"type":"object"}`, string(got.Tools[0].Parameters))
	require.Equal(t, "POST", got.Method)
	require.Equal(t, "/v1/chat/completions", got.Path)
	require.Equal(t, "Bearer secret", got.Header.Get("Authorization"))
	require.Contains(t, string(got.Body), `"temperature":0.5`)
	require.False(t, got.At.IsZero())
	require.Equal(t, 1, got.Step)
}

func TestAnUnexpectedRequestIsRefusedAndReported(t *testing.T) {
	const asked = `{"model":"gpt-4o","messages":[{"role":"user","content":"?"},` +
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},` +
		`{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`
	for _, tc := range []struct{ name, method, path, body, want string }{
		{"path", "POST", "/embeddings", hello, "only /v1/chat/completions, /v1/responses and the corresponding paths of Azure are served"},
		{"method", "GET", "/chat/completions", "", "only POST is served"},
		{"no JSON", "POST", "/chat/completions", `{"model":`, "malformed request"},
		{"empty body", "POST", "/chat/completions", ``, "malformed request"},
		{"no model", "POST", "/chat/completions", `{"messages":[{"role":"user","content":"Hello"}]}`, "no model"},
		{"no messages", "POST", "/chat/completions", `{"model":"gpt-4o"}`, "no messages"},
		{"role", "POST", "/chat/completions", `{"model":"m","messages":[{"role":"robot","content":"Hello"}]}`, `unknown role "robot"`},
		{"content", "POST", "/chat/completions", `{"model":"m","messages":[{"role":"user","content":7}]}`, "messages[0]: content"},
		{"nameless tool", "POST", "/chat/completions", hello[:len(hello)-1] + `,"tools":[{"type":"function"}]}`, "a function without a name"},
		{"nameless call", "POST", "/chat/completions", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{}]}]}`, "a tool call without id"},
		{"nameless result", "POST", "/chat/completions", `{"model":"m","messages":[{"role":"tool","content":"4"}]}`, "without tool_call_id"},
		{"Responses, input", "POST", "/responses", `{"model":"m","input":7}`, "malformed request: input"},
		{"Responses, nothing", "POST", "/responses", `{"model":"m","input":[]}`, "no messages"},
		{"Responses, no result", "POST", "/responses", `{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]}`, "missing tool result: a (f)"},
		{"no tool result", "POST", "/chat/completions", asked + `]}`, "missing tool result: a (f), b (g)"},
		{
			"one tool result", "POST", "/chat/completions",
			asked + `,{"role":"tool","tool_call_id":"b","content":"4"},{"role":"user","content":"?"}]}`, "missing tool result: a (f)",
		},
		{
			"result of no call", "POST", "/chat/completions",
			`{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":"4"}]}`, `messages[0] is the result of "c"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := &fakeT{}
			srv := openaitest.New(fake, openaitest.Forever(openaitest.Text("Hi")))
			defer fake.end()
			req, err := http.NewRequestWithContext(t.Context(), tc.method, srv.URL()+tc.path, strings.NewReader(tc.body))
			require.NoError(t, err)
			res, err := newClient(t).Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)

			require.Equal(t, 400, res.StatusCode)
			require.Equal(t, "false", res.Header.Get("X-Should-Retry"))
			require.Contains(t, errorBody(t, string(body)).Message, tc.want)
			require.Equal(t, "unexpected_request", errorBody(t, string(body)).Code)
			require.Len(t, fake.reported(), 1)
			require.Contains(t, fake.reported()[0], tc.want)
			require.ErrorIs(t, srv.Err(), openaitest.ErrUnexpected)
			require.Len(t, srv.Requests(), 1)
			require.Zero(t, srv.Requests()[0].Step)
		})
	}
}

func TestARequestAfterTheLastStepIsUnexpected(t *testing.T) {
	fake := &fakeT{}
	srv := openaitest.New(fake, openaitest.Text("Hi"))
	defer fake.end()
	_, err := ask(t, srv)
	require.NoError(t, err)
	_, err = ask(t, srv)
	var apiErr *openai.APIError
	require.ErrorAs(t, err, &apiErr)
	require.Equal(t, 400, apiErr.HTTPStatusCode)
	require.Contains(t, apiErr.Message, "unexpected request 2: the script has ended")
	require.Contains(t, apiErr.Message, `model "gpt-4o", 1 messages, the last from user: "Hello"`)
	require.Len(t, fake.reported(), 1)
}

func TestARefusedRequestUsesUpNoStep(t *testing.T) {
	fake := &fakeT{}
	srv := openaitest.New(fake, openaitest.Text("Hi"))
	defer fake.end()
	status, _, _ := answer(t, srv, `{}`)
	require.Equal(t, 400, status)
	_, err := ask(t, srv)
	require.NoError(t, err)
}

func TestUnplayedStepsAreReportedAtTheEnd(t *testing.T) {
	fake := &fakeT{}
	srv := openaitest.New(fake, openaitest.Repeat(2, openaitest.Text("Hi")), openaitest.Reset())
	_, err := ask(t, srv)
	require.NoError(t, err)
	require.NoError(t, srv.Err(), "nothing is left over before the end")
	fake.end()
	require.Equal(t, []string{
		`openaitest: unplayed steps: the script stopped before step 1 of 2 (text "Hi"), played 1 of 2 times`,
	}, fake.reported())
	require.ErrorIs(t, srv.Err(), openaitest.ErrUnplayed)
}

func TestAForeverStepIsNeverLeftOver(t *testing.T) {
	srv, err := openaitest.Start(openaitest.Forever(openaitest.Text("Hi")))
	require.NoError(t, err)
	require.NoError(t, srv.Close())
}

func TestCloseTwiceReportsOnce(t *testing.T) {
	fake := &fakeT{}
	srv := openaitest.New(fake, openaitest.Text("Hi"))
	first := srv.Close()
	require.ErrorIs(t, first, openaitest.ErrUnplayed)
	require.Equal(t, first, srv.Close())
	fake.end()
	require.Len(t, fake.reported(), 1)
}

func TestCloseReturnsWhatWasUnexpected(t *testing.T) {
	srv, err := openaitest.Start()
	require.NoError(t, err)
	_, err = ask(t, srv)
	require.Error(t, err)
	require.ErrorIs(t, srv.Close(), openaitest.ErrUnexpected)
}

func TestRespondChoosesByTheRequest(t *testing.T) {
	srv := openaitest.New(t, openaitest.Forever(openaitest.Respond(func(r openaitest.Request) openaitest.Step {
		if r.LastMessage().Content == "fail" {
			return openaitest.Failure(500, "as you wish")
		}
		return openaitest.Text("You said " + r.LastMessage().Content)
	})))
	_, err := ask(t, srv, openai.ChatCompletionMessage{Role: "user", Content: "fail"})
	require.ErrorContains(t, err, "as you wish")
	got, err := ask(t, srv, openai.ChatCompletionMessage{Role: "user", Content: "hey"})
	require.NoError(t, err)
	require.Equal(t, "You said hey", got.Choices[0].Message.Content)
}

func TestRespondCanRefuseARequest(t *testing.T) {
	for want, respond := range map[string]func(openaitest.Request) openaitest.Step{
		"who are you": func(openaitest.Request) openaitest.Step { return openaitest.Refuse("who are you") },
		"zero Step":   func(openaitest.Request) openaitest.Step { return openaitest.Step{} },
		"repeats":     func(openaitest.Request) openaitest.Step { return openaitest.Repeat(2, openaitest.Text("Hi")) },
		"panicked":    func(openaitest.Request) openaitest.Step { panic("oh") },
		"gpt-5": func(openaitest.Request) openaitest.Step {
			return openaitest.Text("Hi").Expect(openaitest.HasModel("gpt-5"))
		},
	} {
		t.Run(want, func(t *testing.T) {
			fake := &fakeT{}
			srv := openaitest.New(fake, openaitest.Respond(respond))
			defer fake.end()
			status, _, body := answer(t, srv, hello)
			require.Equal(t, 400, status)
			require.Contains(t, errorBody(t, body).Message, want)
			require.Len(t, fake.reported(), 1)
		})
	}
}

func TestConcurrentRequestsShareTheScript(t *testing.T) {
	const askers, asks = 16, 8
	var steps []openaitest.Step
	for i := range askers * asks / 2 {
		steps = append(steps, openaitest.Text(fmt.Sprint(i)))
	}
	steps = append(steps, openaitest.Repeat(askers*asks/2, openaitest.ToolCalls(openaitest.Call("f", nil))))
	srv := openaitest.New(t, steps...)

	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range askers {
		client := goOpenAI(t, srv)
		wg.Go(func() {
			for range asks {
				got, err := client.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{
					Model: "gpt-4o", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Hello"}},
				})
				if err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				mu.Lock()
				if msg := got.Choices[0].Message; len(msg.ToolCalls) > 0 {
					seen[msg.ToolCalls[0].ID]++
				} else {
					seen[msg.Content]++
				}
				mu.Unlock()
				_ = srv.Requests()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, askers*asks, "each text and each ID once")
	for i, req := range srv.Requests() {
		require.Equal(t, min(i+1, askers*asks/2+1), req.Step)
	}
}

func TestCloseWaitsForAnExchange(t *testing.T) {
	arrived := make(chan struct{})
	var finished atomic.Bool
	srv := openaitest.New(t, openaitest.Respond(func(openaitest.Request) openaitest.Step {
		close(arrived)
		<-time.After(20 * time.Millisecond) // Long enough to detect a Close that does not wait.
		finished.Store(true)
		return openaitest.Reset()
	}))
	client := newClient(t)
	done := make(chan error, 1)
	go func() {
		_, err := post(t.Context(), client, srv, hello)
		done <- err
	}()
	<-arrived
	require.NoError(t, srv.Close())
	require.True(t, finished.Load())
	require.Error(t, <-done)
}

func TestCloseIsSafeWhileClientsArrive(t *testing.T) {
	for range 50 {
		srv, err := openaitest.Start(openaitest.Forever(openaitest.Text("Hi")))
		require.NoError(t, err)
		var clients sync.WaitGroup
		for range 8 {
			client := newClient(t)
			clients.Go(func() {
				for {
					res, err := post(t.Context(), client, srv, hello)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
		require.NoError(t, srv.Close())
		clients.Wait()
	}
}

// A bubble ends only when all goroutines started in it have ended.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := []openaitest.Step{
			openaitest.Text("Hi"), openaitest.Reset(), openaitest.HangUp(),
			openaitest.Text("Hi").CutAfter(1), openaitest.Failure(500, "oh"),
		}
		arrived := make(chan struct{})
		srv := openaitest.New(t, append(broken, openaitest.Respond(func(openaitest.Request) openaitest.Step {
			close(arrived)
			return openaitest.Stall()
		}))...)
		transport := &http.Transport{}
		send := func() {
			res, err := post(t.Context(), &http.Client{Transport: transport}, srv, hello)
			if err != nil {
				return
			}
			_, _ = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		for range broken {
			send()
		}
		var stalled sync.WaitGroup
		stalled.Go(send)
		<-arrived
		require.NoError(t, srv.Close())
		stalled.Wait()
		transport.CloseIdleConnections()
	})
}
