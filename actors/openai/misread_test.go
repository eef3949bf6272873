package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// The replies in the tests of this file were sent by real services and were once misread.

// streamOf returns a stream of the given events.
func streamOf(events ...string) openaitest.Step {
	return openaitest.Raw(200, "data: "+strings.Join(events, "\n\ndata: ")+"\n\ndata: [DONE]\n\n").WithHeader("Content-Type", "text/event-stream")
}

func once(t *testing.T, api openai.API, step openaitest.Step) (actors.Response, error) {
	t.Helper()
	srv := openaitest.New(t, step)
	model := modelAt(t, srv.URL())
	model.API = api
	return model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(t.Context(), question)
}

// Snowflake and some gateways send all fields, even empty ones.
func TestFieldsFilledWithZerosCountAsMissing(t *testing.T) {
	const zeros = `"refusal":"","function_call":{"name":"","arguments":""},"tool_calls":[{"index":0,"id":"","type":"","function":{"name":"","arguments":""},"custom":{"name":"","input":""}}],"audio":{"id":"","data":"","transcript":"","expires_at":0},"annotations":[],"images":null,"extra_content":null`
	const failure = `"error":{"message":"","type":"","param":"","code":0,"metadata":{"raw":""}}`
	for name, step := range map[string]openaitest.Step{
		"whole": openaitest.Raw(200, `{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"Fine.",`+zeros+`},"delta":{"content":""},"finish_reason":"stop","logprobs":{"content":[]},`+failure+`}],"usage":{"prompt_tokens":3,"completion_tokens":2},`+failure+`,"x_groq":{"usage":null,"error":""},"citations":[]}`),
		"stream": streamOf(`{"choices":[{"delta":{"content":"Fine.",`+zeros+`},"message":{"content":""},"finish_reason":"",`+failure+`}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`,
			`{"choices":[{"delta":{"content":"",`+zeros+`},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2},`+failure+`}`,
			`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := once(t, openai.Chat, step)
			require.NoError(t, err)
			require.Equal(t, "Fine.", got.Message.Text)
			require.Empty(t, got.Message.ToolCalls)
			require.Empty(t, got.Message.Parts)
			require.Equal(t, actors.FinishStop, got.Finish)
			require.Equal(t, core.Usage{InputTokens: 3, OutputTokens: 2}, got.Usage)
		})
	}
	got, err := once(t, openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":"","function_call":{"name":"","arguments":""},
		"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"custom":{"name":"","input":""}}]}}]}`))
	require.NoError(t, err)
	require.Equal(t, []actors.ToolCall{callOf("c", "f", "{}")}, got.Message.ToolCalls)
}

func TestAnErrorEventOfAnyLengthKeepsItsCode(t *testing.T) {
	long := strings.Repeat("You exceeded your current quota. ", 20)
	for name, event := range map[string]string{
		"flat":   `{"message":"` + long + `","type":"insufficient_quota","param":null,"code":"insufficient_quota"}`,
		"typed":  `{"type":"error","code":"insufficient_quota","message":"` + long + `","param":null}`,
		"nested": `{"error":{"message":"` + long + `","code":"insufficient_quota"}}`,
		"short":  `{"message":"pay","code":"insufficient_quota"}`,
	} {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, model func(*openaitest.Server) openai.Model) {
				if name == "nested" && strings.Contains(t.Name(), "foreign=true") {
					t.Skip("go-openai takes the line before the error for a part of it")
				}
				srv := openaitest.New(t, openaitest.Raw(200, "event: error\ndata: "+event+"\n\n").WithHeader("Content-Type", "text/event-stream"))
				_, err := model(srv).LLM(atOnce).Call(live.Watch(t.Context(), func(live.Delta) {}), question)
				require.ErrorIs(t, err, actors.ErrQuota)
				require.Len(t, srv.Requests(), 1)
				var failure *openai.Error
				require.ErrorAs(t, err, &failure)
				require.Equal(t, "insufficient_quota", failure.Code)
			})
		})
	}
}

