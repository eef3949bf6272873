package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// asked returns an assistant message with tool calls.
func asked(calls ...actors.ToolCall) actors.Message {
	return actors.Message{Role: actors.RoleAssistant, ToolCalls: calls}
}

func callOf(id, name, arguments string) actors.ToolCall {
	return actors.ToolCall{ID: id, Name: name, Arguments: arguments}
}

func TestAReplyIsReadAsItIs(t *testing.T) {
	refused := actors.Assistant("I cannot.")
	refused.Refusal = true
	thought := actors.Assistant("Fine.")
	thought.Reasoning = "Hm."
	for _, tc := range []struct {
		name, choice string
		want         actors.Message
		finish       actors.Finish
		reason       string
	}{
		{"refusal", `{"message":{"content":null,"refusal":"I cannot."},"finish_reason":"stop"}`, refused, actors.FinishRefusal, "stop"},
		{"refusal in a part", `{"message":{"content":[{"type":"refusal","refusal":"I cannot."}]},"finish_reason":"stop"}`, refused, actors.FinishRefusal, "stop"},
		{"text and a refusal", `{"message":{"content":"Hm.","refusal":"I cannot."},"finish_reason":"stop"}`, actors.Assistant("Hm."), actors.FinishStop, "stop"},
		{"content in parts", `{"message":{"content":[{"type":"text","text":"Fi"},{"type":"text","text":"ne."}]},"finish_reason":"stop"}`, actors.Assistant("Fine."), actors.FinishStop, "stop"},
		{"thoughts in parts", `{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Fine."}]}}`, thought, actors.FinishStop, ""},
		{"unknown finish reason", `{"message":{"content":"Fine."},"finish_reason":"bored"}`, actors.Assistant("Fine."), actors.FinishOther, "bored"},
		{"no finish reason", `{"message":{"content":"Fine."},"finish_reason":null}`, actors.Assistant("Fine."), actors.FinishStop, ""},
		{"content that is a document", `{"message":{"content":{ "city" : "Oslo" }}}`, actors.Assistant(`{"city":"Oslo"}`), actors.FinishStop, ""},
		{"tool calls announced, and none", `{"message":{"content":"Fine.","tool_calls":[]},"finish_reason":"tool_calls"}`, actors.Assistant("Fine."), actors.FinishStop, "tool_calls"},
		{"cut", `{"message":{"content":"Fi"},"finish_reason":"length"}`, actors.Assistant("Fi"), actors.FinishLength, "length"},
		{"filtered", `{"message":{"content":""},"finish_reason":"content_filter"}`, actors.Assistant(""), actors.FinishFilter, "content_filter"},
		{
			"cut tool call", `{"message":{"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"n\":"}}]},"finish_reason":"length"}`,
			asked(callOf("x", "f", `{"n":`)), actors.FinishLength, "length",
		},
		{
			"tool calls and stop", `{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}`,
			asked(callOf("x", "f", `{}`)), actors.FinishToolCalls, "stop",
		},
		{
			"arguments as an object", `{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":{ "n" : 1 }}}]},"finish_reason":"tool_calls"}`,
			asked(callOf("x", "f", `{"n":1}`)), actors.FinishToolCalls, "tool_calls",
		},
		{
			"no arguments", `{"message":{"tool_calls":[{"id":"x","function":{"name":"f"}},{"id":"y","function":{"name":"f","arguments":null}}]},"finish_reason":"tool_calls"}`,
			asked(callOf("x", "f", ``), callOf("y", "f", ``)), actors.FinishToolCalls, "tool_calls",
		},
		{
			"tool calls without ID", `{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"id":"","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}`,
			asked(callOf("call_2", "f", "{}"), callOf("call_3", "g", "{}")), actors.FinishToolCalls, "tool_calls",
		},
		{
			"tool calls with the same ID", `{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"x","function":{"name":"g","arguments":"{}"}},{"id":7,"function":{"name":"h","arguments":"{}"}}]},"finish_reason":"tool_calls"}`,
			asked(callOf("x", "f", "{}"), callOf("call_2", "g", "{}"), callOf("7", "h", "{}")), actors.FinishToolCalls, "tool_calls",
		},
		{
			"legacy function call", `{"message":{"content":null,"function_call":{"name":"f","arguments":"{\"n\":1}"}},"finish_reason":"function_call"}`,
			asked(callOf("call_2", "f", `{"n":1}`)), actors.FinishToolCalls, "function_call",
		},
		{
			"custom tool call", `{"message":{"tool_calls":[{"id":"x","type":"custom","custom":{"name":"apply_patch","input":"*** Begin"}}]},"finish_reason":"tool_calls"}`,
			asked(callOf("x", "apply_patch", `*** Begin`)), actors.FinishToolCalls, "tool_calls",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, llm := setup(t, []openaitest.Step{openaitest.Raw(200, `{"id":5,"created":1.7e9,"model":"m","choices":[`+tc.choice+`]}`)})
			got, err := llm.Call(t.Context(), actors.Request{Messages: []actors.Message{
				actors.User("Call f."),
				asked(callOf("call_1", "f", "{}")),
				actors.ToolResult("call_1", "1"),
			}})
			require.NoError(t, err)
			require.Equal(t, actors.Response{Message: tc.want, Finish: tc.finish, FinishReason: tc.reason, ID: "5", Model: "m"}, got)
		})
	}
}

