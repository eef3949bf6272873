package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func TestAnAnswerHasTextModelFinishReasonAndUsage(t *testing.T) {
	srv, st, llm := setup(t, []openaitest.Step{
		openaitest.Text("Fine.").WithUsage(12, 5).Expect(openaitest.HasModel("gpt-4o-mini")),
	})
	got, err := llm.Call(st.Context(t.Context()), question)
	require.NoError(t, err)
	require.Equal(t, actors.Response{
		Message:      actors.Assistant("Fine."),
		Finish:       actors.FinishStop,
		FinishReason: "stop",
		ID:           "chatcmpl-1",
		Model:        "gpt-4o-mini",
		Usage:        core.Usage{InputTokens: 12, OutputTokens: 5},
	}, got)
	require.Len(t, srv.Requests(), 1)
	require.Empty(t, srv.Requests()[0].Header.Values("Idempotency-Key"), "net/http would repeat requests that have one")
}

func TestUsageIsInTheRecordOfEachAttempt(t *testing.T) {
	const noChoices = `{"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}`
	_, st, llm := setup(t, []openaitest.Step{
		openaitest.Raw(200, noChoices), openaitest.Text("Fine.").WithUsage(12, 5),
	}, atOnce)
	_, err := llm.Call(st.Context(t.Context()), question)
	require.NoError(t, err)
	require.Equal(t, core.Usage{InputTokens: 12, OutputTokens: 3}, records(t, st, record.StatusFailed)[0].Detail.Usage)
	require.Equal(t, core.Usage{InputTokens: 12, OutputTokens: 5}, records(t, st, record.StatusCompleted)[0].Detail.Usage)
}

func TestItWorksOutsideARun(t *testing.T) {
	_, _, llm := setup(t, []openaitest.Step{openaitest.Failure(500, "oh"), openaitest.Text("Fine.")}, atOnce)
	got, err := llm.Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Fine.", got.Message.Text)
}

func TestAgentCallsToolsAndSendsTheirErrorsToTheModel(t *testing.T) {
	srv, st, llm := setup(t, []openaitest.Step{
		openaitest.ToolCalls(
			openaitest.Call("get_weather", `{"city":"Oslo"}`),
			openaitest.Call("get_weather", `{"city":"Atlantis"}`),
		).WithText("Let me look.").WithUsage(20, 9).Expect(openaitest.HasTool("get_weather")),
		openaitest.Text("4 degrees in Oslo.").WithUsage(40, 6).Expect(
			openaitest.HasMessage("system", "Be brief."),
			openaitest.HasMessage("assistant", "Let me look."),
			openaitest.HasToolResult("call_1", `{"temp_c":4}`),
			openaitest.HasToolResult("call_2", "error: "),
			openaitest.HasToolResult("call_2", "no such city"),
		),
	})
	type city struct {
		City string `json:"city"`
	}
	type weather struct {
		TempC int `json:"temp_c"`
	}
	tool := actors.NewTool("get_weather", "Current weather in a city.", anyObject{}, func(_ context.Context, in city) (weather, error) {
		if in.City != "Oslo" {
			return weather{}, errors.New("no such city")
		}
		return weather{TempC: 4}, nil
	})
	agent := actors.NewAgent("assistant", llm, actors.WithTools(tool), actors.WithInstructions("Be brief."))
	got, err := agent.Call(st.Context(t.Context()), actors.Ask("How warm is it in Oslo and in Atlantis?"))
	require.NoError(t, err)
	require.Equal(t, "4 degrees in Oslo.", got.Text)
	require.Equal(t, core.Usage{InputTokens: 60, OutputTokens: 15}, got.Usage)
	require.JSONEq(t, `{"type":"object"}`, string(srv.Requests()[0].Tools[0].Parameters))
	require.Equal(t, "Current weather in a city.", srv.Requests()[0].Tools[0].Description)
}