func TestGooglesListOfErrorsIsAnErrorInAStreamToo(t *testing.T) {
	srv := openaitest.New(t,
		streamOf(`[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]`),
		streamOf(`{"choices":[{"delta":{"content":"Fi"}}]}`, `[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]`))
	_, err := llmAt(t, srv.URL(), atOnce).Call(t.Context(), question)
	var failure *openai.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, []any{400, "INVALID_ARGUMENT", "no"}, []any{failure.Status, failure.Type, failure.Message})
	require.Len(t, srv.Requests(), 2, "the first error is retried, the second is not")
}

func TestGroqsUsageIsFound(t *testing.T) {
	got, err := once(t, openai.Chat, streamOf(
		`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"x_groq":{"id":"req_1"}}`,
		`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Fine."},"finish_reason":null}]}`,
		`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.03,"prompt_tokens":21,"completion_tokens":3,"total_tokens":24}}}`))
	require.NoError(t, err)
	require.Equal(t, core.Usage{InputTokens: 21, OutputTokens: 3}, got.Usage)
}

// If Groq's parser rejects a call, Groq reports this both in plain replies and in streams.
func TestACallThatGroqCannotReadGoesToTheModel(t *testing.T) {
	const body = `{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=f>{\"n\": one}</function>"}}`
	for name, step := range map[string]openaitest.Step{
		"reply":  openaitest.Raw(400, body),
		"stream": openaitest.Raw(200, "event: error\ndata: "+body+"\n\n").WithHeader("Content-Type", "text/event-stream"),
	} {
		t.Run(name, func(t *testing.T) {
			srv := openaitest.New(t, step, openaitest.ToolCalls(openaitest.Call("f", `{"n":1}`)), openaitest.Text("Done."))
			tool := actors.NewTool("f", "F.", anyObject{}, func(_ context.Context, in struct{ N int }) (int, error) { return in.N, nil })
			st := state.New()
			defer st.Close()
			answer, err := actors.NewAgent("assistant", llmAt(t, srv.URL()), actors.WithTools(tool)).Call(st.Context(t.Context()), actors.Ask("?"))
			require.NoError(t, err)
			require.Equal(t, "Done.", answer.Text)
			require.Empty(t, records(t, st, record.StatusFailed))
			messages := srv.Requests()[1].Messages
			require.Equal(t, `<function=f>{"n": one}</function>`, messages[1].Content)
			require.Contains(t, messages[2].Content, "cannot be read (tool_use_failed: Failed to call a function.")
		})
	}
	got, err := once(t, openai.Chat, openaitest.Raw(400, `{"error":{"message":"no JSON","code":"json_validate_failed","failed_generation":"{"}}`))
	require.NoError(t, err)
	require.Equal(t, []any{"{", actors.FinishStop, "json_validate_failed: no JSON"}, []any{got.Message.Text, got.Finish, got.FinishReason})
	_, err = once(t, openai.Chat, openaitest.Raw(400, `{"error":{"message":"no JSON","code":"json_validate_failed","failed_generation":""}}`))
	require.Error(t, err)
	got, err = once(t, openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":null},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}`))
	require.NoError(t, err)
	require.Equal(t, actors.FinishMalformedCall, got.Finish)
}

// inBackground answers POST with a queued response and each GET with the next of the
// given responses.
func inBackground(t *testing.T, asked *[]string, then ...func() (*http.Response, error)) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		if r.Method == http.MethodPost {
			return reply(r, 200, `{"id":"resp_1","status":"queued","output":[]}`, "", ""), nil
		}
		require.Empty(t, r.ContentLength)
		next := then[0]
		if len(then) > 1 {
			then = then[1:]
		}
		resp, err := next()
		if resp != nil {
			resp.Request = r
		}
		return resp, err
	})}
}

func answering200(body string) func() (*http.Response, error) {
	return func() (*http.Response, error) { return reply(nil, 200, body, "", ""), nil }
}

func TestAQueuedResponseIsAskedForAndNotBegunAgain(t *testing.T) {
	for _, external := range []bool{false, true} {
		t.Run(fmt.Sprintf("foreign=%v", external), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askInBackground(t, external) })
		})
	}
}