func TestUsageIsReadInEveryForm(t *testing.T) {
	for _, tc := range []struct {
		usage string
		want  core.Usage
	}{
		{`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}`, core.Usage{InputTokens: 12, OutputTokens: 5}},
		{`{"prompt_tokens":12.0,"completion_tokens":5.0}`, core.Usage{InputTokens: 12, OutputTokens: 5}},
		{`{"prompt_tokens":"12","completion_tokens":null}`, core.Usage{InputTokens: 12}},
		{
			`{"prompt_tokens":12,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3},"cost":0.25}`,
			core.Usage{InputTokens: 12, OutputTokens: 5, CachedInputTokens: 8, CacheWriteTokens: 2, ReasoningTokens: 3, Cost: 0.25},
		},
		{`{"prompt_tokens":12,"prompt_cache_hit_tokens":7,"prompt_tokens_details":null}`, core.Usage{InputTokens: 12, CachedInputTokens: 7}},
		{`null`, core.Usage{}},
		{`{"prompt_tokens":-1,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":-1}}`, core.Usage{}},
		{`{"prompt_tokens":12,"completion_tokens":-5,"completion_tokens_details":{"reasoning_tokens":-1}}`, core.Usage{InputTokens: 12}},
	} {
		t.Run(tc.usage, func(t *testing.T) {
			_, st, llm := setup(t, []openaitest.Step{openaitest.Raw(200, `{"choices":[{"message":{"content":"Fine."}}],"usage":`+tc.usage+`}`)})
			got, err := llm.Call(st.Context(t.Context()), question)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Usage)
			detail := records(t, st, record.StatusCompleted)[0].Detail
			if tc.want.IsZero() {
				require.True(t, detail == nil || detail.Usage.IsZero())
				return
			}
			require.Equal(t, tc.want, detail.Usage)
		})
	}
}