func TestEveryMessageGoesOutInAFormThatTheAPITakes(t *testing.T) {
	srv, _, llm := setup(t, []openaitest.Step{openaitest.Text("Fine.")})
	call := func(id string) actors.ToolCall { return actors.ToolCall{ID: id, Name: "f", Arguments: `{"n":1}`} }
	failed := actors.ToolResult("c", "boom")
	failed.IsError = true
	marked := actors.ToolResult("d", "error: boom")
	marked.IsError = true
	_, err := llm.Call(t.Context(), actors.Request{
		Messages: []actors.Message{
			actors.System("Be brief."),
			actors.User("Call f."),
			{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call("a"), call("b"), call("c"), call("d")}},
			actors.ToolResult("a", "1"),
			actors.ToolResult("b", ""),
			failed,
			marked,
			actors.Assistant(""),
			actors.User("Well?"),
		},
		Tools: []actors.FunctionSpec{{Name: "f"}},
	})
	require.NoError(t, err)
	var body struct {
		Messages json.RawMessage
		Tools    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(srv.Requests()[0].Body, &body))
	asked := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{\"n\":1}"}}`, id)
	}
	require.JSONEq(t, `[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":"Call f."},
		{"role":"assistant","tool_calls":[`+asked("a")+`,`+asked("b")+`,`+asked("c")+`,`+asked("d")+`]},
		{"role":"tool","tool_call_id":"a","content":"1"},
		{"role":"tool","tool_call_id":"b","content":"(empty)"},
		{"role":"tool","tool_call_id":"c","content":"error: boom"},
		{"role":"tool","tool_call_id":"d","content":"error: boom"},
		{"role":"assistant","content":"(empty)"},
		{"role":"user","content":"Well?"}
	]`, string(body.Messages))
	require.JSONEq(t, `[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`, string(body.Tools))
}

func TestOptionsOfTheModelAreSentWithEachRequest(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(3, openaitest.Text("Fine.")))
	model := modelAt(t, srv.URL())
	model.Name = "llama-3"
	model.Options = actors.ModelOptions{
		Temperature:     new(0.0),
		TopP:            new(0.9),
		MaxTokens:       100,
		Seed:            new(int64(7)),
		Stop:            []string{"END"},
		Effort:          "low",
		SequentialTools: true,
		ToolChoice:      "f",
		ExtraBody:       map[string]any{"logit_bias": map[string]int{"5": 1}, "top_p": 0.8, "stop": nil},
	}
	llm := model.LLM(atOnce)
	require.Equal(t, "llama-3", llm.Name())

	withTools := question
	withTools.Tools = []actors.FunctionSpec{{Name: "f", Parameters: json.RawMessage(`{"type":"object"}`)}}
	overridden := question
	overridden.Options = actors.ModelOptions{Model: "llama-4", Temperature: new(1.0), ExtraBody: map[string]any{"top_p": 0.7}}
	for _, req := range []actors.Request{withTools, question, overridden} {
		_, err := llm.Call(t.Context(), req)
		require.NoError(t, err)
	}
	const messages = `"model":"llama-3","messages":[{"role":"user","content":"How are you?"}]`
	const options = `"temperature":0,"top_p":0.8,"max_tokens":100,"seed":7,"reasoning_effort":"low","logit_bias":{"5":1}`
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"f"}}`
	require.JSONEq(t, `{`+messages+`,`+options+`,`+tools+`}`, string(srv.Requests()[0].Body))
	require.JSONEq(t, `{`+messages+`,`+options+`}`, string(srv.Requests()[1].Body), "choices about tools are refused where there are none")
	last := string(srv.Requests()[2].Body)
	for _, want := range []string{`"model":"llama-4"`, `"temperature":1`, `"top_p":0.7`, `"seed":7`} {
		require.Contains(t, last, want)
	}
}