// A second request would be charged again, so the queued response is polled instead.
func TestAResponseThatWasQueuedUnaskedIsPolledForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		pending := answering200(`{"id":"resp_1","status":"in_progress","output":[]}`)
		client := inBackground(t, &asked, pending, pending, pending, pending,
			answering200(`{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}],"usage":{"input_tokens":3,"output_tokens":2}}`))
		model := openai.Model{
			Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client,
			FirstToken: 2 * time.Second, Idle: time.Second,
		}
		got, err := model.LLM().Call(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, "Fine.", got.Message.Text)
		require.Equal(t, "POST /v1/responses", asked[0])
		require.NotContains(t, asked[1:], asked[0])
	})
}

func askInBackground(t *testing.T, external bool) {
	var asked []string
	client := inBackground(t, &asked,
		answering200(`{"id":"resp_1","status":"in_progress","output":[]}`),
		func() (*http.Response, error) { return nil, io.EOF },
		func() (*http.Response, error) { return reply(nil, 503, `busy`, "Retry-After", "60"), nil },
		answering200(`{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}],"usage":{"input_tokens":3,"output_tokens":2}}`))
	model := openai.Model{Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client}
	if external {
		model = openai.Model{Name: "m", API: openai.Responses, Client: newClientOn(client, "https://service.example/v1")}
	}
	began := time.Now()
	req := question
	req.Options.ExtraBody = map[string]any{"background": true, "store": true}
	got, err := model.LLM().Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "Fine.", got.Message.Text)
	require.Equal(t, core.Usage{InputTokens: 3, OutputTokens: 2}, got.Usage)
	require.Equal(t, []string{"POST /v1/responses", "GET /v1/responses/resp_1", "GET /v1/responses/resp_1", "GET /v1/responses/resp_1", "GET /v1/responses/resp_1"}, asked)
	require.Equal(t, 67*time.Second, time.Since(began))
}

func TestAQueuedResponseThatIsGoneIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		client := inBackground(t, &asked, func() (*http.Response, error) {
			return reply(nil, 404, `{"error":{"message":"no such response"}}`, "", ""), nil
		})
		model := openai.Model{Name: "m", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: client}
		_, err := model.LLM().Call(t.Context(), question)
		require.ErrorContains(t, err, "status 404: no such response")
		require.Len(t, asked, 2)

		asked = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		model.HTTPClient = inBackground(t, &asked, answering200(`{"id":"resp_1","status":"in_progress"}`))
		_, err = model.LLM().Call(ctx, question)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, strings.Count(strings.Join(asked, " "), "POST"))
	})
}