// Services also report errors with a success status, when they fail after sending the status.
func TestAnErrorInASuccessIsAnError(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		text       string
		class      record.Class
		retried    bool
	}{
		{"no money", `{"error":{"code":402,"message":"Insufficient credits"},"user_id":"u"}`, "status 402, request req_1: Insufficient credits", record.ClassPermanent, false},
		{"limit", `{"error":{"code":429,"message":"slow down"}}`, "status 429, request req_1: slow down", record.ClassRateLimit, true},
		{"a code in words", `{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`, "code rate_limit_exceeded, request req_1: slow down", record.ClassRateLimit, true},
		{"invalid", `{"error":{"type":"invalid_request_error","message":"bad","code":null}}`, "type invalid_request_error, request req_1: bad", record.ClassClient, false},
		{"a text", `{"error":"overloaded"}`, "openai: request req_1: overloaded", record.ClassServer, true},
		{"null", `{"error":null,"choices":[{"finish_reason":"error","message":{"content":"Half of"},"error":{"code":502,"message":"the provider failed","metadata":{"raw":"boom"}}}]}`, "status 502, request req_1: the provider failed: boom", record.ClassServer, true},
		{"no words", `{"choices":[{"finish_reason":"error","message":{"content":"Half of"}}]}`, "ended the answer with an error", record.ClassServer, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			steps := []openaitest.Step{openaitest.Raw(200, tc.body)}
			if tc.retried {
				steps = append(steps, openaitest.Text("Fine."))
			}
			_, st, llm := setup(t, steps, atOnce)
			_, err := llm.Call(st.Context(t.Context()), question)
			require.Equal(t, tc.retried, err == nil, "%v", err)
			failed := records(t, st, record.StatusFailed)[0]
			require.ErrorContains(t, failed.Err, tc.text)
			require.Equal(t, tc.class, failed.Class)
		})
	}
}

// The service answers with a failure status and a truncated body.
func TestTheStatusOfAFailureCountsEvenIfItsBodyIsCut(t *testing.T) {
	for status, want := range map[int]record.Class{400: record.ClassClient, 401: record.ClassClient, 403: record.ClassClient, 429: record.ClassRateLimit, 500: record.ClassServer} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(status)
				fmt.Fprint(w, `{"error":{"message":"you can`)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
			defer srv.Close()
			st := state.New()
			defer st.Close()
			_, err := llmAt(t, srv.URL, actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(st.Context(t.Context()), question)
			require.ErrorContains(t, err, fmt.Sprintf("status %d: ", status))
			require.ErrorContains(t, err, "you can")
			require.Equal(t, want, record.Classify(err))
		})
	}
}

func TestAHugeFailureIsNotKept(t *testing.T) {
	_, st, llm := setup(t, []openaitest.Step{openaitest.Raw(500, strings.Repeat("x", 64<<20))}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	_, err := llm.Call(st.Context(t.Context()), question)
	var failure *openai.Error
	require.ErrorAs(t, err, &failure)
	require.Less(t, len(failure.Error()), 1000)
	require.Less(t, len(failure.Unwrap().Error()), 100<<10)
}

func TestACodeOfNullIsNotShown(t *testing.T) {
	_, _, llm := setup(t, []openaitest.Step{openaitest.Raw(400, `{"error":{"message":"bad","type":"t","param":null,"code":null}}`)})
	_, err := llm.Call(t.Context(), question)
	require.ErrorContains(t, err, "openai: status 400, type t, request req_1: bad")
}

func TestARedirectThatLosesTheRequestIsAnError(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		mux := http.NewServeMux()
		mux.HandleFunc("/old/chat/completions", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/new/chat/completions", status) })
		mux.HandleFunc("/new/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"choices":[{"message":{"content":"Fine."}}]}`)
		})
		srv := httptest.NewServer(mux)
		_, err := llmAt(t, srv.URL+"/old").Call(t.Context(), question)
		require.ErrorIs(t, err, core.ErrPermanent)
		require.ErrorContains(t, err, "redirects from "+srv.URL+"/old/chat/completions to "+srv.URL+"/new/chat/completions")
		srv.Close()
	}
	// 307 and 308 keep the method and the body.
	mux := http.NewServeMux()
	mux.HandleFunc("/old/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/new/chat/completions", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/new/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Model string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, body.Model)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	got, err := llmAt(t, srv.URL+"/old").Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "gpt-4o-mini", got.Message.Text)
}