// Compatible services accept max_tokens, and some of them ignore max_completion_tokens; OpenAI's
// newer models refuse max_tokens.
func TestTheLimitOnTokensIsSentInTheFieldThatTheServiceKnows(t *testing.T) {
	for _, tc := range []struct{ baseURL, model, want string }{
		{"https://api.openai.com/v1", "gpt-4o", "max_completion_tokens"},
		{"https://eu.api.openai.com/v1", "gpt-4o", "max_completion_tokens"},
		{"https://mine.openai.azure.com", "gpt-4o", "max_completion_tokens"},
		{"http://localhost:11434/v1", "llama3.2", "max_tokens"},
		{"http://localhost:11434/v1", "gpt-oss:20b", "max_tokens"},
		{"http://localhost:4000/v1", "o3-mini", "max_completion_tokens"},
		{"http://localhost:4000/v1", "gpt-5-nano", "max_completion_tokens"},
		{"https://openrouter.ai/api/v1", "openai/o3", "max_tokens"},
	} {
		t.Run(tc.baseURL+" "+tc.model, func(t *testing.T) {
			var body map[string]any
			client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
				return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
			})}
			model := openai.Model{Name: tc.model, APIKey: "k", BaseURL: tc.baseURL, HTTPClient: client, Options: actors.ModelOptions{MaxTokens: 9}}
			_, err := model.LLM().Call(t.Context(), question)
			require.NoError(t, err)
			require.EqualValues(t, 9, body[tc.want])
			require.Equal(t, tc.want == "max_tokens", body["max_completion_tokens"] == nil)
		})
	}
}

func TestAnInvalidModelPanicsAndSaysWhy(t *testing.T) {
	client := goopenai.NewClient("key")
	with := func(o actors.ModelOptions) openai.Model { return openai.Model{Name: "m", Options: o} }
	for want, model := range map[string]openai.Model{
		"is combined with a key":               {Client: client, APIKey: "k", Name: "m"},
		"name of the model is empty":           {Client: client},
		"ends with white space":                {Client: client, Name: "m\n"},
		"Model.API is \"grpc\"":                {Name: "m", API: "grpc"},
		"AzureAPIVersion is set, but":          {Name: "m", AzureAPIVersion: "1"},
		"FirstToken or Idle":                   {Name: "m", Idle: -1},
		"is not a URL":                         {Name: "m", BaseURL: "localhost"},
		"Model.Options.Model is set":           with(actors.ModelOptions{Model: "other"}),
		"ModelOptions.MaxTokens is -1":         with(actors.ModelOptions{MaxTokens: -1}),
		"ModelOptions.Temperature is 2.5":      with(actors.ModelOptions{Temperature: new(2.5)}),
		"ModelOptions.TopP is NaN":             with(actors.ModelOptions{TopP: new(math.NaN())}),
		"an empty string":                      with(actors.ModelOptions{Stop: []string{""}}),
		"ModelOptions.ExtraBody[\"f\"] is not": with(actors.ModelOptions{ExtraBody: map[string]any{"f": func() {}}}),
		"has the type array":                   with(actors.ModelOptions{Format: &actors.Format{Name: "f", Schema: json.RawMessage(`{"type":"array"}`)}}),
		"is not a JSON object":                 with(actors.ModelOptions{Format: &actors.Format{Name: "f", Schema: json.RawMessage(`[`)}}),
		"cannot be the name":                   with(actors.ModelOptions{Format: &actors.Format{Name: "f f", Schema: json.RawMessage(`{}`)}}),
	} {
		t.Run(want, func(t *testing.T) {
			defer func() { require.ErrorContains(t, recover().(error), want) }()
			model.LLM()
		})
	}
}

func TestOneLLMServesManyGoroutines(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(32, openaitest.Failure(503, "busy")), openaitest.Forever(openaitest.Text("Fine.")))
	llm := llmAt(t, srv.URL(), actors.WithRetry(core.RetryConfig{
		InitialDelay: core.NoDelay, MaxAttempts: core.Unlimited,
	}))
	st := state.New()
	defer st.Close()
	ctx := st.Context(t.Context())
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got, err := llm.Call(ctx, question); err != nil || got.Message.Text != "Fine." {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, records(t, st, record.StatusStarted), 64)
	require.Len(t, srv.Requests(), 64)
}