func TestEncryptedReasoningIsAskedForUnlessTheServiceHasNone(t *testing.T) {
	var includes []string
	model := openai.Model{Name: "my-deployment", API: openai.Responses, BaseURL: "https://service.example/v1", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		var body struct{ Include []string }
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		includes = append(includes, strings.Join(body.Include, " "))
		if len(body.Include) > 0 {
			return reply(r, 400, `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include"}}`, "", ""), nil
		}
		return reply(r, 200, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}]}`, "", ""), nil
	})}}
	llm := model.LLM()
	for range 2 {
		_, err := llm.Call(t.Context(), question)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"reasoning.encrypted_content", "", ""}, includes, "the request is not repeated with what the service has refused")
}

func TestPiecesOfCallsWithMadeUpIDsArePairedByTheirOrder(t *testing.T) {
	got, err := once(t, openai.Chat, streamOf(
		`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"n\""}},{"id":"b","function":{"name":"g","arguments":"{\"m\""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"id":"x1","function":{"arguments":":1"}},{"id":"x2","function":{"arguments":":2"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"id":"y1","function":{"arguments":"}"}},{"id":"y2","function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}`))
	require.NoError(t, err)
	require.Equal(t, []actors.ToolCall{callOf("a", "f", `{"n":1}`), callOf("b", "g", `{"m":2}`)}, got.Message.ToolCalls)
}

func TestResultsWithOtherIDsAnswerTheCallsInTheirOrder(t *testing.T) {
	calls := actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{callOf("a", "f", "{}"), callOf("b", "f", "{}"), callOf("c", "f", "{}")}}
	messages := []actors.Message{actors.User("?"), calls, actors.ToolResult("x", "1"), actors.ToolResult("b", "2"), actors.ToolResult("y", "3"), actors.ToolResult("z", "4"), actors.Assistant("ok")}
	body := sent(t, openai.Model{}, actors.Request{Messages: messages})
	var out []struct {
		ID string `json:"tool_call_id"`
	}
	require.NoError(t, json.Unmarshal(body["messages"], &out))
	require.Equal(t, []string{"a", "b", "c", "z"}, []string{out[2].ID, out[3].ID, out[4].ID, out[5].ID})
	require.Equal(t, "x", messages[2].ToolCallID, "the conversation itself is not changed")
}

func TestKeyFromTheEnvironmentIsSentToOthersOnlyOnRequest(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
	t.Setenv("OTHER_KEY", "sk-of-the-other")
	t.Setenv("OPENAI_BASE_URL", "")
	var header string
	status := 200
	ask := func(url string, opts ...actors.Option) error {
		header = ""
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			header = r.Header.Get("Authorization")
			return reply(r, status, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
		})}
		opts = append(opts, openai.WithHTTPClient(client))
		if url != "" {
			opts = append(opts, openai.WithBaseURL(url))
		}
		_, err := openai.New("m", opts...).Call(t.Context(), question)
		return err
	}
	for url, want := range map[string]string{
		"": "Bearer sk-of-the-environment", "https://api.openai.com/v1": "Bearer sk-of-the-environment", "https://eu.api.openai.com/v1": "Bearer sk-of-the-environment",
		"https://openai.com.evil.example/v1": "", "https://notopenai.com/v1": "", "http://localhost:11434/v1": "",
	} {
		require.NoError(t, ask(url))
		require.Equal(t, want, header, url)
	}
	require.NoError(t, ask("https://a.example/v1", openai.WithAPIKeyEnv("OPENAI_API_KEY")))
	require.Equal(t, "Bearer sk-of-the-environment", header)
	require.NoError(t, ask("https://a.example/v1", openai.WithAPIKeyEnv("OTHER_KEY")))
	require.Equal(t, "Bearer sk-of-the-other", header)
	require.ErrorContains(t, ask("https://a.example/v1", openai.WithAPIKeyEnv("NO_SUCH_KEY")), "environment variable NO_SUCH_KEY (APIKeyEnv) is not set")

	status = 401
	require.ErrorContains(t, ask("https://a.example/v1"), "OPENAI_API_KEY is not sent to a.example unless selected with openai.WithAPIKeyEnv")
	require.NotContains(t, ask("https://api.openai.com/v1").Error(), "WithAPIKeyEnv")

	t.Setenv("OPENAI_BASE_URL", "https://a.example/v1")
	status = 200
	require.NoError(t, ask(""), "a key and a base URL of the environment belong together")
	require.Equal(t, "Bearer sk-of-the-environment", header)
}

// Perplexity sends the cost as an object. Answers with such a cost were once rejected, although
// they had to be paid for.
func TestCostThatIsNotANumberDoesNotLoseTheAnswer(t *testing.T) {
	for cost, want := range map[string]float64{
		`0.25`: 0.25,
		`{"input_tokens_cost":8e-06,"output_tokens_cost":2e-06,"request_cost":0.005,"total_cost":0.00501}`: 0.00501,
		`"0.25 USD"`: 0, `-1`: 0, `null`: 0, `[1]`: 0, `{"total_cost":"x"}`: 0,
	} {
		for api, body := range map[openai.API]string{
			openai.Chat:      `{"choices":[{"message":{"content":"Fine."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":%s}}`,
			openai.Responses: `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}],"usage":{"input_tokens":3,"output_tokens":2,"cost":%s}}`,
		} {
			model := openai.Model{Name: "m", API: api, BaseURL: "https://service.example/v1", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return reply(r, 200, fmt.Sprintf(body, cost), "", ""), nil
			})}}
			got, err := model.LLM().Call(t.Context(), question)
			require.NoError(t, err, cost)
			require.Equal(t, "Fine.", got.Message.Text)
			require.Equal(t, core.Usage{InputTokens: 3, OutputTokens: 2, Cost: want}, got.Usage, cost)
		}
	}
}