// The next attempt is made at the time requested by the service.
func TestADelayIsFoundWhereverTheServicePutsIt(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // initial time of every bubble
	google := `[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]`
	const plain = `{"error":{"message":"limit"}}`
	for _, tc := range []struct {
		name, body string
		header     [][2]string
		want       time.Duration
	}{
		{"Google's list", google, nil, 34500 * time.Millisecond},
		{"Google's object", strings.Trim(google, "[]"), nil, 34500 * time.Millisecond},
		{"Retry-After first", google, [][2]string{{"Retry-After", "2"}}, 2 * time.Second},
		{"duration", plain, [][2]string{{"X-Ratelimit-Reset-Requests", "6m0s"}}, 6 * time.Minute},
		{"milliseconds", plain, [][2]string{{"X-Ratelimit-Reset-Tokens", "120ms"}}, 120 * time.Millisecond},
		{"days", plain, [][2]string{{"X-Ratelimit-Reset-Requests", "1d2h"}}, 26 * time.Hour},
		{"number", plain, [][2]string{{"X-Ratelimit-Reset-Requests", "59"}}, 59 * time.Second},
		{"seconds since 1970", plain, [][2]string{{"X-Ratelimit-Reset", fmt.Sprint(begin.Unix() + 61)}}, 61 * time.Second},
		{"milliseconds since 1970", plain, [][2]string{{"X-Ratelimit-Reset", fmt.Sprint(begin.UnixMilli() + 1500)}}, 1500 * time.Millisecond},
		{"RFC 3339", plain, [][2]string{{"Anthropic-Ratelimit-Tokens-Reset", begin.Add(42 * time.Second).Format(time.RFC3339)}}, 42 * time.Second},
		{"the one that is reached", plain, [][2]string{
			{"X-Ratelimit-Reset-Requests", "8ms"},
			{"X-Ratelimit-Remaining-Requests", "4"},
			{"X-Ratelimit-Reset-Tokens", "9s"},
			{"X-Ratelimit-Remaining-Tokens", "0"},
		}, 9 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if asked++; asked > 1 {
						return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
					}
					resp := reply(r, 429, tc.body, "", "")
					for _, h := range tc.header {
						resp.Header.Set(h[0], h[1])
					}
					return resp, nil
				})}
				st := state.New()
				defer st.Close()
				llm := openai.New("m", openai.WithBaseURL("http://service/v1"), openai.WithHTTPClient(client),
					actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay, MaxRetryAfter: 48 * time.Hour}))
				_, err := llm.Call(st.Context(t.Context()), question)
				require.NoError(t, err)
				require.Equal(t, tc.want, time.Since(begin))
				require.Equal(t, record.SourceServer, records(t, st, record.StatusRetrying)[0].DelaySource)
			})
		})
	}
}

func TestAResetThatSaysNothingIsLeftOut(t *testing.T) {
	for _, value := range []string{"", "-5", "soon", "xd", "99999d", "5d-1h", "1e300", "NaN", "2001-01-01", "200000000"} {
		_, st, llm := setup(t, []openaitest.Step{
			openaitest.Failure(429, "limit").WithHeader("X-Ratelimit-Reset-Requests", value), openaitest.Text("Fine."),
		}, atOnce)
		_, err := llm.Call(st.Context(t.Context()), question)
		require.NoError(t, err)
		require.Equal(t, record.SourceBackoff, records(t, st, record.StatusRetrying)[0].DelaySource, "%q", value)
	}
}