func TestKeyAndBaseURLComeFromOptionsBeforeTheEnvironment(t *testing.T) {
	answering := func() *openaitest.Server {
		return openaitest.New(t, openaitest.Forever(openaitest.Respond(func(r openaitest.Request) openaitest.Step {
			return openaitest.Text(r.Header.Get("Authorization"))
		})))
	}
	ask := func(llm actors.LLM) string {
		got, err := llm.Call(t.Context(), question)
		require.NoError(t, err)
		return got.Message.Text
	}
	environment, option := answering(), answering()
	t.Setenv("OPENAI_API_KEY", "key of the environment")
	t.Setenv("OPENAI_BASE_URL", environment.URL())

	require.Equal(t, "Bearer key of the environment", ask(openai.New("m")))
	require.Len(t, environment.Requests(), 1)
	require.Equal(t, "Bearer mine", ask(openai.New("m", openai.WithAPIKey("mine"), openai.WithBaseURL(option.URL()))))
	require.Equal(t, "Bearer mine", ask(openai.Model{Name: "m", APIKey: "other", BaseURL: option.URL()}.LLM(openai.WithAPIKey("mine"))))
	require.Len(t, option.Requests(), 2)

	t.Setenv("OPENAI_API_KEY", "")
	require.Empty(t, ask(openai.New("m")), "another service may need no key")
}

func TestAMissingKeyFailsTheFirstCallAndSaysWhatToDo(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "")
	st := state.New()
	defer st.Close()
	_, err := openai.New("gpt-4o-mini", atOnce).Call(st.Context(t.Context()), question)
	require.ErrorIs(t, err, core.ErrPermanent)
	for _, want := range []string{"no API key", "OPENAI_API_KEY", "openai.WithAPIKey"} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, records(t, st, record.StatusStarted), 1)
}

func TestABaseURLInTheEnvironmentThatIsNoURLFailsTheFirstCallAndSaysSo(t *testing.T) {
	for _, base := range []string{"localhost:11434/v1", "127.0.0.1:11434", "::"} {
		t.Setenv("OPENAI_BASE_URL", base)
		_, err := openai.New("m", atOnce).Call(t.Context(), question)
		require.ErrorIs(t, err, core.ErrPermanent)
		require.ErrorContains(t, err, strconv.Quote(base)+" in OPENAI_BASE_URL is not a URL such as https://api.openai.com/v1")
	}
}

func TestAnHTTPClientOfTheUsersOwnIsUsed(t *testing.T) {
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "https://service.example/v1/chat/completions", r.URL.String())
		return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
	})}
	got, err := openai.New("m", openai.WithBaseURL("https://service.example/v1"), openai.WithHTTPClient(client)).Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Fine.", got.Message.Text)
}

func TestAnOptionOfAModelIsRefusedByOtherActors(t *testing.T) {
	for name, make := range map[string]func(){
		"NewAgent": func() { actors.NewAgent("a", openai.New("m"), openai.WithAPIKey("k")) },
		"NewLLM": func() {
			actors.NewLLM("m", func(context.Context, actors.Request) (actors.Response, error) { return actors.Response{}, nil }, openai.WithAPIKey("k"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.PanicsWithValue(t, `actors: "`+map[string]string{"NewAgent": "a", "NewLLM": "m"}[name]+`": openai.WithAPIKey is not an option of this constructor`, make)
		})
	}
}

func TestAttemptSaysWhichServiceAnswered(t *testing.T) {
	_, st, llm := setup(t, []openaitest.Step{openaitest.Text("fine")})
	_, err := llm.Call(st.Context(t.Context()), question)
	require.NoError(t, err)
	attributes := records(t, st, record.StatusCompleted)[0].Detail.Metadata
	require.Equal(t, "127.0.0.1", attributes["provider"])
	require.Equal(t, "stop", attributes["finish"])
	require.NotEmpty(t, attributes["response_id"])
}