func TestMeaningOfAFailureIsFoundLiveAndOnReplay(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   error
	}{
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`, actors.ErrContextTooLong},
		{400, `{"object":"error","message":"…","error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000","type":"BadRequestError","code":400}}`, actors.ErrContextTooLong},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, actors.ErrContextTooLong},
		{400, `[{"error":{"code":400,"message":"The input token count (40000) exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}]`, actors.ErrContextTooLong},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, actors.ErrQuota},
		{402, `{"error":{"message":"Insufficient Balance","code":"invalid_request_error"}}`, actors.ErrQuota},
		{400, `{"error":{"message":"filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, actors.ErrFiltered},
		{400, `{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model","param":"response_format"}}`, actors.ErrFormatUnsupported},
	} {
		t.Run(tc.want.Error(), func(t *testing.T) {
			srv := openaitest.New(t, openaitest.Raw(tc.status, tc.body))
			store := memstore.New()
			for range 2 { // the second time, the call is recalled
				st, err := state.Open(t.Context(), store, "r")
				require.NoError(t, err)
				_, err = llmAt(t, srv.URL(), atOnce).Call(st.Context(t.Context()), question)
				require.ErrorIs(t, err, tc.want)
				require.ErrorIs(t, err, core.ErrPermanent)
				for _, other := range []error{actors.ErrContextTooLong, actors.ErrQuota, actors.ErrFiltered, actors.ErrFormatUnsupported, actors.ErrRefused} {
					require.Equal(t, errors.Is(tc.want, other), errors.Is(err, other), "%v", other)
				}
				var failure *openai.Error
				require.ErrorAs(t, err, &failure)
				require.Equal(t, tc.status, failure.Status)
				require.NoError(t, st.Close())
			}
			require.Len(t, srv.Requests(), 1)
		})
	}
}

// Some services need part of their data sent back: DeepSeek its reasoning, Gemini its signatures,
// OpenRouter its details.
func TestOpaqueDataIsSentBackToItsService(t *testing.T) {
	const first = `{"choices":[{"message":{"role":"assistant","content":"Let me look.","reasoning_content":"Hm.","reasoning_details":[{"type":"reasoning.encrypted","data":"xyz","index":0}],
		"annotations":[],"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":"tool_calls"}]}`
	srv := openaitest.New(t, openaitest.Raw(200, first), openaitest.Repeat(2, openaitest.Text("Fine.")))
	llm := llmAt(t, srv.URL())
	got, err := llm.Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Hm.", got.Message.Reasoning)

	// A conversation survives being stored.
	stored, err := json.Marshal(got.Message)
	require.NoError(t, err)
	var message actors.Message
	require.NoError(t, json.Unmarshal(stored, &message))
	next := actors.Request{Messages: append(question.Messages[:1:1], message, actors.ToolResult("a", "1"))}
	_, err = llm.Call(t.Context(), next)
	require.NoError(t, err)
	var body struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal(srv.Requests()[1].Body, &body))
	require.JSONEq(t, `{"role":"assistant","content":"Let me look.","reasoning_content":"Hm.","reasoning_details":[{"type":"reasoning.encrypted","data":"xyz","index":0}],
		"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`, string(body.Messages[1]))

	// Other services would refuse the data.
	next.Messages[1].Opaque.Wire = "chat api.elsewhere.example"
	_, err = llm.Call(t.Context(), next)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(srv.Requests()[2].Body, &body))
	require.NotContains(t, string(body.Messages[1]), "Hm.")
	require.NotContains(t, string(body.Messages[1]), "c2ln")
}

func TestInvalidArgumentsAreSentBackAsAnEmptyObject(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text("Fine."))
	var messages []actors.Message
	for i, arguments := range []string{``, `{"n":`, `[1]`, `null`, `n=1`, `{"n":1}`} {
		id := fmt.Sprint(i)
		messages = append(messages, asked(callOf(id, "f", arguments)), actors.ToolResult(id, "1"))
	}
	_, err := llmAt(t, srv.URL()).Call(t.Context(), actors.Request{Messages: append(messages, actors.User("Well?"))})
	require.NoError(t, err)
	sent := srv.Requests()[0].Messages
	for i := range 6 {
		want := `{}`
		if i == 5 {
			want = `{"n":1}`
		}
		require.Equal(t, want, sent[2*i].ToolCalls[0].Arguments)
	}
}
